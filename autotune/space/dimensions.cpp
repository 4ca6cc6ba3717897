#include "autotune/space/dimensions.h"

#include <algorithm>
#include <utility>

#include "codegen/pass_needs.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

using Values = std::vector<nlohmann::json>;

bool cpu(const Scope& s) { return s.target.is_cpu(); }
bool gpu(const Scope& s) { return !cpu(s); }
bool cpu_forward(const Scope& s) { return cpu(s) && !s.is_backward(); }
bool backward(const Scope& s) { return gpu(s) && s.is_backward(); }
bool hopper(const Scope& s) { return s.is_hopper(); }
bool hopper_forward(const Scope& s) { return s.is_hopper() && !s.is_backward(); }
bool hopper_dkdv(const Scope& s) { return s.is_hopper() && s.is_backward(); }
bool has_dq_kernel(const Scope& s) { return backward(s) && s.schedule.dq_mode == DqMode::kSplit; }
// ... or another kernel with its tiles.
bool has_tiles_of_dq(const Scope& s) { return backward(s) && has_dq_tiles(s.schedule); }
bool hopper_sums(const Scope& s) { return hopper_dkdv(s) && s.schedule.dq_mode == DqMode::kAtomic; }
bool hopper_dq(const Scope& s) { return s.is_hopper() && has_dq_kernel(s); }
bool hopper_dq_tiles(const Scope& s) { return s.is_hopper() && has_tiles_of_dq(s); }
bool portable(const Scope& s) { return gpu(s) && !s.is_hopper(); }
bool portable_forward(const Scope& s) { return portable(s) && !s.is_backward(); }
bool divides_keys(const Scope& s) { return portable_forward(s) && splits_keys(s.schedule); }
bool portable_dkdv(const Scope& s) { return portable(s) && s.is_backward(); }
bool portable_dq_tiles(const Scope& s) { return portable(s) && has_tiles_of_dq(s); }
// Elsewhere there is nothing to search: X costs the forward for training one product, and a pass
// costs the backward two products and the weights of all scores.
bool repeats_pass_two_for_x(const Scope& s) {
  // With `invariant` gradients must have the default's bits.
  if (!backward(s) || !needs_epsilon(s.problem) || s.problem.invariant) return false;
  Problem forward = s.problem;
  forward.pass = Pass::kForwardTrain;
  const auto columns = [&](EpsilonFrom epsilon) {
    return default_schedule(forward, s.target, DqMode::kSplit, epsilon).block_dv;
  };
  return columns(EpsilonFrom::kX) < columns(EpsilonFrom::kPass);
}
bool persistent(const Scope& s) { return s.is_hopper() && s.schedule.hopper.persistent; }
bool persistent_forward(const Scope& s) { return persistent(s) && !s.is_backward(); }
bool has_own_kernels(const Scope& s) { return !is_general(s.problem); }
bool abridges_softplus(const Scope& s) {
  return gpu(s) && may_abridge_softplus(s.problem, s.schedule);
}
bool staggered(const Scope& s) { return hopper_forward(s) && s.schedule.hopper.stagger > 1; }
bool hopper_apart(const Scope& s) { return hopper_forward(s) && !staggered(s); }
bool hopper_pass_one(const Scope& s) { return hopper_apart(s) && has_pass_one(s.problem); }
bool may_stagger(const Scope& s) { return persistent_forward(s) && !is_general(s.problem); }
// Without a mask work tiles cost the same, and round-robin is as even as tickets.
bool may_take_tickets(const Scope& s) { return persistent_forward(s) && s.problem.causal; }
bool may_cluster(const Scope& s) { return hopper_apart(s) && !may_take_tickets(s); }
bool may_cluster_or_take_tickets(const Scope& s) { return hopper_apart(s) && may_take_tickets(s); }
bool staggered_tickets(const Scope& s) { return staggered(s) && may_take_tickets(s); }
// The dk/dv kernel has no products in flight while it does arithmetic.
bool skips_tiles(const Scope& s) {
  return gpu(s) && !s.is_backward() && s.problem.p != 0 && !staggered(s);
}
bool has_overlap(const Scope& s) { return hopper_apart(s) || hopper_dq(s); }
bool forward_apart(const Scope& s) { return gpu(s) && !s.is_backward() && !staggered(s); }

