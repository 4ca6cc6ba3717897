// Which schedule was chosen for a problem, and why.
//
// Made by autotune/model/schedule_choice.h or by a plan; read through the C API and by the command.
// Threads: plain values.
#pragma once

#include <string>

#include "codegen/schedule.h"

namespace lssar {

// From the best evidence to the least. Values are part of the C ABI (lssar_schedule_origin); append
// only.
enum class ScheduleOrigin {
  kGiven = 0,         // the caller's own
  kExact = 1,         // measured on this GPU, in this bucket
  kNearest = 2,       // measured on this GPU, at another length
  kArchitecture = 3,  // measured on another GPU of this target
  kPredicted = 4,     // by the cost model
  kBuiltIn = 5,       // default_schedule
};

struct ScheduleChoice {
  Schedule schedule;
  ScheduleOrigin origin = ScheduleOrigin::kBuiltIn;
  // One line: "measured 1.25 ms on NVIDIA H200 ...", "no record for ...: built-in default".
  std::string reason;
};

}  // namespace lssar
