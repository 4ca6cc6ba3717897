// Tuning tables in the C API: chooses a plan's schedules from a context's table, and keeps the
// texts that lssar_plan_get_schedule returns.
//
// Internal to the C API (capi.cpp). Threads: pure functions; the values are constant once made.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "autotune/table/tuning_table.h"
#include "base/status.h"
#include "capi/structs.h"
#include "lssar/lssar.h"
#include "runtime/engine.h"
#include "runtime/plan.h"

namespace lssar::capi {

// For PlanOptions::choose, which is called while the plan is created. Error: schedule_json is not
// JSON.
Result<std::function<Result<ScheduleChoice>(const Problem&)>> schedule_chooser(
    Engine& engine, std::shared_ptr<const TuningTable> table, const PlanRequest& request);

class ScheduleTexts {
 public:
  ScheduleTexts() = default;
  explicit ScheduleTexts(const Plan& plan);

  // Fills `info` except its size. kNotPrepared if the plan has no such pass.
  Status describe(Pass pass, lssar_schedule_info* info) const;

 private:
  struct Text {
    bool exists = false;
    int32_t origin = 0;
    std::string reason, schedule_json;
  };
  // by pass, then unaligned and aligned
  std::array<std::array<Text, 2>, std::size(kAllPasses)> texts_;
};

}  // namespace lssar::capi
