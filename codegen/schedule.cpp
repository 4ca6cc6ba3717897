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
#include "codegen/source/softplus_poly.h"

namespace lssar {
namespace {

// The member of `from` at a path of indices into field lists.
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

// Adds the leaves of the field at Path, whose type is S. Without a Path, those of the schedule.
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

Breach check_epsilon(const Refuse& refuse, const Schedule& schedule, const Problem& problem) {
  const bool is_read = problem.pass == Pass::kForwardTrain || problem.pass == Pass::kBackward;
  if (!is_read) return {};
  const bool has_no_x = is_general(problem) && needs_epsilon(problem);
  if (schedule.epsilon == EpsilonFrom::kX && has_no_x)
    return refuse("epsilon", "x",
                  "allowed is pass with this problem.score, because X is summed up only by the "
                  "kernels made for the default score function");
  if (schedule.epsilon == EpsilonFrom::kX || needs_epsilon(problem)) return {};
  return refuse("epsilon", "pass", [&] {
    return fmt::format(
        "allowed is x with problem.{}, because epsilon is 0 then: nothing is saved for it, and a "
        "pass would add up zeros",
        problem.p == 0        ? "p = 0"
        : problem.offset == 0 ? "offset = 0"
                              : "score's normalizer");
  });
}

}  // namespace

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
  if (schedule.softplus_degree < kMinSoftplusDegree ||
      schedule.softplus_degree > kMaxSoftplusDegree)
    return refuse("softplus_degree", schedule.softplus_degree, [] {
      return fmt::format("allowed are {} to {}", kMinSoftplusDegree, kMaxSoftplusDegree);
    });
  // A CPU's schedule has fields of its own, and reads no other.
  if (target.is_cpu()) return check_cpu(refuse, schedule, problem, target);
  if (schedule.variant == Variant::kCpu)
    return refuse("variant", "cpu", [&] {
      return fmt::format("allowed are portable and hopper on {}, because it is a GPU",
                         target.name());
    });
  if (schedule.load_path == LoadPath::kCpAsync && problem.alignment < 16)
    return refuse("load_path", "cp_async", [&] {
      return fmt::format("it copies 16 bytes at a time, and problem.alignment is {}",
                         problem.alignment);
    });
  if (schedule.skip_tiles && problem.pass != Pass::kBackward && problem.p == 0)
    return refuse("skip_tiles", "true",
                  "not allowed with p = 0, because LSSA's weights are not powers and hardly any is "
                  "small enough to be left out");
  if (schedule.skip_tiles && is_general(problem))
    return refuse("skip_tiles", "true",
                  "not allowed with this problem.score, because only the default one's inverse "
                  "says which scores have small weights");
  LSSAR_RETURN_IF_BROKEN(check_epsilon(refuse, schedule, problem));
  LSSAR_RETURN_IF_BROKEN(check_split_keys(refuse, schedule, problem));
  return schedule.variant == Variant::kHopper ? check_hopper(refuse, schedule, problem, target)
                                              : check_portable(refuse, schedule, problem, target);
}

Status validate(const Schedule& schedule, const Problem& problem, const Target& target) {
  return find_breach(schedule, problem, target, Reasons::kGiven).status();
}

std::string to_string(const Schedule& schedule) {
  if (schedule.variant == Variant::kCpu)
    return fmt::format("cpu{} softplus_degree {}{}", fields_text(schedule.cpu),
                       schedule.softplus_degree, sums_dq(schedule) ? " dq_mode ordered" : "");
  return fields_text(schedule) +
         (schedule.variant == Variant::kHopper ? fields_text(schedule.hopper) : "");
}

nlohmann::json to_json(const Schedule& schedule) { return fields_to_json(schedule); }

Result<Schedule> schedule_from_json(const nlohmann::json& json, const Schedule& defaults) {
  Schedule schedule = defaults;
  LSSAR_RETURN_IF_ERROR(read_fields(json, "schedule", schedule));
  return schedule;
}

}  // namespace lssar
