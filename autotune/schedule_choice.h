// Which schedule a problem gets without measuring anything, and why.
//
// Used by plans (through the C API), the command and the tuner (its incumbent). Threads: pure.
#pragma once

#include <string>
#include <vector>

#include "autotune/tuning_table.h"
#include "base/status.h"
#include "codegen/schedule.h"
#include "runtime/device.h"
#include "runtime/schedule_origin.h"

namespace lssar {

const char* origin_name(ScheduleOrigin origin);  // "given", "exact", "nearest", ...

// Looks in `tables`, each step in every table before the next step: measured on this GPU in this
// bucket -> on this GPU at the nearest sizes -> on another GPU of the target at the nearest sizes
// -> predicted for the target -> built-in default. Only records with `chosen` and Verdict::kOk
// count; one whose schedule is no longer legal, or whose source the generator would now make
// otherwise, is passed over (and the reason says how many were).
//
// Among records of a step and table, in this order: the nearest sizes; lengths fixed, or given with
// each call, as here; the same model of GPU, then
// the nearest number of SMs; the same compiler, then the same driver; the later one; the one whose
// text is smaller. Where the records stand in their file does not matter, so that the same records
// give the same choice on every rank. A compiler or driver of "" in `machine` is not known.
// REQUIRES: validate(problem).ok().
ScheduleChoice choose_schedule(const Problem& problem, const Sizes& sizes, Determinism determinism,
                               const Target& target, const Machine& machine,
                               const std::vector<const TuningTable*>& tables);

// Whether a record can still decide, on a usual GPU of its target: for the command.
enum class RecordState {
  kCurrent,
  kIllegal,  // its schedule breaks a rule now
  kStale,    // the generator makes another source of it now
};
RecordState record_state(const TuningRecord& record);

// The Machine of records made with this device and compiler.
Machine machine_of(const DeviceInfo& device, const std::string& compiler);

}  // namespace lssar