bool shares_keys(const Scope& s) {
  return gpu(s) && !s.is_backward() && s.problem.heads > s.problem.kv_heads;
}

bool is_wide(const Scope& s) { return std::max(s.problem.head_dim, s.problem.head_dim_v) > 128; }

// The wider the head, the fewer keys the accumulators leave room for.
Values hopper_forward_cols(const Scope& s) {
  const bool has_x = sums_x(s.problem, s.schedule);
  const int accumulated = s.schedule.block_dv * (has_x ? 2 : 1);
  if (staggered(s) && accumulated <= 64) return {48, 64, 80, 96, 112};
  if (staggered(s) && accumulated <= 128) return {32, 48, 64, 80};
  if (staggered(s)) return {16, 32, 48, 64};
  if (accumulated <= 64) return {32, 48, 64, 80, 96, 128, 160, 192};
  if (accumulated <= 128) return {32, 48, 64, 80, 96, 112, 128, 160};
  return {32, 48, 64, 80, 96};
}

Values hopper_score_cols(const Scope& s) {
  if (is_wide(s)) return {64, 128};
  return {64, 128, 160, 192};
}

Values hopper_forward_stages(const Scope& s) {
  if (is_wide(s)) return {2, 3, 4, 6};
  return {2, 4, 6, 8, 12};
}

// o as a whole, or in two parts if its accumulators leave no room for the scores.
Values block_dvs(const Scope& s) {
  const bool has_x = sums_x(s.problem, s.schedule);
  const int dim_v = s.is_hopper() ? s.problem.head_dim_v : padded_dim(s.problem.head_dim_v);
  if (dim_v * (has_x ? 2 : 1) <= 128) return {dim_v};
  const int step = s.is_hopper() ? 8 : 16;
  return {dim_v, (dim_v / step + 1) / 2 * step};
}

// Degrees for which the polynomial's error is below the type's rounding (docs/math.md), the
// cheapest first.
Values softplus_degrees(const Scope& s) {
  if (s.problem.p == 1) return {8};
  if (s.problem.dtype == DType::kFp32) return {6, 7, 8};
  return {4, 5};
}

// Tiles of accumulators that keep both arithmetic units busy and fit in the registers: rows, and
// the keys of a panel.
Values cpu_tiles(const Scope& s) {
  constexpr int kLeastSums = 8, kMostVectors = 6;
  const CpuLevel& level = cpu_level(s.target);
  Values tiles;
  for (int vectors = 1; vectors <= kMostVectors; ++vectors) {
    const int most = (level.registers - 1 - vectors) / vectors;
    for (int rows = most; rows >= 2 && rows * vectors >= kLeastSums; --rows)
      tiles.push_back({rows, vectors * level.lanes});
  }
  return tiles;
}

// Blocks of keys, each with activations that are kept of no key, of a few thousand keys, and of as
// many as a call is likely to have. Both are whole panels and blocks.
Values cpu_key_blocks(const Scope& s) {
  constexpr int kBlocks[] = {64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048};
  constexpr int64_t kKept[] = {0, 2048, 8192, 32768};
  Values pairs;
  for (const int block : kBlocks) {
    int64_t before = -1;
    for (int64_t kept : kKept) {
      if (s.problem.seq_k != 0) kept = std::min(kept, s.problem.seq_k);
      if (s.problem.seq_k == 0 && kept > 8192) continue;
      const int64_t whole = (kept + block - 1) / block * block;
      if (whole == before) continue;
      pairs.push_back({block, whole});
      before = whole;
    }
    if (s.problem.seq_k != 0 && block >= s.problem.seq_k) break;  // more are as good
  }
  return pairs;
}

