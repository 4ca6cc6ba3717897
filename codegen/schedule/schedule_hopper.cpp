// Rules and defaults of Variant::kHopper.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/pass_needs.h"
#include "codegen/schedule_rules.h"
#include "codegen/shapes.h"
#include "codegen/visible_keys.h"

namespace lssar {
namespace {

constexpr int kMaxConsumers = 3;  // with the producer, all 16 warps of 128 registers there are
constexpr int kMaxCols = 256;     // of a wgmma
constexpr int kMaxStages = 12;
constexpr int kMinStages = 2;
constexpr int kMaxRegisterDim = 128;
constexpr int kMaxHeadGroup = 1024;
constexpr int kMaxStagger = 64;
constexpr int kMinRegisters = 24, kMaxRegisters = 240;  // setmaxnreg

Breach check_registers(const Refuse& refuse, const HopperOptions& hopper, const Tiling& tiling) {
  const int producer = hopper.producer_registers;
  const int consumer = hopper.consumer_registers;
  if (producer == 0 && consumer == 0) return {};
  for (const auto& [rule, value] : {std::pair{"hopper.producer_registers", producer},
                                    std::pair{"hopper.consumer_registers", consumer}})
    if (value < kMinRegisters || value > kMaxRegisters || value % 8 != 0)
      return refuse(rule, value,
                    "allowed are multiples of 8 from 24 to 240, or 0 and 0: what the block allows");
  const int threads = hopper_threads(tiling);
  const int launched = hopper_launch_registers(tiling);
  if (producer > launched || consumer < launched)
    return refuse("hopper.consumer_registers", consumer, [&] {
      return fmt::format(
          "with {} threads and {} blocks per SM each starts with {} registers: "
          "allowed are that and more, and for the producer that and less",
          threads, tiling.min_blocks, launched);
    });
  const int used = kWarpGroupThreads * producer + (threads - kWarpGroupThreads) * consumer;
  if (used > threads * launched)
    return refuse("hopper.consumer_registers", consumer, [&] {
      return fmt::format(
          "the producer's {} and {} consumer threads need {} registers; {} "
          "threads of {} have {}",
          producer, threads - kWarpGroupThreads, used, threads, launched, threads * launched);
    });
  return {};
}

Breach check_tiling(const Refuse& refuse, const TilingRules& rules, const Tiling& tiling) {
  if (tiling.block_rows % 64 != 0 || tiling.block_rows < 64 ||
      tiling.block_rows > 64 * kMaxConsumers)
    return refuse(rules.block_rows, tiling.block_rows,
                  "allowed are 64, 128 and 192, because a consumer warp group owns 64 rows");
  if (tiling.block_cols < 16 || tiling.block_cols > kMaxCols || tiling.block_cols % 16 != 0)
    return refuse(rules.block_cols, tiling.block_cols,
                  "allowed are multiples of 16 from 16 to 256, the depth of a wgmma");
  if (tiling.stages < kMinStages || tiling.stages > kMaxStages)
    return refuse(rules.stages, tiling.stages,
                  "allowed are 2 to 12, because a key tile and the value tile before it are in use "
                  "together");
  if (tiling.min_blocks < 1 || tiling.min_blocks > 4)
    return refuse(rules.min_blocks, tiling.min_blocks, "allowed are 1 to 4");
  return {};
}

// Ping-pong needs a second consumer.
Breach check_ping_pong(const Refuse& refuse, const TilingRules& rules, const Tiling& tiling,
                       bool ping_pong) {
  if (!ping_pong || tiling.block_rows >= 128) return {};
  return refuse(rules.block_rows, tiling.block_rows,
                "with hopper.ping_pong, allowed are 128 and 192, because it takes two consumers");
}

Breach check_space(const Refuse& refuse, const TilingRules& rules, const Tiling& tiling,
                   const Problem& problem, int dynamic_bytes, const Target& target) {
  const int bytes = dynamic_bytes + hopper_static_shared_bytes(problem);
  LSSAR_RETURN_IF_BROKEN(check_shared(refuse, rules.tiling, bytes, target));
  if ((bytes + kReservedSharedBytes) * tiling.min_blocks > target.shared_bytes_per_sm)
    return refuse(rules.min_blocks, tiling.min_blocks, [&] {
      return fmt::format("that many blocks of {} bytes of shared memory do not fit on an SM",
                         bytes);
    });
  return {};
}

// A block's share of a tile is whole groups of 8 rows, because the swizzle repeats every 8 rows.
Breach check_cluster(const Refuse& refuse, const Schedule& schedule) {
  const int cluster = schedule.hopper.cluster;
  if (cluster != 1 && cluster != 2 && cluster != 4)
    return refuse("hopper.cluster", cluster, "allowed are 1, 2 and 4");
  const int share = 8 * cluster;
  for (const auto& [rule, value] : {std::pair{"hopper.score_cols", schedule.hopper.score_cols},
                                    std::pair{"forward.block_cols", schedule.forward.block_cols}})
    if (value % share != 0)
      return refuse(rule, value, [&] {
        return fmt::format(
            "with hopper.cluster = {}, allowed are multiples of {}, because each "
            "block loads groups of 8 keys",
            cluster, share);
      });
  return {};
}

Breach check_stagger(const Refuse& refuse, const Schedule& schedule, const Problem& problem) {
  const HopperOptions& hopper = schedule.hopper;
  if (hopper.stagger < 1 || hopper.stagger > kMaxStagger)
    return refuse("hopper.stagger", hopper.stagger, "allowed are 1 to 64");
  if (hopper.stagger == 1) return {};
  const auto refuse_with = [&](const char* rule, const auto& value, const auto& reason) {
    return refuse(rule, value, [&] {
      return fmt::format("not allowed with hopper.stagger = {}, {}", hopper.stagger, reason());
    });
  };
  if (is_general(problem))
    return refuse(
        "hopper.stagger", hopper.stagger,
        "with this problem.score allowed is 1: only the default one has staggered kernels");
  if (has_window(problem))
    return refuse("hopper.stagger", hopper.stagger,
                  "with problem.window_left, window_right, prefix or chunk allowed is 1, because "
                  "neighbouring query tiles would have to begin with the same keys");
  if (!hopper.overlap)
    return refuse_with("hopper.overlap", "false", [] {
      return "because the products of both passes are in flight beside their arithmetic";
    });
  if (hopper.queries_in_registers)
    return refuse_with("hopper.queries_in_registers", "true", [] {
      return "because the queries of two tiles are in use at a time, beside scores of both";
    });
  if (hopper.cluster > 1)
    return refuse_with("hopper.cluster", hopper.cluster, [] {
      return "because blocks of a cluster share the keys of query tiles that one staggered block "
             "takes in a row";
    });
  if (schedule.skip_tiles)
    return refuse_with("skip_tiles", "true", [] {
      return "because pass 1 needs the products of every tile, with weights or without";
    });
  if (schedule.block_dv != problem.head_dim_v)
    return refuse_with("block_dv", schedule.block_dv, [&] {
      return fmt::format(
          "allowed is head_dim_v, {}, because pass 1 runs beside one sweep of pass 2",
          problem.head_dim_v);
    });
  return {};
}

Breach check_tickets(const Refuse& refuse, const HopperOptions& hopper) {
  if (!hopper.tickets) return {};
  if (!hopper.persistent)
    return refuse("hopper.tickets", "true",
                  "not allowed without hopper.persistent, because a block that works on one tile "
                  "has no next one to take");
  if (hopper.cluster > 1)
    return refuse("hopper.cluster", hopper.cluster,
                  "with hopper.tickets, allowed is 1, because a block takes a ticket for itself, "
                  "and those of a cluster share their work tiles");
  return {};
}

// Each block works on one tile of one sequence, and a store by TMA could reach into the next one.
Breach check_varlen(const Refuse& refuse, const Schedule& schedule, const Problem& problem) {
  if (!problem.varlen) return {};
  const HopperOptions& hopper = schedule.hopper;
  if (schedule.pack_gqa)
    return refuse(
        "pack_gqa", "true",
        "not allowed with problem.varlen in variant hopper, because a box of packed heads "
        "may reach into the next sequence; variant portable packs them");
  if (hopper.persistent)
    return refuse(
        "hopper.persistent", "true",
        "not allowed with problem.varlen, because a block works on a tile of one sequence");
  for (const auto& [rule, value] :
       {std::pair{"hopper.cluster", hopper.cluster}, std::pair{"hopper.stagger", hopper.stagger}})
    if (value != 1)
      return refuse(rule, value,
                    "with problem.varlen, allowed is 1, because neighbouring blocks may work on "
                    "different sequences");
  for (const auto& [rule, path] : {std::pair{"hopper.store_path", hopper.store_path},
                                   std::pair{"hopper.sum_path", hopper.sum_path}})
    if (path == StorePath::kTma)
      return refuse(rule, "tma",
                    "with problem.varlen, allowed is registers, because TMA would also store past "
                    "the end of the sequence");
  return {};
}

// A consumer's o goes through the rows of its queries, so it must fit there.
Breach check_store(const Refuse& refuse, const Schedule& schedule, const Problem& problem) {
  if (schedule.hopper.store_path != StorePath::kTma) return {};
  const auto refuse_tma = [&](const auto& text) {
    return refuse("hopper.store_path", "tma", text);
  };
  if (schedule.hopper.queries_in_registers)
    return refuse_tma(
        "not allowed with hopper.queries_in_registers, because the query tile, which o goes "
        "through, is then the next work tile's already");
  if (schedule.block_dv < problem.head_dim_v)
    return refuse_tma([&] {
      return fmt::format(
          "block_dv must be head_dim_v, {}, and is {}, because o goes through the query tile, "
          "which all columns of o but the last need",
          problem.head_dim_v, schedule.block_dv);
    });
  if (schedule.block_dv % 16 != 0)
    return refuse_tma([&] {
      return fmt::format(
          "block_dv must be a multiple of 16, the columns that a warp stores at a time, and is {}",
          schedule.block_dv);
    });
  if ((schedule.block_dv + 63) / 64 > (problem.head_dim + 63) / 64)
    return refuse_tma([&] {
      return fmt::format(
          "block_dv {} is more than the query tile of head_dim {}, which o goes through, has room "
          "for",
          schedule.block_dv, problem.head_dim);
    });
  return {};
}

Breach check_forward(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                     const Target& target) {
  const HopperOptions& hopper = schedule.hopper;
  LSSAR_RETURN_IF_BROKEN(check_tiling(refuse, kForwardRules, schedule.forward));
  if (hopper.score_cols < 8 || hopper.score_cols > kMaxCols || hopper.score_cols % 8 != 0)
    return refuse("hopper.score_cols", hopper.score_cols,
                  "allowed are multiples of 8 from 8 to 256, the columns of a wgmma");
  LSSAR_RETURN_IF_BROKEN(
      check_ping_pong(refuse, kForwardRules, schedule.forward, hopper.ping_pong));
  if (hopper.queries_in_registers && problem.head_dim > kMaxRegisterDim)
    return refuse("hopper.queries_in_registers", "true", [&] {
      return fmt::format(
          "allowed up to head_dim {}, because they take head_dim / 4 registers beside the "
          "accumulators, and it is {}",
          kMaxRegisterDim, problem.head_dim);
    });
  LSSAR_RETURN_IF_BROKEN(check_cluster(refuse, schedule));
  LSSAR_RETURN_IF_BROKEN(check_tickets(refuse, hopper));
  LSSAR_RETURN_IF_BROKEN(check_stagger(refuse, schedule, problem));
  const bool has_x = sums_x(problem, schedule);
  const int limit = kMaxCols / (has_x ? 2 : 1);
  if (schedule.block_dv < 8 || schedule.block_dv > limit || schedule.block_dv % 8 != 0)
    return refuse("block_dv", schedule.block_dv, [&] {
      return fmt::format("allowed are multiples of 8 from 8 to {}, the columns of a wgmma{}", limit,
                         has_x ? ", o and X in registers together" : "");
    });
  LSSAR_RETURN_IF_BROKEN(check_store(refuse, schedule, problem));
  LSSAR_RETURN_IF_BROKEN(check_registers(refuse, hopper, schedule.forward));
  return check_space(refuse, kForwardRules, schedule.forward, problem,
                     hopper_forward_shared_bytes(problem, schedule), target);
}

// TMA adds parts of dq in no fixed order.
Breach check_sum_path(const Refuse& refuse, const Schedule& schedule) {
  if (schedule.hopper.sum_path != StorePath::kTma || schedule.dq_mode == DqMode::kAtomic) return {};
  return refuse("hopper.sum_path", "tma", [&] {
    return fmt::format("allowed with dq_mode atomic, because {}",
                       schedule.dq_mode == DqMode::kOrdered
                           ? "an ordered turn would have to wait at every tile until its sums are "
                             "in memory"
                           : "the kernel of dq_mode split sums dq in registers");
  });
}

// Rules for a dk/dv kernel that sums dq.
Breach check_sums_dq(const Refuse& refuse, const Schedule& schedule) {
  const HopperOptions& hopper = schedule.hopper;
  if (schedule.dkdv.block_cols != 64)
    return refuse("dkdv.block_cols", schedule.dkdv.block_cols,
                  "with dq_mode atomic or ordered, allowed is 64, because a tile's queries are the "
                  "rows of a wgmma");
  if (schedule.dkdv.block_rows > 128)
    return refuse("dkdv.block_rows", schedule.dkdv.block_rows,
                  "with dq_mode atomic or ordered, allowed are 64 and 128, because one or two "
                  "consumers share the columns of dq");
  if (hopper.ping_pong)
    return refuse("hopper.ping_pong", "true",
                  "not allowed with dq_mode atomic or ordered, because all consumers exchange dS' "
                  "at once");
  if (schedule.dq_mode == DqMode::kOrdered && hopper.persistent)
    return refuse("hopper.persistent", "true",
                  "not allowed with dq_mode ordered, because a block takes its work tile when it "
                  "starts, so as to wait for earlier ones only");
  return {};
}

Breach check_backward(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                      const Target& target) {
  const HopperOptions& hopper = schedule.hopper;
  LSSAR_RETURN_IF_BROKEN(check_tiling(refuse, kDkdvRules, schedule.dkdv));
  LSSAR_RETURN_IF_BROKEN(check_ping_pong(refuse, kDkdvRules, schedule.dkdv, hopper.ping_pong));
  LSSAR_RETURN_IF_BROKEN(check_registers(refuse, hopper, schedule.dkdv));
  if (!schedule.split_dkdv && problem.head_dim + problem.head_dim_v > kMaxCols)
    return refuse("split_dkdv", "false", [&] {
      return fmt::format(
          "head_dim + head_dim_v = {} is above {}, so that the accumulators of dk and dv do not "
          "fit in registers together",
          problem.head_dim + problem.head_dim_v, kMaxCols);
    });
  LSSAR_RETURN_IF_BROKEN(check_sum_path(refuse, schedule));
  if (sums_dq(schedule)) LSSAR_RETURN_IF_BROKEN(check_sums_dq(refuse, schedule));
  LSSAR_RETURN_IF_BROKEN(check_space(refuse, kDkdvRules, schedule.dkdv, problem,
                                     hopper_dkdv_shared_bytes(problem, schedule), target));
  if (!has_dq_tiles(schedule)) return {};
  LSSAR_RETURN_IF_BROKEN(check_tiling(refuse, kDqRules, schedule.dq));
  LSSAR_RETURN_IF_BROKEN(check_ping_pong(refuse, kDqRules, schedule.dq, hopper.ping_pong));
  LSSAR_RETURN_IF_BROKEN(check_registers(refuse, hopper, schedule.dq));
  return check_space(refuse, kDqRules, schedule.dq, problem,
                     hopper_dq_shared_bytes(problem, schedule), target);
}

// As many stages as fit, up to `most`.
template <typename IsLegal>
void fill_stages(Tiling& tiling, int most, const IsLegal& is_legal) {
  tiling.stages = most;
  while (tiling.stages > kMinStages && !is_legal()) --tiling.stages;
}

void choose_forward(Schedule& schedule, const Problem& problem, const Target& target) {
  HopperOptions& hopper = schedule.hopper;
  const int dim = std::max(problem.head_dim, problem.head_dim_v);
  const int limit = sums_x(problem, schedule) ? 128 : 256;
  const int chunks = (problem.head_dim_v + limit - 1) / limit;
  schedule.block_dv = (problem.head_dim_v / 8 + chunks - 1) / chunks * 8;
  const int accumulated = schedule.block_dv * (sums_x(problem, schedule) ? 2 : 1);
  schedule.forward.block_rows = 128;
  schedule.forward.block_cols = accumulated <= 64 ? 128 : accumulated <= 128 ? 96 : 48;
  // A single pass has little arithmetic per score. Wide tiles spread the cost of a tile, above all
  // that of its factor for o.
  if (fuses_scale(problem))
    schedule.forward.block_cols = accumulated > 128  ? 80
                                  : problem.causal   ? 128
                                  : accumulated > 64 ? 176
                                                     : 192;
  // Without X beside o there is room for more keys: slots have pass 1's size at d 128 anyway, and
  // at d 256 narrow tiles are bound by shared memory. None spills (ptxas 13.0).
  const bool is_alone = !is_general(problem) && !sums_x(problem, schedule);
  const bool is_widest = is_alone && std::min(problem.head_dim, problem.head_dim_v) > 192;
  // Measured on an H100 (d 64, no mask): 192 keys in both passes take 8 % less time than 160 and
  // 128. With a mask they spill.
  const bool is_narrow = is_alone && !problem.causal && dim <= 64;
  if (is_alone && accumulated <= 128) schedule.forward.block_cols = is_narrow ? 192 : 128;
  if (is_widest) schedule.forward.block_cols = 64;
  hopper.persistent = !problem.varlen;
  hopper.store_path = StorePath::kTma;
  fit_store_path(schedule, problem);
  hopper.tickets = problem.causal && hopper.persistent;  // without a mask all tiles cost the same
  // Wide tiles, because each tile costs something beside its scores (docs/instruction_slots.md).
  // At larger dims registers limit them.
  hopper.score_cols = is_narrow ? 192 : dim <= 128 ? 160 : is_widest ? 96 : 64;
  // With 160 keys a soft cap or ALiBi spills, and ptxas 13.0 takes three times as long.
  if (changes_scores(problem)) hopper.score_cols = std::min(hopper.score_cols, 96);
  fill_stages(schedule.forward, kMaxStages,
              [&] { return check_forward(kQuietly, schedule, problem, target).ok(); });
}

// Tiles with which no problem of these dims spills, or makes ptxas wait for each product (ptxas
// 13.0). Whether the outer loop is there moves a few registers too.
void choose_backward(Schedule& schedule, const Problem& problem, const Target& target) {
  HopperOptions& hopper = schedule.hopper;
  const bool sums = sums_dq(schedule);
  const int dims = problem.head_dim + problem.head_dim_v;
  hopper.ping_pong = !sums;
  hopper.persistent = !sums && dims <= 128 && !problem.varlen;
  // TMA adds whole rows, without an address and a test for each lane.
  if (schedule.dq_mode == DqMode::kAtomic && !problem.varlen) hopper.sum_path = StorePath::kTma;
  schedule.split_dkdv = dims > kMaxCols;
  schedule.dkdv.block_rows = 128;
  const auto fits = [&] {
    return hopper_dkdv_shared_bytes(problem, schedule) + hopper_static_shared_bytes(problem) <=
           target.shared_bytes_per_block;
  };
  // Expressions need registers for phi' and more row constants; an exponential alone does not.
  const bool is_wide = !is_general(problem) || (exponential_of(problem) && !has_pass_one(problem));
  schedule.dkdv.block_cols = dims <= 128 ? 96 : dims <= kMaxCols && is_wide ? 80 : 64;
  schedule.dkdv.stages = kMinStages;
  if (sums) {
    schedule.dkdv.block_cols = 64;
  } else {
    while (schedule.dkdv.block_cols > 16 && !fits()) schedule.dkdv.block_cols -= 16;
  }
  fit_sum_path(schedule, problem, target);
  fill_stages(schedule.dkdv, 4, fits);
  if (!has_dq_tiles(schedule)) return;
  schedule.dq.block_rows = 128;
  schedule.dq.block_cols = dims <= 128 ? 96 : dims <= 256 ? 80 : dims <= 384 ? 48 : 32;
  fill_stages(schedule.dq, 4,
              [&] { return check_backward(kQuietly, schedule, problem, target).ok(); });
}

// Whether bytes can be counted in an int. The rules are checked later.
bool is_countable(const Schedule& schedule) {
  constexpr int kMost = 4096;
  int most = std::max(schedule.block_dv, schedule.hopper.score_cols), least = 0;
  for (const Tiling& tiling : {schedule.forward, schedule.dkdv, schedule.dq}) {
    most = std::max({most, tiling.block_rows, tiling.block_cols});
    least = std::min({least, tiling.block_rows, tiling.block_cols});
  }
  return most <= kMost && std::min({least, schedule.block_dv, schedule.hopper.score_cols}) >= 0;
}

}  // namespace

Status hopper_reason(const Problem& problem, const Target& target) {
  if (target.major != 9 || target.suffix != "a")
    return invalid_argument(fmt::format(
        "schedule.variant = hopper: allowed for target sm_90a, and this is {}", target.name()));
  if (problem.dtype == DType::kFp32)
    return invalid_argument(
        "schedule.variant = hopper: allowed for fp16 and bf16, because wgmma rounds fp32 operands");
  if (is_of_range(problem.pass))
    return invalid_argument(
        fmt::format("schedule.variant = hopper: its forward keeps a row's sums in registers "
                    "between the passes, so "
                    "only variant portable runs {} alone",
                    pass_name(problem.pass)));
  if (problem.invariant)
    return invalid_argument(
        "schedule.variant = hopper: not with problem.invariant, because the rows of a tile choose "
        "their form of softplus together; allowed is portable");
  if (problem.alignment < 16)
    return invalid_argument(
        fmt::format("schedule.variant = hopper: TMA needs a problem.alignment of 16, and it is {}",
                    problem.alignment));
  return {};
}

bool prefers_hopper(const Schedule& schedule, const Problem& problem, const Target& target) {
  // If it sums dq, tiles of more than 64 queries do not fit, or spill with more columns.
  const int dims = problem.head_dim + problem.head_dim_v;
  const bool spills = problem.pass == Pass::kBackward && sums_dq(schedule) && dims > kMaxCols;
  return hopper_reason(problem, target).ok() && !spills;
}

void choose_hopper(Schedule& schedule, const Problem& problem, const Target& target) {
  schedule.variant = Variant::kHopper;
  if (problem.pass == Pass::kBackward) {
    choose_backward(schedule, problem, target);
  } else {
    choose_forward(schedule, problem, target);
  }
}

void fit_stages(Schedule& schedule, Tiling Schedule::*tiling, const Problem& problem,
                const Target& target) {
  const bool is_backward = problem.pass == Pass::kBackward;
  if (!is_countable(schedule)) return;
  if (is_backward == (tiling == &Schedule::forward)) return;  // not of this pass
  const auto bytes = [&] {
    return tiling == &Schedule::forward ? hopper_forward_shared_bytes(problem, schedule)
           : tiling == &Schedule::dkdv  ? hopper_dkdv_shared_bytes(problem, schedule)
                                        : hopper_dq_shared_bytes(problem, schedule);
  };
  const int most = target.shared_bytes_per_block - hopper_static_shared_bytes(problem);
  while ((schedule.*tiling).stages > kMinStages && bytes() > most) --(schedule.*tiling).stages;
}

void fit_store_path(Schedule& schedule, const Problem& problem) {
  if (problem.pass == Pass::kBackward) return;
  if (!problem.varlen && check_store(kQuietly, schedule, problem).ok()) return;
  schedule.hopper.store_path = StorePath::kRegisters;
}

void fit_sum_path(Schedule& schedule, const Problem& problem, const Target& target) {
  if (!sums_by_tma(schedule) || problem.pass != Pass::kBackward) return;
  Schedule fewest = schedule;
  fewest.dkdv.stages = kMinStages;
  if (hopper_dkdv_shared_bytes(problem, fewest) > target.shared_bytes_per_block)
    schedule.hopper.sum_path = StorePath::kRegisters;
}

void fit_stagger(Schedule& schedule, const Problem& problem, bool fits_cols, bool fits_stages) {
  if (problem.pass == Pass::kBackward || schedule.hopper.stagger == 1) return;
  // The scores of two tiles are in registers beside o.
  const int accumulated = schedule.block_dv * (sums_x(problem, schedule) ? 2 : 1);
  if (fits_cols)
    schedule.forward.block_cols = accumulated <= 64    ? 96
                                  : accumulated <= 128 ? 64
                                  : accumulated <= 192 ? 32
                                                       : 16;
  if (fits_stages) schedule.forward.stages = kMaxStages;  // fit_stages removes the excess
}

void fit_tickets(Schedule& schedule, const Problem& problem) {
  if (problem.pass != Pass::kBackward && !check_tickets(kQuietly, schedule.hopper).ok())
    schedule.hopper.tickets = false;
}

Breach check_hopper(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                    const Target& target) {
  if (const Status status = hopper_reason(problem, target); !status.ok())
    return refuse("variant", status);
  if (schedule.hopper.head_group < 1 || schedule.hopper.head_group > kMaxHeadGroup)
    return refuse("hopper.head_group", schedule.hopper.head_group, "allowed are 1 to 1024");
  LSSAR_RETURN_IF_BROKEN(check_varlen(refuse, schedule, problem));
  return problem.pass == Pass::kBackward ? check_backward(refuse, schedule, problem, target)
                                         : check_forward(refuse, schedule, problem, target);
}

}  // namespace lssar
