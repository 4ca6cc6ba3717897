// Rules and defaults of Variant::kPortable.
#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "codegen/pass_needs.h"
#include "codegen/schedule_fields.h"
#include "codegen/schedule_rules.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

constexpr int kMaxBlock = 256;
constexpr int kMaxPortableStages = 8;
constexpr int kMaxBlocksPerSm = 32;
// The most accumulator columns of a warp with 16 rows. Each lane holds two of a row's eight columns
// for two rows, so this many columns take half as many of the 255 registers. The scores need the
// rest.
constexpr int kMaxAccumulatorCols = 256;

Breach check_portable_tiling(const Refuse& refuse, const TilingRules& rules, const Tiling& tiling) {
  if (tiling.block_rows < kWarpRows || tiling.block_rows > kMaxBlock ||
      tiling.block_rows % kWarpRows != 0)
    return refuse(rules.block_rows, tiling.block_rows,
                  "allowed are multiples of 16 from 16 to 256, because a warp owns 16 rows");
  if (tiling.block_cols < 16 || tiling.block_cols > kMaxBlock || tiling.block_cols % 16 != 0)
    return refuse(rules.block_cols, tiling.block_cols,
                  "allowed are multiples of 16 from 16 to 256, the depth of an mma");
  if (tiling.stages < 1 || tiling.stages > kMaxPortableStages)
    return refuse(rules.stages, tiling.stages, "allowed are 1 to 8");
  if (tiling.min_blocks < 0 || tiling.min_blocks > kMaxBlocksPerSm)
    return refuse(rules.min_blocks, tiling.min_blocks,
                  "allowed are 0 (the assembler guesses) to 32");
  return {};
}

}  // namespace

Breach check_shared(const Refuse& refuse, const char* tiling, int bytes, const Target& target) {
  if (bytes <= target.shared_bytes_per_block) return {};
  return refuse(tiling, [&] {
    return fmt::format(": its tiles take {} bytes of shared memory; {} allows {} per block", bytes,
                       target.name(), target.shared_bytes_per_block);
  });
}

namespace {

// The same with the static shared memory.
Breach check_all_shared(const Refuse& refuse, const Problem& problem, const char* tiling,
                        int dynamic_bytes, const Target& target) {
  return check_shared(refuse, tiling, dynamic_bytes + static_shared_bytes(problem), target);
}

// The warps of a block divide the dS tile first by rows of 16 queries, then by columns of dq.
Breach check_sums_dq(const Refuse& refuse, const Problem& problem, const Schedule& schedule) {
  const auto refuse_tile = [&](const auto& reason) {
    return refuse("dkdv", [&] {
      return fmt::format(" = {} x {}: with dq_mode atomic or ordered, {}", schedule.dkdv.block_rows,
                         schedule.dkdv.block_cols, reason());
    });
  };
  const int warps = schedule.dkdv.block_rows / kWarpRows;
  const int row_groups = schedule.dkdv.block_cols / kWarpRows;
  if (warps % row_groups != 0)
    return refuse_tile([] {
      return "block_cols must divide block_rows, because every warp takes 16 queries of a tile";
    });
  const int column_groups = warps / row_groups;
  if (padded_dim(problem.head_dim) % (16 * column_groups) != 0)
    return refuse_tile([&] {
      return fmt::format("{} warps share the {} columns of dq and each needs a multiple of 16",
                         column_groups, padded_dim(problem.head_dim));
    });
  return {};
}

Breach check_portable_forward(const Refuse& refuse, const Schedule& schedule,
                              const Problem& problem, const Target& target) {
  LSSAR_RETURN_IF_BROKEN(check_portable_tiling(refuse, kForwardRules, schedule.forward));
  const int dim_v = padded_dim(problem.head_dim_v);
  if (schedule.block_dv < 16 || schedule.block_dv > dim_v || schedule.block_dv % 16 != 0)
    return refuse("block_dv", schedule.block_dv, [&] {
      return fmt::format("allowed are multiples of 16 from 16 to {}, the (padded) head_dim_v",
                         dim_v);
    });
  const bool has_x = sums_x(problem, schedule);
  if (schedule.block_dv * (has_x ? 2 : 1) > kMaxAccumulatorCols)
    return refuse("block_dv", schedule.block_dv, [&] {
      return fmt::format(
          "allowed are at most {} for this pass, because o{} is accumulated in registers",
          kMaxAccumulatorCols / (has_x ? 2 : 1), has_x ? " and X" : "");
    });
  if (splits_keys(schedule))
    LSSAR_RETURN_IF_BROKEN(check_all_shared(refuse, problem, "forward",
                                            decode_values_shared_bytes(problem, schedule), target));
  return check_all_shared(refuse, problem, "forward", forward_shared_bytes(problem, schedule),
                          target);
}

Breach check_portable_backward(const Refuse& refuse, const Schedule& schedule,
                               const Problem& problem, const Target& target) {
  LSSAR_RETURN_IF_BROKEN(check_portable_tiling(refuse, kDkdvRules, schedule.dkdv));
  const int dims = padded_dim(problem.head_dim) + padded_dim(problem.head_dim_v);
  if (!schedule.split_dkdv && dims > kMaxAccumulatorCols)
    return refuse("split_dkdv", "false", [&] {
      return fmt::format(
          "head_dim + head_dim_v = {} is above {}, so that the accumulators of dk and dv do not "
          "fit in registers together",
          dims, kMaxAccumulatorCols);
    });
  LSSAR_RETURN_IF_BROKEN(
      check_all_shared(refuse, problem, "dkdv", dkdv_shared_bytes(problem, schedule), target));
  if (sums_dq(schedule)) LSSAR_RETURN_IF_BROKEN(check_sums_dq(refuse, problem, schedule));
  if (!has_dq_tiles(schedule)) return {};
  LSSAR_RETURN_IF_BROKEN(check_portable_tiling(refuse, kDqRules, schedule.dq));
  return check_all_shared(refuse, problem, "dq", dq_shared_bytes(problem, schedule), target);
}

// The first legal tiling of `preferred`, with fewer stages if it needs them.
template <typename IsLegal>
Tiling first_legal(std::span<const Tiling> preferred, const IsLegal& is_legal) {
  for (Tiling tiling : preferred)
    for (; tiling.stages >= 1; --tiling.stages)
      if (is_legal(tiling)) return tiling;
  return preferred.back();
}

}  // namespace

