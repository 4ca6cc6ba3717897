#include "codegen/schedule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/field_json.h"
#include "codegen/breach.h"
#include "codegen/pass_needs.h"
#include "codegen/schedule_fields.h"
#include "codegen/schedule_rules.h"
#include "codegen/softplus_poly.h"

namespace lssar {
namespace {

// The member of `from` that indices into lists of fields lead to.
template <size_t First, size_t... Rest, typename S>
auto& member_at(S& from) {
  auto& member = from.*std::get<First>(fields_of<std::remove_const_t<S>>).member;
  if constexpr (sizeof...(Rest) == 0) {
    return member;
  } else {
    return member_at<Rest...>(member);
  }
}

// Every value of a flag or an enumeration.
template <typename T>
nlohmann::json all_values() {
  nlohmann::json values = nlohmann::json::array();
  if constexpr (std::is_same_v<T, bool>) values = {false, true};
  if constexpr (std::is_enum_v<T>)
    for (const EnumName<T>& entry : enum_names<T>) values.push_back(entry.name);
  return values;
}

// The leaves of the schedule's field at Path, or of S itself where it is the schedule.
template <typename S, size_t... Path>
void add_leaves(const std::string& name, std::vector<ScheduleLeaf>* leaves) {
  if constexpr (has_fields<S>) {
    const auto add = [&]<size_t I>(std::integral_constant<size_t, I>) {
      constexpr auto field = std::get<I>(fields_of<S>);
      add_leaves<typename decltype(field)::Type, Path..., I>(
          name + (name.empty() ? "" : ".") + field.name, leaves);
    };
    [&]<size_t... I>(std::index_sequence<I...>) { (add(std::integral_constant<size_t, I>()), ...); }
    (std::make_index_sequence<std::tuple_size_v<std::remove_const_t<decltype(fields_of<S>)>>>());
  } else {
    leaves->push_back(
        {name, [](const Schedule& from) { return static_cast<int>(member_at<Path...>(from)); },
         [](Schedule& into, int value) { member_at<Path...>(into) = static_cast<S>(value); },
         all_values<S>});
  }
}

// What both variants' defaults have in common.
Schedule common_defaults(const Problem& problem, DqMode dq_mode, EpsilonFrom epsilon) {
  Schedule schedule;
  schedule.dq_mode = dq_mode;
  schedule.epsilon = epsilon;
  schedule.load_path = problem.alignment >= 16 ? LoadPath::kCpAsync : LoadPath::kPlain;
  // With p = 1 gradients jump where U becomes 0, and an error there shows in full.
  schedule.softplus_degree =
      problem.dtype == DType::kFp32 || problem.p == 1 ? kMaxSoftplusDegree : 4;
  return schedule;
}

// Whether tiles of one head's queries would be half empty or more, and heads that share keys could
// fill them.
bool leaves_tiles_empty(const Schedule& schedule, const Problem& problem) {
  return problem.pass != Pass::kBackward && problem.seq_q != 0 &&
         2 * problem.seq_q <= schedule.forward.block_rows && problem.heads > problem.kv_heads;
}

// The default for a variant that the problem need not prefer.
Schedule default_of(Variant variant, const Problem& problem, const Target& target, DqMode dq_mode,
                    EpsilonFrom epsilon) {
  Schedule schedule = common_defaults(problem, dq_mode, epsilon);
  if (variant == Variant::kHopper && hopper_reason(problem, target).ok()) {
    choose_hopper(schedule, problem, target);
  } else {
    choose_portable(schedule, problem, target);
  }
  schedule.pack_gqa = leaves_tiles_empty(schedule, problem);
  return schedule;
}

Breach check_epsilon(const Refuse& refuse, const Schedule& schedule, const Problem& problem) {
  const bool is_read = problem.pass == Pass::kForwardTrain || problem.pass == Pass::kBackward;
  if (schedule.epsilon == EpsilonFrom::kX || !is_read || needs_epsilon(problem)) return {};
  return refuse("epsilon", "pass", [&] {
    return fmt::format(
        "allowed is x with problem.{}, because epsilon is 0 then: nothing is saved for it, and a "
        "pass would add up zeros",
        problem.p == 0 ? "p = 0" : "offset = 0");
  });
}

}  // namespace

Schedule default_schedule(const Problem& problem, const Target& target, DqMode dq_mode,
                          EpsilonFrom epsilon) {
  const bool is_hopper =
      prefers_hopper(common_defaults(problem, dq_mode, epsilon), problem, target);
  return default_of(is_hopper ? Variant::kHopper : Variant::kPortable, problem, target, dq_mode,
                    epsilon);
}

Schedule with_epsilon(const Schedule& schedule, EpsilonFrom epsilon, const Problem& problem,
                      const Target& target) {
  Schedule result = schedule;
  result.epsilon = epsilon;
  if (epsilon == schedule.epsilon) return result;
  const Schedule fresh = default_of(schedule.variant, problem, target, schedule.dq_mode, epsilon);
  if (problem.pass == Pass::kForwardTrain && fresh.block_dv != schedule.block_dv) return fresh;
  if (problem.pass == Pass::kBackward && !has_dq_tiles(schedule) && has_dq_tiles(result))
    result.dq = fresh.dq;
  return result;
}

const ScheduleLeaf* find_leaf(std::string_view name) {
  static const std::vector<ScheduleLeaf> leaves = [] {
    std::vector<ScheduleLeaf> all;
    add_leaves<Schedule>("", &all);
    return all;
  }();
  const auto found = std::find_if(leaves.begin(), leaves.end(),
                                  [&](const ScheduleLeaf& leaf) { return leaf.name == name; });
  return found == leaves.end() ? nullptr : &*found;
}

const char* epsilon_name(EpsilonFrom epsilon) { return enum_name(epsilon); }

Breach find_breach(const Schedule& schedule, const Problem& problem, const Target& target,
                   Reasons reasons) {
  const Refuse refuse(reasons);
  if (schedule.load_path == LoadPath::kCpAsync && problem.alignment < 16)
    return refuse("load_path", "cp_async", [&] {
      return fmt::format("it copies 16 bytes at a time, and problem.alignment is {}",
                         problem.alignment);
    });
  if (schedule.softplus_degree < kMinSoftplusDegree ||
      schedule.softplus_degree > kMaxSoftplusDegree)
    return refuse("softplus_degree", schedule.softplus_degree, [] {
      return fmt::format("allowed are {} to {}", kMinSoftplusDegree, kMaxSoftplusDegree);
    });
  if (schedule.skip_tiles && problem.pass != Pass::kBackward && problem.p == 0)
    return refuse("skip_tiles", "true",
                  "not allowed with p = 0, because LSSA's weights are not powers and hardly any is "
                  "small enough to be left out");
  LSSAR_RETURN_IF_BROKEN(check_epsilon(refuse, schedule, problem));
  return schedule.variant == Variant::kHopper ? check_hopper(refuse, schedule, problem, target)
                                              : check_portable(refuse, schedule, problem, target);
}

Status validate(const Schedule& schedule, const Problem& problem, const Target& target) {
  return find_breach(schedule, problem, target, Reasons::kGiven).status();
}

std::string to_string(const Schedule& schedule) {
  return fields_text(schedule) +
         (schedule.variant == Variant::kHopper ? fields_text(schedule.hopper) : "");
}

nlohmann::json to_json(const Schedule& schedule) { return fields_to_json(schedule); }

Result<Schedule> schedule_from_json(const nlohmann::json& json, const Schedule& defaults) {
  Schedule schedule = defaults;
  LSSAR_RETURN_IF_ERROR(read_fields(json, "schedule", schedule));
  return schedule;
}

Result<Schedule> schedule_for(const Problem& problem, const Target& target,
                              const nlohmann::json& json) {
  LSSAR_ASSIGN_OR_RETURN(const Schedule given, schedule_from_json(json, Schedule{}));
  const Schedule defaults =
      json.contains("variant")
          ? default_of(given.variant, problem, target, given.dq_mode, given.epsilon)
          : default_schedule(problem, target, given.dq_mode, given.epsilon);
  LSSAR_ASSIGN_OR_RETURN(Schedule schedule, schedule_from_json(json, defaults));
  // The default's stages fill the shared memory: larger tiles make do with fewer, unless told.
  const auto names_stages = [&](const char* tiling) {
    return json.contains(tiling) && json[tiling].contains("stages");
  };
  if (schedule.variant == Variant::kHopper) {
    const auto names_hopper = [&](const char* field) {
      return json.contains("hopper") && json["hopper"].contains(field);
    };
    if (!names_hopper("sum_path")) fit_sum_path(schedule, problem, target);
    const bool names_cols = json.contains("forward") && json["forward"].contains("block_cols");
    fit_stagger(schedule, problem, !names_cols, !names_stages("forward"));
    if (!names_stages("forward")) fit_stages(schedule, &Schedule::forward, problem, target);
    if (!names_stages("dkdv")) fit_stages(schedule, &Schedule::dkdv, problem, target);
    if (!names_stages("dq")) fit_stages(schedule, &Schedule::dq, problem, target);
    if (!names_hopper("store_path")) fit_store_path(schedule, problem);
    if (!names_hopper("tickets")) fit_tickets(schedule, problem);
  }
  return schedule;
}

}  // namespace lssar
