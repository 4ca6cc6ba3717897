// Rules of Variant::kHopper. Each says its reason.
#include "codegen/schedule/hopper_rules.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "codegen/pass_needs.h"
#include "codegen/shapes.h"
#include "codegen/visible_keys.h"

namespace lssar {
namespace {

constexpr int kMaxConsumers = 3;  // with the producer, all 16 warps of 128 registers there are
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
  if (tiling.block_cols < 16 || tiling.block_cols > kHopperMaxCols || tiling.block_cols % 16 != 0)
    return refuse(rules.block_cols, tiling.block_cols,
                  "allowed are multiples of 16 from 16 to 256, the depth of a wgmma");
  if (tiling.stages < kHopperMinStages || tiling.stages > kHopperMaxStages)
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

Breach check_hopper_tickets(const Refuse& refuse, const HopperOptions& hopper) {
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

// A consumer's o goes through the rows of its queries, so it must fit there.
Breach check_hopper_store(const Refuse& refuse, const Schedule& schedule, const Problem& problem) {
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

Breach check_hopper_forward(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                            const Target& target) {
  const HopperOptions& hopper = schedule.hopper;
  LSSAR_RETURN_IF_BROKEN(check_tiling(refuse, kForwardRules, schedule.forward));
  if (hopper.score_cols < 8 || hopper.score_cols > kHopperMaxCols || hopper.score_cols % 8 != 0)
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
  LSSAR_RETURN_IF_BROKEN(check_hopper_tickets(refuse, hopper));
  LSSAR_RETURN_IF_BROKEN(check_stagger(refuse, schedule, problem));
  const bool has_x = sums_x(problem, schedule);
  const int limit = kHopperMaxCols / (has_x ? 2 : 1);
  if (schedule.block_dv < 8 || schedule.block_dv > limit || schedule.block_dv % 8 != 0)
    return refuse("block_dv", schedule.block_dv, [&] {
      return fmt::format("allowed are multiples of 8 from 8 to {}, the columns of a wgmma{}", limit,
                         has_x ? ", o and X in registers together" : "");
    });
  LSSAR_RETURN_IF_BROKEN(check_hopper_store(refuse, schedule, problem));
  LSSAR_RETURN_IF_BROKEN(check_registers(refuse, hopper, schedule.forward));
  return check_space(refuse, kForwardRules, schedule.forward, problem,
                     hopper_forward_shared_bytes(problem, schedule), target);
}

Breach check_hopper_backward(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                             const Target& target) {
  const HopperOptions& hopper = schedule.hopper;
  LSSAR_RETURN_IF_BROKEN(check_tiling(refuse, kDkdvRules, schedule.dkdv));
  LSSAR_RETURN_IF_BROKEN(check_ping_pong(refuse, kDkdvRules, schedule.dkdv, hopper.ping_pong));
  LSSAR_RETURN_IF_BROKEN(check_registers(refuse, hopper, schedule.dkdv));
  if (!schedule.split_dkdv && problem.head_dim + problem.head_dim_v > kHopperMaxCols)
    return refuse("split_dkdv", "false", [&] {
      return fmt::format(
          "head_dim + head_dim_v = {} is above {}, so that the accumulators of dk and dv do not "
          "fit in registers together",
          problem.head_dim + problem.head_dim_v, kHopperMaxCols);
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

Breach check_hopper(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                    const Target& target) {
  if (const Status status = hopper_reason(problem, target); !status.ok())
    return refuse("variant", status);
  if (schedule.hopper.head_group < 1 || schedule.hopper.head_group > kMaxHeadGroup)
    return refuse("hopper.head_group", schedule.hopper.head_group, "allowed are 1 to 1024");
  LSSAR_RETURN_IF_BROKEN(check_varlen(refuse, schedule, problem));
  return problem.pass == Pass::kBackward ? check_hopper_backward(refuse, schedule, problem, target)
                                         : check_hopper_forward(refuse, schedule, problem, target);
}

}  // namespace lssar