bool fills_schedulers(const Problem& problem, const Target& target) {
  constexpr int kSmallSmBytes = 100 << 10;
  if (target.is_blackwell()) return true;
  return problem.dtype != DType::kFp32 && target.shared_bytes_per_sm <= kSmallSmBytes;
}

namespace {

// Whether an SM holds two blocks. One block of 64 rows leaves each of its schedulers one warp, and
// nothing hides what that warp waits for.
bool fits_twice(const Problem& problem, int dynamic_bytes, const Target& target) {
  const int bytes = dynamic_bytes + static_shared_bytes(problem) + kReservedSharedBytes;
  return 2 * bytes <= target.shared_bytes_per_sm;
}

// The columns of o that a pass over the keys accumulates, for as few passes as the limit allows.
int value_columns(int dim_v, int limit) {
  const int chunks = (dim_v + limit - 1) / limit;
  return padded_dim((dim_v + chunks - 1) / chunks);
}

void choose_portable_forward(Schedule& schedule, const Problem& problem, const Target& target) {
  const bool has_x = sums_x(problem, schedule);
  const int dim_v = padded_dim(problem.head_dim_v);
  const int dim = padded_dim(problem.head_dim);
  // The columns with which no target spills (ptxas 13.0).
  const bool is_fp32 = problem.dtype == DType::kFp32;
  const bool fills = fills_schedulers(problem, target);
  const int limit_with_x = is_fp32 ? 64 : dim > 192 && !fills ? 96 : 128;
  int limit = has_x ? limit_with_x : kMaxAccumulatorCols;
  if (!has_x && is_fp32 && dim > 192 && fills) limit = 128;
  schedule.block_dv = value_columns(dim_v, limit);
  // In fp32, and with `invariant`, the forward without X uses the tiles of the forward with X. The
  // order of a row's sums depends on the tiles, and both must give the same bits of o.
  const bool has_tiles_of_x = is_fp32 || problem.invariant;
  const int accumulated =
      has_tiles_of_x ? 2 * value_columns(dim_v, limit_with_x) : schedule.block_dv * (has_x ? 2 : 1);
  const auto is_legal = [&](const Tiling& tiling) {
    schedule.forward = tiling;
    return check_portable_forward(kQuietly, schedule, problem, target).ok();
  };
  static constexpr Tiling kTilings[] = {{64, 64, 3}, {64, 32, 3}, {64, 16, 2},
                                        {32, 32, 2}, {32, 16, 2}, {16, 16, 2}};
  // The most keys per tile with which no target spills (ptxas 13.0). From sm_100 on, ptxas keeps
  // more loads in flight. Where an SM has 100 KiB, two blocks of the wider tiles would not fit.
  int first = 0;
  if (is_fp32 || std::max(dim, accumulated) > 128) first = 1;
  const bool is_tight = first == 0 || is_fp32 || dim > 128;
  if (fills && accumulated >= 128 && is_tight) ++first;
  schedule.forward = first_legal(std::span(kTilings).subspan(first), is_legal);
  if (is_fp32 || !fills) return;
  if (fits_twice(problem, forward_shared_bytes(problem, schedule), target)) return;
  Tiling tall = schedule.forward;
  tall.block_rows = 2 * tall.block_rows;
  schedule.forward = first_legal(std::array{tall, schedule.forward}, is_legal);
}

}  // namespace

