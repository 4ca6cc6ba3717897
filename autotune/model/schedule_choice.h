// The schedule that a problem gets without measurement, and why.
//
// Used by plans (through the C API), the command and the tuner (its incumbent). Threads: pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/table/tuning_table.h"
#include "base/status.h"
#include "codegen/schedule.h"
#include "device/device.h"
#include "runtime/schedule_origin.h"

namespace lssar {

// The one function that chooses: for every plan, for every subcommand, and for the tuner's
// incumbent. In this order: `given`; the best record of `tables`; default_schedule.
//
// Looks in all `tables` at records with `chosen` and Verdict::kOk. It skips a record whose schedule
// is no longer legal, or whose source the generator would now make differently; the reason says how
// many were skipped.
//
// Records of near sizes (each length within a factor of 2, batch * heads within 4) come before
// those of distant sizes. A distant record decides only if the cost model estimates it to be faster
// than the default for this problem. Among both, in this order: measured on this GPU in this
// bucket, measured on this GPU, measured on another GPU of the target, predicted for the target;
// with the problem's window, with varlen, with invariant, with rotary positions, before one that
// lacks it; the nearest sizes; the earlier table; lengths fixed or given with each call, as here;
// the same model of GPU, then the nearest number of SMs; the same compiler, then the same driver;
// the later record; the record with the smaller text. The place of a record in its file does not
// matter, so that the same records give the same choice on every rank. A compiler or driver of ""
// in `machine` is not known. A size of 0 in `sizes` is not known, and size_distance says what it is
// taken for. REQUIRES: validate(problem).ok().
ScheduleChoice choose_schedule(const Problem& problem, const Sizes& sizes, Determinism determinism,
                               const Target& target, const Machine& machine,
                               const std::vector<const TuningTable*>& tables,
                               const std::optional<Schedule>& given = std::nullopt);

// Whether a record can still decide, on a usual GPU of its target. For the command.
enum class RecordState {
  kCurrent,
  kIllegal,  // its schedule breaks a rule of this version
  kStale,    // the generator now makes another source of it
};
RecordState record_state(const TuningRecord& record);

// The Machine of records made with this device and compiler.
Machine machine_of(const DeviceInfo& device, const std::string& compiler);

}  // namespace lssar
