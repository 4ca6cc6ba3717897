// Which schedule a problem gets without measuring anything, and why.
//
// Used by plans (through the C API), the command and the tuner (its incumbent). Threads: pure, but
// for reading files in load_tables.
#pragma once

#include <string>
#include <vector>

#include "autotune/tuning_table.h"
#include "base/status.h"
#include "codegen/schedule.h"
#include "runtime/device.h"

namespace lssar {

// From the best evidence to the least.
enum class ScheduleOrigin {
  kGiven,         // the caller's own
  kExact,         // measured on this GPU, in this bucket
  kNearest,       // measured on this GPU, at another length
  kArchitecture,  // measured on another GPU of this target
  kPredicted,     // by the cost model
  kBuiltIn,       // default_schedule
};
const char* origin_name(ScheduleOrigin origin);  // "given", "exact", "nearest", ...

struct ScheduleChoice {
  Schedule schedule;
  ScheduleOrigin origin = ScheduleOrigin::kBuiltIn;
  // One line: "measured on NVIDIA H200 2026-11-21, bucket ...", "no record for ...: built-in".
  std::string reason;
};

// Looks in `tables` in order: exact -> nearest length -> same architecture -> predicted ->
// built-in, each step in every table before the next step. Only records with `chosen` and
// Verdict::kOk count; one whose schedule is no longer legal, or whose source the generator would
// now make otherwise, is passed over (and the reason says how many were). Ties go to the later
// record. The same tables give the same choice on every rank.
// REQUIRES: validate(problem).ok().
ScheduleChoice choose_schedule(const Problem& problem, const Sizes& sizes, Determinism determinism,
                               const Target& target, const Machine& machine,
                               const std::vector<const TuningTable*>& tables);

// The Machine of records made with this device and compiler.
Machine machine_of(const DeviceInfo& device, const std::string& compiler);

}  // namespace lssar