bool prefers_split_keys(const Problem& problem) {
  // With fewer keys the launches take longer than what they spare.
  constexpr int64_t kLeastKeys = 513;
  return problem.pass == Pass::kForward && !problem.invariant && problem.seq_q >= 1 &&
         problem.seq_q <= kMostFewQueries &&
         (problem.seq_k == 0 || problem.seq_k >= kLeastKeys);
}

void choose_split_keys(Schedule& schedule, const Problem& problem, const Target& target) {
  choose_portable(schedule, problem, target);
  const int64_t rows = std::max<int64_t>(problem.seq_q, 1) *
                       (problem.heads / std::max<int64_t>(problem.kv_heads, 1));
  const int64_t of_warps = (rows + kWarpRows - 1) / kWarpRows * kWarpRows;
  // More rows in a block would leave a thread fewer registers than a tile's scores and o need.
  constexpr int64_t kMostRows = 64;
  schedule.pack_gqa = true;
  // What a chunk adds to o is written and read for every row, so more rows want longer chunks.
  schedule.split_keys = rows <= kWarpRows ? 512 : 1024;
  constexpr int kMostStages = 4;
  const Tiling wanted = {static_cast<int>(std::clamp<int64_t>(of_warps, kWarpRows, kMostRows)),
                         schedule.forward.block_cols, kMostStages, 1};
  schedule.forward = first_legal(std::array{wanted}, [&](const Tiling& tiling) {
    schedule.forward = tiling;
    return check_portable_forward(kQuietly, schedule, problem, target).ok();
  });
}

Breach check_split_keys(const Refuse& refuse, const Schedule& schedule, const Problem& problem) {
  if (!splits_keys(schedule) || problem.pass == Pass::kBackward) return {};
  constexpr int kLeast = 128, kMost = 4096;
  const int keys = schedule.split_keys;
  if (keys < kLeast || keys > kMost || keys % kLeast != 0)
    return refuse("split_keys", keys, "allowed are 0 and multiples of 128 from 128 to 4096");
  const auto refuse_with = [&](const auto& what, const char* because) {
    return refuse("split_keys", keys,
                  [&] { return fmt::format("allowed is 0 with {}, because {}", what, because); });
  };
  if (problem.pass != Pass::kForward)
    return refuse_with(fmt::format("pass {}", pass_name(problem.pass)),
                       "only the forward without training has kernels that divide keys");
  if (schedule.variant != Variant::kPortable)
    return refuse_with("variant hopper", "only portable kernels divide keys among blocks");
  if (problem.invariant)
    return refuse_with("problem.invariant",
                       "calls with more queries sum their keys in another order");
  const int64_t least = problem.varlen ? 0 : 1;
  if (problem.seq_q < least || problem.seq_q > kMostFewQueries)
    return refuse_with(fmt::format("problem.seq_q = {}", problem.seq_q),
                       "the workspace has the scores of all rows; allowed are other values with "
                       "seq_q 1 to 16, and with varlen and seq_q 0 to 16");
  if (!schedule.pack_gqa)
    return refuse_with("pack_gqa = false", "a block has the queries of all heads that share keys");
  if (schedule.skip_tiles)
    return refuse_with("skip_tiles = true",
                       "these kernels leave out values without weights anyway");
  if (keys % schedule.forward.block_cols != 0)
    return refuse_with(fmt::format("forward.block_cols = {}", schedule.forward.block_cols),
                       "it must divide split_keys: a chunk has whole tiles");
  return {};
}

