#include "codegen/schedule.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/breach.h"
#include "codegen/json_fields.h"
#include "codegen/kernel.h"
#include "codegen/schedule_rules.h"
#include "codegen/softplus_poly.h"

namespace lssar {
namespace {

constexpr EnumName<Variant> kVariants[] = {{Variant::kPortable, "portable"},
                                           {Variant::kHopper, "hopper"}};
constexpr EnumName<LoadPath> kLoadPaths[] = {{LoadPath::kCpAsync, "cp_async"},
                                             {LoadPath::kPlain, "plain"}};
constexpr EnumName<DqMode> kDqModes[] = {
    {DqMode::kSplit, "split"}, {DqMode::kAtomic, "atomic"}, {DqMode::kOrdered, "ordered"}};
constexpr EnumName<EpsilonFrom> kEpsilons[] = {{EpsilonFrom::kX, "x"},
                                               {EpsilonFrom::kPass, "pass"}};
constexpr EnumName<NormForm> kNormForms[] = {{NormForm::kScores, "scores"},
                                             {NormForm::kOperands, "operands"}};
constexpr EnumName<WeightsFrom> kWeightsFrom[] = {{WeightsFrom::kRegisters, "registers"},
                                                  {WeightsFrom::kShared, "shared"}};
constexpr EnumName<StorePath> kStorePaths[] = {{StorePath::kRegisters, "registers"},
                                               {StorePath::kTma, "tma"}};
constexpr EnumName<Evaluator> kEvaluators[] = {
    {Evaluator::kFull, "full"}, {Evaluator::kShort, "short"}, {Evaluator::kLinear, "linear"}};

nlohmann::json tiling_to_json(const Tiling& tiling) {
  return {{"block_rows", tiling.block_rows},
          {"block_cols", tiling.block_cols},
          {"stages", tiling.stages},
          {"min_blocks", tiling.min_blocks}};
}

Status read_tiling(JsonFields& fields, const char* name, Tiling& tiling) {
  const nlohmann::json* object = fields.object(name);
  if (object == nullptr) return {};
  JsonFields inner(*object, std::string("schedule.") + name);
  inner.read("block_rows", tiling.block_rows);
  inner.read("block_cols", tiling.block_cols);
  inner.read("stages", tiling.stages);
  inner.read("min_blocks", tiling.min_blocks);
  return inner.finish();
}

nlohmann::json hopper_to_json(const HopperOptions& hopper) {
  return {{"score_cols", hopper.score_cols},
          {"overlap", hopper.overlap},
          {"ping_pong", hopper.ping_pong},
          {"queries_in_registers", hopper.queries_in_registers},
          {"persistent", hopper.persistent},
          {"tickets", hopper.tickets},
          {"cluster", hopper.cluster},
          {"stagger", hopper.stagger},
          {"head_group", hopper.head_group},
          {"weights_from", enum_name(kWeightsFrom, hopper.weights_from)},
          {"store_path", enum_name(kStorePaths, hopper.store_path)},
          {"sum_path", enum_name(kStorePaths, hopper.sum_path)},
          {"norm_form", enum_name(kNormForms, hopper.norm_form)},
          {"evaluator", enum_name(kEvaluators, hopper.evaluator)},
          {"producer_registers", hopper.producer_registers},
          {"consumer_registers", hopper.consumer_registers}};
}

Status read_hopper(JsonFields& fields, HopperOptions& hopper) {
  const nlohmann::json* object = fields.object("hopper");
  if (object == nullptr) return {};
  JsonFields inner(*object, "schedule.hopper");
  inner.read("score_cols", hopper.score_cols);
  inner.read("overlap", hopper.overlap);
  inner.read("ping_pong", hopper.ping_pong);
  inner.read("queries_in_registers", hopper.queries_in_registers);
  inner.read("persistent", hopper.persistent);
  inner.read("tickets", hopper.tickets);
  inner.read("cluster", hopper.cluster);
  inner.read("stagger", hopper.stagger);
  inner.read("head_group", hopper.head_group);
  inner.read_enum("weights_from", kWeightsFrom, hopper.weights_from);
  inner.read_enum("store_path", kStorePaths, hopper.store_path);
  inner.read_enum("sum_path", kStorePaths, hopper.sum_path);
  inner.read_enum("norm_form", kNormForms, hopper.norm_form);
  inner.read_enum("evaluator", kEvaluators, hopper.evaluator);
  inner.read("producer_registers", hopper.producer_registers);
  inner.read("consumer_registers", hopper.consumer_registers);
  return inner.finish();
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

const char* epsilon_name(EpsilonFrom epsilon) { return enum_name(kEpsilons, epsilon); }

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
  const auto tiling = [](const Tiling& t) {
    return fmt::format("{}x{}x{}{}", t.block_rows, t.block_cols, t.stages,
                       t.min_blocks == 0 ? "" : fmt::format("@{}", t.min_blocks));
  };
  const HopperOptions& h = schedule.hopper;
  const std::string hopper =
      schedule.variant != Variant::kHopper
          ? ""
          : fmt::format(
                " score_cols {}{}{}{}{}{}{}{} head_group {} weights from {} store {} sum {} norms "
                "in "
                "{} "
                "evaluator {} registers {}/{}",
                h.score_cols, h.overlap ? " overlap" : "", h.ping_pong ? " ping_pong" : "",
                h.queries_in_registers ? " queries_in_registers" : "",
                h.persistent ? " persistent" : "", h.tickets ? " tickets" : "",
                h.cluster == 1 ? "" : fmt::format(" cluster {}", h.cluster),
                h.stagger == 1 ? "" : fmt::format(" stagger {}", h.stagger), h.head_group,
                enum_name(kWeightsFrom, h.weights_from), enum_name(kStorePaths, h.store_path),
                enum_name(kStorePaths, h.sum_path), enum_name(kNormForms, h.norm_form),
                enum_name(kEvaluators, h.evaluator), h.producer_registers, h.consumer_registers);
  return fmt::format("{} {} forward {} block_dv {} dkdv {}{} dq {} {}{}{}{} softplus_degree {}{}",
                     enum_name(kVariants, schedule.variant),
                     enum_name(kLoadPaths, schedule.load_path), tiling(schedule.forward),
                     schedule.block_dv, tiling(schedule.dkdv),
                     schedule.split_dkdv ? " (split)" : "", tiling(schedule.dq),
                     enum_name(kDqModes, schedule.dq_mode),
                     schedule.epsilon == EpsilonFrom::kPass ? " epsilon by pass" : "",
                     schedule.skip_tiles ? " skip_tiles" : "", schedule.pack_gqa ? " pack_gqa" : "",
                     schedule.softplus_degree, hopper);
}

nlohmann::json to_json(const Schedule& schedule) {
  return {{"variant", enum_name(kVariants, schedule.variant)},
          {"load_path", enum_name(kLoadPaths, schedule.load_path)},
          {"forward", tiling_to_json(schedule.forward)},
          {"dkdv", tiling_to_json(schedule.dkdv)},
          {"dq", tiling_to_json(schedule.dq)},
          {"block_dv", schedule.block_dv},
          {"split_dkdv", schedule.split_dkdv},
          {"dq_mode", enum_name(kDqModes, schedule.dq_mode)},
          {"epsilon", enum_name(kEpsilons, schedule.epsilon)},
          {"skip_tiles", schedule.skip_tiles},
          {"pack_gqa", schedule.pack_gqa},
          {"softplus_degree", schedule.softplus_degree},
          {"hopper", hopper_to_json(schedule.hopper)}};
}

Result<Schedule> schedule_from_json(const nlohmann::json& json, const Schedule& defaults) {
  Schedule schedule = defaults;
  JsonFields fields(json, "schedule");
  fields.read_enum("variant", kVariants, schedule.variant);
  fields.read_enum("load_path", kLoadPaths, schedule.load_path);
  LSSAR_RETURN_IF_ERROR(read_tiling(fields, "forward", schedule.forward));
  LSSAR_RETURN_IF_ERROR(read_tiling(fields, "dkdv", schedule.dkdv));
  LSSAR_RETURN_IF_ERROR(read_tiling(fields, "dq", schedule.dq));
  fields.read("block_dv", schedule.block_dv);
  fields.read("split_dkdv", schedule.split_dkdv);
  fields.read_enum("dq_mode", kDqModes, schedule.dq_mode);
  fields.read_enum("epsilon", kEpsilons, schedule.epsilon);
  fields.read("skip_tiles", schedule.skip_tiles);
  fields.read("pack_gqa", schedule.pack_gqa);
  fields.read("softplus_degree", schedule.softplus_degree);
  LSSAR_RETURN_IF_ERROR(read_hopper(fields, schedule.hopper));
  LSSAR_RETURN_IF_ERROR(fields.finish());
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
