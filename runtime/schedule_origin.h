// Which schedule was chosen for a problem, and why.
//
// autotune/model/schedule_choice.h or a plan makes it; the C API and the command read it. Threads:
// plain values and pure functions.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/schedule.h"

namespace lssar {

// From the best evidence to the least. The values are part of the C ABI (lssar_schedule_origin):
// append only.
enum class ScheduleOrigin {
  kGiven = 0,         // the caller's own
  kExact = 1,         // measured on this GPU, in this bucket
  kNearest = 2,       // on this GPU, at another length or without the window, varlen or invariant
  kArchitecture = 3,  // measured on another GPU of this target
  kPredicted = 4,     // by the cost model
  kDefault = 5,       // default_schedule
};
const char* origin_name(ScheduleOrigin origin);  // "given", "exact", "nearest", ..., "default"

struct ScheduleChoice {
  Schedule schedule;
  ScheduleOrigin origin = ScheduleOrigin::kDefault;
  // One line that begins with source_name: "given by the caller", "tuned (exact: measured 1.25 ms
  // on NVIDIA H200 ..., bucket ..., table ...)", "default (no record for ...)".
  std::string reason;
  bool is_shipped = false;  // from the records that come with the library
};

// Who chose it: "given", "tuned" (the user's tuning table), "shipped" (the records that come with
// the library), "default".
const char* source_name(const ScheduleChoice& choice);

// Writes schedule_from, schedule_origin and schedule_reason into the JSON that describes a kernel.
void describe_choice(const ScheduleChoice& choice, nlohmann::json* kernel);

// Makes the choice take epsilon from `epsilon`, because the passes of a training step share what is
// saved. The reason then says "epsilon as `whose`". Errors: validate's.
Status share_epsilon(ScheduleChoice* choice, EpsilonFrom epsilon, const std::string& whose,
                     const Problem& problem, const Target& target);

}  // namespace lssar