namespace {

void choose_portable_backward(Schedule& schedule, const Problem& problem, const Target& target) {
  const int dim = padded_dim(problem.head_dim);
  const int dim_v = padded_dim(problem.head_dim_v);
  schedule.split_dkdv = dim + dim_v > kMaxAccumulatorCols;
  static constexpr Tiling kTilings[] = {
      {64, 64, 2}, {64, 32, 2}, {64, 16, 2}, {32, 16, 2}, {16, 16, 2}};
  // The most columns per tile with which no target spills (ptxas 13.0).
  int first = 0;
  if (dim + dim_v > 128) first = 1;
  if (problem.dtype == DType::kFp32 || dim + dim_v > kMaxAccumulatorCols) first = 2;
  const auto preferred = std::span(kTilings).subspan(first);
  const bool has_turns = first == 0 && schedule.dq_mode == DqMode::kOrdered;
  const bool fills = fills_schedulers(problem, target);
  const bool is_tight = problem.dtype == DType::kFp16 || has_turns || (first == 0 && fills);
  const auto preferred_dkdv = first < 2 && is_tight ? preferred.subspan(1) : preferred;
  schedule.dq = first_legal(preferred, [&](const Tiling& tiling) {
    schedule.dq = tiling;
    return check_all_shared(kQuietly, problem, "dq", dq_shared_bytes(problem, schedule), target)
        .ok();
  });
  const auto is_legal = [&](const Tiling& tiling) {
    schedule.dkdv = tiling;
    return check_portable_backward(kQuietly, schedule, problem, target).ok();
  };
  schedule.dkdv = first_legal(preferred_dkdv, is_legal);
  if (!fills || !sums_dq(schedule)) return;
  const Tiling once = schedule.dkdv;
  const auto is_legal_twice = [&](const Tiling& tiling) {
    return is_legal(tiling) && fits_twice(problem, dkdv_shared_bytes(problem, schedule), target);
  };
  const Tiling twice = first_legal(preferred_dkdv, is_legal_twice);
  schedule.dkdv = is_legal_twice(twice) ? twice : once;
}

}  // namespace

void choose_portable(Schedule& schedule, const Problem& problem, const Target& target) {
  schedule.variant = Variant::kPortable;
  if (problem.pass == Pass::kBackward) {
    choose_portable_backward(schedule, problem, target);
  } else {
    choose_portable_forward(schedule, problem, target);
  }
}

namespace {

// With problem.invariant: fields that decide the order of sums, or the polynomial of softplus, have
// their defaults.
Breach check_portable_order(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                            const Target& target) {
  const auto check = [&](const char* field, const auto& value, const auto& allowed) {
    return check_fixed(refuse, field, value, allowed);
  };
  const auto check_tiling = [&](const TilingRules& rules, const Tiling& tiling,
                                const Tiling& allowed) -> Breach {
    LSSAR_RETURN_IF_BROKEN(check(rules.block_rows, tiling.block_rows, allowed.block_rows));
    return check(rules.block_cols, tiling.block_cols, allowed.block_cols);
  };
  Schedule fixed = schedule;
  choose_portable(fixed, problem, target);
  LSSAR_RETURN_IF_BROKEN(
      check("softplus_degree", schedule.softplus_degree, default_softplus_degree(problem)));
  if (problem.pass != Pass::kBackward) {
    LSSAR_RETURN_IF_BROKEN(check("skip_tiles",
                                 std::string_view(schedule.skip_tiles ? "true" : "false"),
                                 std::string_view("false")));
    return check(kForwardRules.block_cols, schedule.forward.block_cols, fixed.forward.block_cols);
  }
  LSSAR_RETURN_IF_BROKEN(check("dq_mode", std::string_view(enum_name(schedule.dq_mode)),
                               std::string_view(enum_name(DqMode::kSplit))));
  LSSAR_RETURN_IF_BROKEN(check_tiling(kDkdvRules, schedule.dkdv, fixed.dkdv));
  return check_tiling(kDqRules, schedule.dq, fixed.dq);
}

}  // namespace

Breach check_portable(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                      const Target& target) {
  if (problem.invariant)
    LSSAR_RETURN_IF_BROKEN(check_portable_order(refuse, schedule, problem, target));
  return problem.pass == Pass::kBackward
             ? check_portable_backward(refuse, schedule, problem, target)
             : check_portable_forward(refuse, schedule, problem, target);
}

}  // namespace lssar
