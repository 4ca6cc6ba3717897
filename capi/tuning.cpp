#include "capi/tuning.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "autotune/model/schedule_chooser.h"
#include "base/json_text.h"

namespace lssar::capi {
namespace {

#define LSSAR_SAME_ORIGIN(c_name, cpp_name)                                                  \
  static_assert(                                                                             \
      static_cast<int>(LSSAR_ORIGIN_##c_name) == static_cast<int>(ScheduleOrigin::cpp_name), \
      "lssar_schedule_origin and ScheduleOrigin are one enumeration")
LSSAR_SAME_ORIGIN(GIVEN, kGiven);
LSSAR_SAME_ORIGIN(EXACT, kExact);
LSSAR_SAME_ORIGIN(NEAREST, kNearest);
LSSAR_SAME_ORIGIN(ARCHITECTURE, kArchitecture);
LSSAR_SAME_ORIGIN(PREDICTED, kPredicted);
LSSAR_SAME_ORIGIN(DEFAULT, kDefault);
#undef LSSAR_SAME_ORIGIN

}  // namespace

Result<std::function<Result<ScheduleChoice>(const Problem&)>> schedule_chooser(
    Engine& engine, std::shared_ptr<const TuningTable> table, const PlanRequest& request) {
  ChooserOptions options;
  options.determinism = request.determinism;
  if (request.tuning != LSSAR_TUNING_BUILT_IN) options.user_table = std::move(table);
  if (!request.schedule_json.empty()) {
    LSSAR_ASSIGN_OR_RETURN(options.given, parse_json(request.schedule_json, "schedule"));
  }
  return std::function<Result<ScheduleChoice>(const Problem&)>(
      [chooser = ScheduleChooser(engine, std::move(options)),
       sizes = request.sizes](const Problem& problem) { return chooser.choose(problem, sizes); });
}

ScheduleTexts::ScheduleTexts(const Plan& plan) {
  for (const Pass pass : kAllPasses) {
    for (const bool is_fast : {false, true}) {
      const ScheduleChoice* choice = plan.choice(pass, is_fast);
      if (choice == nullptr) continue;
      texts_[static_cast<size_t>(pass)][is_fast ? 1 : 0] = {
          true, static_cast<int32_t>(choice->origin), choice->reason,
          to_json(choice->schedule).dump()};
    }
  }
}

Status ScheduleTexts::describe(Pass pass, lssar_schedule_info* info) const {
  const auto& [unaligned, aligned] = texts_[static_cast<size_t>(pass)];
  if (!unaligned.exists && !aligned.exists) {
    return {StatusCode::kNotPrepared,
            fmt::format("passes: this plan was not made for {}", pass_name(pass))};
  }
  const Text& first = aligned.exists ? aligned : unaligned;
  const bool has_second = aligned.exists && unaligned.exists;
  info->origin = first.origin;
  info->reason = first.reason.c_str();
  info->schedule_json = first.schedule_json.c_str();
  info->unaligned_origin = has_second ? unaligned.origin : first.origin;
  info->unaligned_reason = has_second ? unaligned.reason.c_str() : nullptr;
  info->unaligned_schedule_json = has_second ? unaligned.schedule_json.c_str() : nullptr;
  return {};
}

}  // namespace lssar::capi