DimensionRow row(const char* name, Level level, std::vector<nlohmann::json> values, const char* why,
                 bool (*applies)(const Scope&), Values (*derived)(const Scope&) = nullptr,
                 std::vector<DimensionRow::Label> labels = {}) {
  return {name, level, std::move(values), why, applies, derived, std::move(labels)};
}

std::vector<DimensionRow> make_rows() {
  return {
      // ---- algorithm
      row("variant", Level::kAlgorithm, {"cpu"}, "the kernels of CPUs, of which there is one kind",
          cpu, nullptr, {{"cpu", "cpu"}}),
      row("variant", Level::kAlgorithm, {"portable", "hopper"},
          "instruction family: wgmma and TMA with warps in roles, or mma.sync and cp.async", gpu,
          nullptr, {{"hopper", "hopper"}, {"portable", "portable"}}),
      row("dq_mode", Level::kAlgorithm, {},
          "dq by a kernel of its own (7 products), or added up by the dk/dv kernel (5 products): "
          "as blocks come, or in a fixed order, which they wait for",
          backward, nullptr,
          {{"split", "dq split"}, {"atomic", "dq atomic"}, {"ordered", "dq ordered"}}),
      row("split_dkdv", Level::kAlgorithm, {},
          "dk and dv in one sweep, or apart: one more product, half the accumulators", backward,
          nullptr, {{false, ""}, {true, "dk and dv apart"}}),
      row("hopper.persistent", Level::kAlgorithm, {},
          "as many blocks as the GPU holds, each with tile after tile, against one block per tile "
          "and fewer registers",
          hopper, nullptr, {{true, "persistent"}, {false, "static"}}),
      row("epsilon", Level::kAlgorithm, {},
          "a row's epsilon from X, which is a product more in the forward for training, leaves o "
          "half of its registers and takes memory, or from a pass over the keys: two products more "
          "in the backward",
          repeats_pass_two_for_x, nullptr, {{"x", ""}, {"pass", "epsilon by pass"}}),
      row("hopper.stagger", Level::kAlgorithm, {1, 2, 4},
          "query tiles in a row, each one's pass 1 beside pass 2 of the one before: keys are "
          "loaded once for both and products spread evenly, for scores of two tiles in registers",
          may_stagger, nullptr, {{1, ""}, {2, "staggered by 2"}, {4, "staggered by 4"}}),
      row("pack_gqa", Level::kAlgorithm, {},
          "rows of a query tile from one head, or from all heads that share keys: full tiles where "
          "queries are few, and keys and values loaded once for those heads",
          shares_keys, nullptr, {{false, ""}, {true, "heads packed"}}),

      // ---- block: CPUs
      row("cpu.rows+cpu.panel_keys", Level::kBlock, {},
          "rows and keys of a tile of accumulators: many rows share a panel's loads, many keys a "
          "row's; both together must fit in registers",
          cpu, cpu_tiles),
      row("cpu.block_keys+cpu.kept_keys", Level::kBlock, {},
          "keys whose weights are made at a time: few stay in the first-level cache, many share a "
          "load and store of o; and keys whose activations are kept for pass 2 instead of computed "
          "again: they take the second-level cache from keys and values",
          cpu_forward, cpu_key_blocks),

      // ---- block: the forward
      row("forward.block_rows", Level::kBlock, {64, 128, 192},
          "queries of a block, 64 to a consumer: more share each key tile, and fewer registers",
          hopper_forward),
      row("forward.block_cols", Level::kBlock, {},
          "keys per tile of pass 2: wider shares a tile's waits among more scores, narrower leaves "
          "registers",
          hopper_forward, hopper_forward_cols),
      row("hopper.score_cols", Level::kBlock, {},
          "keys per tile of pass 1, which has no values: wide shares the port of shared memory, "
          "but makes slots larger",
          hopper_pass_one, hopper_score_cols),
      row("forward.stages", Level::kBlock, {},
          "slots of the ring: loads further ahead against shared memory", hopper_forward,
          hopper_forward_stages),
      row("forward.min_blocks", Level::kBlock, {1, 2},
          "blocks per SM: a second one hides the ends of the first, with half the registers",
          hopper_forward),
      row("forward.block_rows", Level::kBlock, {16, 32, 64, 96, 128},
          "queries of a block, 16 to a warp: more share each key tile", portable_forward),
      row("forward.block_cols", Level::kBlock, {16, 32, 48, 64, 96, 128},
          "keys per tile: wider shares a tile's barriers among more scores, narrower leaves "
          "registers",
          portable_forward),
      row("forward.stages", Level::kBlock, {1, 2, 3, 4},
          "tiles in shared memory: loads further ahead against more blocks", portable_forward),
      row("forward.min_blocks", Level::kBlock, {1, 2, 3, 4},
          "blocks per SM that registers must be left for: latency hidden by other blocks",
          portable_forward),
      row("split_keys", Level::kBlock, {256, 512, 1024, 2048},
          "keys of a chunk: few give every SM a block, many have fewer parts of o to write and add",
          divides_keys),
      row("block_dv", Level::kBlock, {},
          "columns of o at a time: fewer leave registers for wider tiles, and repeat pass 2",
          forward_apart, block_dvs),

      // ---- block: the backward
      row("dkdv.block_rows", Level::kBlock, {64, 128, 192},
          "keys of a block, 64 to a consumer: more share each query tile", hopper_dkdv),
      row("dkdv.block_cols", Level::kBlock, {32, 48, 64, 80, 96},
          "queries per tile: dk, dv and two tiles of scores must fit in registers", hopper_dkdv),
      row("dkdv.stages", Level::kBlock, {2, 4}, "slots of the dk/dv kernel's ring", hopper_dkdv),
      row("dkdv.min_blocks", Level::kBlock, {1, 2}, "blocks of the dk/dv kernel per SM",
          hopper_dkdv),
      row("dq.block_rows", Level::kBlock, {64, 128, 192},
          "queries of a block, 64 to a consumer: more share each key tile", hopper_dq_tiles),
      row("dq.block_cols", Level::kBlock, {32, 48, 64, 80, 96, 128},
          "keys per tile: dq and two tiles of scores must fit in registers", hopper_dq_tiles),
      row("dq.stages", Level::kBlock, {2, 4}, "slots of the dq kernel's ring", hopper_dq_tiles),
      row("dq.min_blocks", Level::kBlock, {1, 2}, "blocks of the dq kernel per SM",
          hopper_dq_tiles),
      row("dkdv.block_rows", Level::kBlock, {16, 32, 64, 128},
          "keys of a block, 16 to a warp: more share each query tile", portable_dkdv),
      row("dkdv.block_cols", Level::kBlock, {16, 32, 48, 64},
          "queries per tile: dk, dv and two tiles of scores must fit in registers", portable_dkdv),
      row("dkdv.stages", Level::kBlock, {1, 2, 3}, "tiles of the dk/dv kernel in shared memory",
          portable_dkdv),
      row("dkdv.min_blocks", Level::kBlock, {1, 2, 3},
          "blocks of the dk/dv kernel per SM that registers must be left for", portable_dkdv),
      row("dq.block_rows", Level::kBlock, {16, 32, 64, 128},
          "queries of a block, 16 to a warp: more share each key tile", portable_dq_tiles),
      row("dq.block_cols", Level::kBlock, {16, 32, 48, 64},
          "keys per tile: dq and two tiles of scores must fit in registers", portable_dq_tiles),
      row("dq.stages", Level::kBlock, {1, 2, 3}, "tiles of the dq kernel in shared memory",
          portable_dq_tiles),
      row("dq.min_blocks", Level::kBlock, {1, 2, 3},
          "blocks of the dq kernel per SM that registers must be left for", portable_dq_tiles),

      // ---- block: both passes
      row("load_path", Level::kBlock, {},
          "16 bytes at a time past the registers, or by elements for layouts that are not aligned",
          portable),
      row("hopper.head_group", Level::kBlock, {8, 64},
          "heads whose tiles run together, longest first: few keep keys and values in the L2, many "
          "deal the work out more evenly",
          persistent),
      row("hopper.overlap", Level::kBlock, {},
          "the next product in flight beside a tile's arithmetic, for the registers of a second "
          "tile",
          has_overlap),
      row("hopper.ping_pong", Level::kBlock, {},
          "consumers alternate, so that one multiplies while the other evaluates; two blocks per "
          "SM do the same",
          hopper),
      row("hopper.queries_in_registers+hopper.store_path", Level::kBlock,
          {{false, "tma"}, {true, "registers"}, {false, "registers"}},
          "queries in registers halve what products read from shared memory, for head_dim / 4 "
          "registers; else o may go through their tile in whole rows, or as soon as it is there",
          hopper_apart),
      row("hopper.store_path", Level::kBlock, {},
          "o through the tile of its queries in whole rows, or from registers", staggered),
      row("hopper.sum_path", Level::kBlock, {},
          "parts of dq from each lane, or in whole rows through shared memory, which leaves fewer "
          "stages",
          hopper_sums),
      row("hopper.weights_from", Level::kBlock, {},
          "weights as operands in registers, or through shared memory: registers for larger tiles",
          hopper_forward),

      // ---- thread
      row("skip_tiles", Level::kThread, {},
          "whether tiles of keys without weights take no special functions and no product with "
          "values, for a comparison per score",
          skips_tiles),
      row("hopper.cluster", Level::kThread, {1, 2, 4},
          "blocks that share the loads of keys and values: fewer reads of the L2, more waiting",
          may_cluster),
      row("hopper.cluster+hopper.tickets", Level::kThread,
          {{1, true}, {1, false}, {2, false}, {4, false}},
          "whether blocks take work tiles by tickets, which is even, or round-robin, which lets "
          "them share the loads of keys and values",
          may_cluster_or_take_tickets),
      row("hopper.tickets", Level::kThread, {},
          "whether blocks take work tiles by tickets or round-robin", staggered_tickets),
      row("hopper.head_group", Level::kThread, {1, 2, 4, 8, 16, 32, 64},
          "heads whose tiles run together, longest first: fine steps, once the tiles are settled",
          hopper),
      row("hopper.evaluator", Level::kThread, {},
          "cheapest softplus for rows of large scores: less arithmetic, more code",
          abridges_softplus),
      row("softplus_degree", Level::kThread, {},
          "degree of the softplus polynomial, of those exact enough for the type: one instruction "
          "each",
          has_own_kernels, softplus_degrees),
      row("hopper.producer_registers+hopper.consumer_registers", Level::kThread,
          {{0, 0}, {24, 240}, {40, 232}, {56, 224}, {32, 160}, {56, 152}},
          "how registers move from the producer to the consumers: too few for either and it spills",
          hopper),
  };
}

}  // namespace

std::span<const DimensionRow> dimension_rows() {
  static const std::vector<DimensionRow> rows = make_rows();
  return rows;
}

std::string determinism_reason(const Scope& scope) {
  if (scope.determinism == Determinism::kRepeatable && scope.is_backward() &&
      scope.schedule.dq_mode == DqMode::kAtomic)
    return "schedul"
           "e.dq_"
           "mode = "
           "atomic:"
           " the "
           "order "
           "of "
           "atomic "
           "sums "
           "differs"
           " from "
           "run to "
           "run, "
           "and "
           "results"
           " must "
           "be "
           "repeata"
           "ble";
  return "";
}

}  // namespace lssar
