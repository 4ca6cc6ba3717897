#include "runtime/schedule_origin.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/enum_names.h"

namespace lssar {
namespace {

constexpr EnumName<ScheduleOrigin> kOrigins[] = {
    {ScheduleOrigin::kGiven, "given"},         {ScheduleOrigin::kExact, "exact"},
    {ScheduleOrigin::kNearest, "nearest"},     {ScheduleOrigin::kArchitecture, "architecture"},
    {ScheduleOrigin::kPredicted, "predicted"}, {ScheduleOrigin::kDefault, "default"}};

}  // namespace

const char* origin_name(ScheduleOrigin origin) { return enum_name(kOrigins, origin); }

const char* source_name(const ScheduleChoice& choice) {
  if (choice.origin == ScheduleOrigin::kGiven) return "given";
  if (choice.origin == ScheduleOrigin::kDefault) return "default";
  return choice.is_shipped ? "shipped" : "tuned";
}

void describe_choice(const ScheduleChoice& choice, nlohmann::json* kernel) {
  (*kernel)["schedule_from"] = source_name(choice);
  (*kernel)["schedule_origin"] = origin_name(choice.origin);
  (*kernel)["schedule_reason"] = choice.reason;
}

Status share_epsilon(ScheduleChoice* choice, EpsilonFrom epsilon, const std::string& whose,
                     const Problem& problem, const Target& target) {
  if (choice->schedule.epsilon == epsilon) return {};
  choice->schedule = with_epsilon(choice->schedule, epsilon, problem, target);
  choice->reason += fmt::format("; epsilon as {}", whose);
  return validate(choice->schedule, problem, target);
}

}  // namespace lssar
