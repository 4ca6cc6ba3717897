// Schedules that nobody measured (declared in schedule.h): the default, and a user's fields over
// the default.
#include <optional>

#include <nlohmann/json.hpp>

#include "codegen/pass_needs.h"
#include "codegen/schedule.h"
#include "codegen/schedule_rules.h"
#include "codegen/source/softplus_poly.h"

namespace lssar {
namespace {

// The largest d + dv with which a backward sums dq in its dk/dv kernel.
constexpr int kMaxSumDims = 256;
// The fewest rows of its tiles, where fills_schedulers.
constexpr int kLeastSumRows = 64;

// The fields in which the defaults of both variants agree.
Schedule common_defaults(const Problem& problem, DqMode dq_mode, EpsilonFrom epsilon) {
  Schedule schedule;
  schedule.dq_mode = dq_mode;
  schedule.epsilon = epsilon;
  schedule.load_path = problem.alignment >= 16 ? LoadPath::kCpAsync : LoadPath::kPlain;
  schedule.softplus_degree = default_softplus_degree(problem);
  return schedule;
}

// Whether a tile of one head's queries would be at least half empty, and other heads that share the
// keys could fill it.
bool leaves_tiles_empty(const Schedule& schedule, const Problem& problem) {
  return problem.pass != Pass::kBackward && problem.seq_q != 0 &&
         2 * problem.seq_q <= schedule.forward.block_rows && problem.heads > problem.kv_heads;
}

// The default of `variant`, even if the problem prefers the other one. Without a variant, the
// default of the one that the problem prefers. `divides_keys` likewise: whether blocks of a
// portable forward divide the keys.
Schedule default_of(std::optional<Variant> variant, const Problem& problem, const Target& target,
                    DqMode dq_mode, EpsilonFrom epsilon,
                    std::optional<bool> divides_keys = std::nullopt) {
  const bool has_no_x = is_general(problem) && needs_epsilon(problem);
  if (has_no_x && (problem.pass == Pass::kForwardTrain || problem.pass == Pass::kBackward))
    epsilon = EpsilonFrom::kPass;
  Schedule schedule = common_defaults(problem, dq_mode, epsilon);
  if (target.is_cpu()) {
    choose_cpu(schedule, problem, target);
    return schedule;
  }
  const bool may_divide = !variant || *variant == Variant::kPortable;
  if (may_divide && divides_keys.value_or(prefers_split_keys(problem))) {
    choose_split_keys(schedule, problem, target);
    return schedule;
  }
  const bool is_hopper = variant
                             ? *variant == Variant::kHopper && hopper_reason(problem, target).ok()
                             : prefers_hopper(schedule, problem, target);
  if (is_hopper) {
    choose_hopper(schedule, problem, target);
  } else {
    choose_portable(schedule, problem, target);
  }
  // Variant::kHopper packs no heads of sequences.
  schedule.pack_gqa = leaves_tiles_empty(schedule, problem) && !(is_hopper && problem.varlen);
  return schedule;
}

// Where dq is summed by default: in the dk/dv kernel if the cost model says that this is faster and
// its tiles fit.
DqMode default_dq_mode(std::optional<Variant> variant, const Problem& problem, const Target& target,
                       EpsilonFrom epsilon, Determinism determinism) {
  if (problem.pass == Pass::kBackward && target.is_cpu())
    return is_general(problem) ? DqMode::kSplit : DqMode::kOrdered;
  if (problem.pass != Pass::kBackward || problem.dtype == DType::kFp32) return DqMode::kSplit;
  if (problem.invariant) return DqMode::kSplit;  // which every problem can have
  const int dims = problem.head_dim + problem.head_dim_v;
  if (dims > kMaxSumDims) return DqMode::kSplit;
  const auto default_with = [&](DqMode mode) {
    return default_of(variant, problem, target, mode, epsilon);
  };
  const bool repeats = determinism == Determinism::kRepeatable;
  // Hopper kernels lose more by waiting for turns than a separate dq kernel costs.
  if (repeats && default_with(DqMode::kSplit).variant == Variant::kHopper) return DqMode::kSplit;
  const DqMode mode = repeats ? DqMode::kOrdered : DqMode::kAtomic;
  const Schedule schedule = default_with(mode);
  // Warps share the columns of dq in multiples of 16. Where they cannot, tiles have fewer rows, and
  // a dq kernel is faster.
  if (fills_schedulers(problem, target) && schedule.dkdv.block_rows < kLeastSumRows)
    return DqMode::kSplit;
  return validate(schedule, problem, target).ok() ? mode : DqMode::kSplit;
}

// The default's stages fill the shared memory. Larger tiles get fewer stages, unless `json` names
// the stages. The same holds for other fields of Variant::kHopper that depend on tiles.
void fit_unnamed(Schedule& schedule, const nlohmann::json& json, const Problem& problem,
                 const Target& target) {
  if (schedule.variant != Variant::kHopper) return;
  const auto names = [&](const char* object, const char* field) {
    return json.contains(object) && json[object].contains(field);
  };
  if (!names("hopper", "sum_path")) fit_sum_path(schedule, problem, target);
  fit_stagger(schedule, problem, !names("forward", "block_cols"), !names("forward", "stages"));
  if (!names("forward", "stages")) fit_stages(schedule, &Schedule::forward, problem, target);
  if (!names("dkdv", "stages")) fit_stages(schedule, &Schedule::dkdv, problem, target);
  if (!names("dq", "stages")) fit_stages(schedule, &Schedule::dq, problem, target);
  if (!names("hopper", "store_path")) fit_store_path(schedule, problem);
  if (!names("hopper", "tickets")) fit_tickets(schedule, problem);
}

}  // namespace

int default_softplus_degree(const Problem& problem) {
  // At p = 1 gradients jump where U becomes 0, so an error there shows in full.
  return problem.dtype == DType::kFp32 || problem.p == 1 ? kMaxSoftplusDegree : 4;
}

Schedule default_schedule(const Problem& problem, const Target& target, Determinism determinism) {
  const DqMode mode = default_dq_mode(std::nullopt, problem, target, EpsilonFrom::kX, determinism);
  return default_schedule(problem, target, mode);
}

Schedule default_schedule(const Problem& problem, const Target& target, DqMode dq_mode,
                          EpsilonFrom epsilon) {
  return default_of(std::nullopt, problem, target, dq_mode, epsilon);
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

Result<Schedule> schedule_for(const Problem& problem, const Target& target,
                              const nlohmann::json& json, Determinism determinism) {
  LSSAR_ASSIGN_OR_RETURN(const Schedule given, schedule_from_json(json, Schedule{}));
  std::optional<Variant> variant;
  if (json.contains("variant")) variant = given.variant;
  std::optional<bool> divides_keys;
  if (json.contains("split_keys"))
    divides_keys = splits_keys(given) && problem.pass == Pass::kForward;
  const auto with_mode = [&](DqMode mode) -> Result<Schedule> {
    const auto over_default = [&](std::optional<bool> divides) {
      return schedule_from_json(json,
                                default_of(variant, problem, target, mode, given.epsilon, divides));
    };
    LSSAR_ASSIGN_OR_RETURN(Schedule schedule, over_default(divides_keys));
    // That blocks divide keys was the default's choice. It gives way to a field of `json` that it
    // cannot be combined with.
    if (!divides_keys && splits_keys(schedule) && !validate(schedule, problem, target).ok()) {
      LSSAR_ASSIGN_OR_RETURN(schedule, over_default(false));
    }
    fit_unnamed(schedule, json, problem, target);
    return schedule;
  };
  if (json.contains("dq_mode")) return with_mode(given.dq_mode);
  if (json.contains("dq")) return with_mode(DqMode::kSplit);  // others would ignore the field
  const DqMode mode = default_dq_mode(variant, problem, target, given.epsilon, determinism);
  LSSAR_ASSIGN_OR_RETURN(const Schedule schedule, with_mode(mode));
  if (mode == DqMode::kSplit || validate(schedule, problem, target).ok()) return schedule;
  return with_mode(DqMode::kSplit);
}

}  // namespace lssar
