#include "codegen/shared_layout.h"

#include <algorithm>
#include <initializer_list>

#include "codegen/pass_needs.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

constexpr int kRowPadBytes = 16;  // puts the rows of a tile on different banks

int tile_bytes(const Problem& problem, int rows, int cols) {
  return rows * (cols * dtype_bytes(problem.dtype) + kRowPadBytes);
}

// Bytes of a SwizzledTile: whole chunks of 64 16-bit columns.
int swizzled_bytes(int rows, int cols) {
  return rows * lssar_constants::kSwizzleBytes * ((cols + 63) / 64);
}

// A full and an empty barrier for each stage of a ring.
int ring_bytes(int stages) { return 2 * stages * kBarrierBytes; }
// Bytes of a tile's reciprocal key norms, aligned as a TMA box.
int norm_bytes(int keys) { return (keys * 4 + 127) / 128 * 128; }

// Bytes of the buffers through which a block adds its parts of dq: float32, in whole boxes of
// columns.
int hopper_staging_bytes(const Problem& problem, const Schedule& schedule) {
  const int cols = hopper_sum_cols(problem, schedule);
  const int boxes = (hopper_query_grad_cols(problem, schedule) + cols - 1) / cols;
  return schedule.dkdv.block_rows * boxes * cols * 4;
}

// Points to static text, so that searches can sum many layouts without allocating.
struct Part {
  const char* name;
  const char* note;
  int bytes;
};
using Parts = std::initializer_list<Part>;

// The layouts. Each calls group(count, parts) for parts that lie one after another, repeated
// `count` times (0: once, not in a ring), in the order of the templates' offsets.

template <class Group>
void hopper_forward_parts(const Problem& problem, const Schedule& schedule, const Group& group) {
  const Tiling& tiling = schedule.forward;
  const HopperOptions& hopper = schedule.hopper;
  const int keys = std::max(tiling.block_cols, hopper_score_cols(problem, schedule));
  const int stage = std::max(swizzled_bytes(keys, problem.head_dim),
                             swizzled_bytes(tiling.block_cols, schedule.block_dv));
  const bool has_x = sums_x(problem, schedule);
  const int queries = swizzled_bytes(tiling.block_rows, problem.head_dim);
  const int weights = swizzled_bytes(tiling.block_rows, tiling.block_cols);
  const bool is_staggered = hopper.stagger > 1;
  const char* const query_note = hopper.store_path == StorePath::kTma
                                     ? "the block's rows of q; o goes out through it"
                                     : "the block's rows of q";
  if (is_staggered) {
    group(0, Parts{{"queries 0", query_note, queries}, {"queries 1", query_note, queries}});
  } else {
    group(0, Parts{{"queries", query_note, queries}});
  }
  if (hopper.weights_from == WeightsFrom::kShared) {
    group(0, Parts{{"weights", "of a tile, rounded: what multiplies values", weights}});
    if (has_x) group(0, Parts{{"slopes", "of the weights, for what the backward reads", weights}});
  }
  group(tiling.stages, Parts{{"key or value tile", "a stage of the ring, filled by TMA", stage}});
  group(tiling.stages, Parts{{"key norms", "reciprocal, of the stage's keys", norm_bytes(keys)}});
  group(0, Parts{{"ring barriers", "full and empty, of every stage", ring_bytes(tiling.stages)},
                 {"query barriers", "full and empty", ring_bytes(is_staggered ? 2 : 1)}});
  if (takes_tickets(problem, schedule))
    group(0, Parts{{"work tile", "its number", lssar_constants::kWorkIndexBytes}});
}

template <class Group>
void hopper_dkdv_parts(const Problem& problem, const Schedule& schedule, const Group& group) {
  const Tiling& tiling = schedule.dkdv;
  group(0, Parts{{"keys", "the block's rows of k",
                  swizzled_bytes(tiling.block_rows, problem.head_dim)},
                 {"values", "the block's rows of v",
                  swizzled_bytes(tiling.block_rows, problem.head_dim_v)}});
  if (sums_dq(schedule)) {
    group(2, Parts{{"gradients of scores", "of a tile, for dq; double-buffered",
                    swizzled_bytes(tiling.block_rows, tiling.block_cols)}});
  }
  if (sums_by_tma(schedule)) {
    group(0, Parts{{"parts of dq", "float32, from where TMA adds them to dq",
                    hopper_staging_bytes(problem, schedule)}});
  }
  group(tiling.stages, Parts{{"query tile", "a stage of the ring, filled by TMA",
                              swizzled_bytes(tiling.block_cols, problem.head_dim)},
                             {"output gradient tile", "a stage of the ring, filled by TMA",
                              swizzled_bytes(tiling.block_cols, problem.head_dim_v)}});
  group(tiling.stages,
        Parts{{"row constants", "of the stage's queries", tiling.block_cols * kRowConstantBytes}});
  group(0, Parts{{"words", "one of every consumer warp", tiling.block_rows / kWarpRows * 4},
                 {"ring barriers", "full and empty, of every stage", ring_bytes(tiling.stages)},
                 {"key barriers", "full and empty, of keys and values", ring_bytes(1)}});
  if (schedule.dq_mode == DqMode::kOrdered)
    group(0, Parts{{"ticket", "the block's place in the order of sums", 2 * kTicketBytes}});
  if (problem.dtype == DType::kFp16 && !sums_dq(schedule) && !is_general(problem))
    group(0, Parts{{"scales", "of the stages' row constants, and their barriers",
                    (tiling.stages + 1) * (kBarrierBytes + 8)}});
}

template <class Group>
void hopper_dq_parts(const Problem& problem, const Schedule& schedule, const Group& group) {
  const Tiling& tiling = schedule.dq;
  group(0, Parts{{"queries", "the block's rows of q",
                  swizzled_bytes(tiling.block_rows, problem.head_dim)},
                 {"output gradients", "the block's rows of do",
                  swizzled_bytes(tiling.block_rows, problem.head_dim_v)}});
  group(tiling.stages, Parts{{"key tile", "a stage of the ring, filled by TMA",
                              swizzled_bytes(tiling.block_cols, problem.head_dim)},
                             {"value tile", "a stage of the ring, filled by TMA",
                              swizzled_bytes(tiling.block_cols, problem.head_dim_v)}});
  group(tiling.stages,
        Parts{{"key norms", "reciprocal, of the stage's keys", norm_bytes(tiling.block_cols)}});
  group(0, Parts{{"ring barriers", "full and empty, of every stage", ring_bytes(tiling.stages)},
                 {"query barriers", "full and empty", ring_bytes(1)}});
}

template <class Group>
void forward_parts(const Problem& problem, const Schedule& schedule, const Group& group) {
  const Tiling& tiling = schedule.forward;
  const int dim = padded_dim(problem.head_dim);
  group(0,
        Parts{{"queries", "the block's rows of q", tile_bytes(problem, tiling.block_rows, dim)}});
  group(tiling.stages,
        Parts{{"key or value tile", "a stage of the pipeline",
               std::max(tile_bytes(problem, tiling.block_cols, dim),
                        tile_bytes(problem, tiling.block_cols, schedule.block_dv))},
              {"key norms", "reciprocal, of the stage's keys", tiling.block_cols * 4}});
}

template <class Group>
void decode_values_parts(const Problem& problem, const Schedule& schedule, const Group& group) {
  const Tiling& tiling = schedule.forward;
  const int warps = tiling.block_rows / kWarpRows;
  group(std::min(tiling.stages, lssar_constants::kDecodeValueStages),
        Parts{{"value tile", "a stage of the pipeline",
               tile_bytes(problem, tiling.block_cols, schedule.block_dv)}});
  group(0, Parts{{"live keys", "of the chunk, one after another", schedule.split_keys * 4},
                 {"words", "of every warp, one for 8 keys: which are live",
                  warps * schedule.split_keys / lssar_constants::kDecodeKeysPerWord * 4},
                 {"count", "of live keys", 16}});
}

template <class Group>
void decode_outputs_parts(const Problem& problem, const Group& group) {
  group(0, Parts{{"sums", "of o, of every warp",
                  kRowThreads / kWarpThreads * padded_dim(problem.head_dim_v) * 4}});
}

template <class Group>
void dkdv_parts(const Problem& problem, const Schedule& schedule, const Group& group) {
  const Tiling& tiling = schedule.dkdv;
  const int dim = padded_dim(problem.head_dim);
  const int dim_v = padded_dim(problem.head_dim_v);
  group(0,
        Parts{{"keys", "the block's rows of k", tile_bytes(problem, tiling.block_rows, dim)},
              {"values", "the block's rows of v", tile_bytes(problem, tiling.block_rows, dim_v)}});
  group(
      tiling.stages,
      Parts{{"query tile", "a stage of the pipeline", tile_bytes(problem, tiling.block_cols, dim)},
            {"output gradient tile", "a stage of the pipeline",
             tile_bytes(problem, tiling.block_cols, dim_v)},
            {"row constants", "of the stage's queries", tiling.block_cols * kRowConstantBytes}});
  if (!sums_dq(schedule)) return;
  group(0, Parts{{"gradients of scores", "of a tile, for dq",
                  tile_bytes(problem, tiling.block_rows, tiling.block_cols)},
                 {"words", "one of every warp", tiling.block_rows / kWarpRows * 4},
                 {"ticket", "the block's place in the order of sums", kTicketBytes}});
}

template <class Group>
void dq_parts(const Problem& problem, const Schedule& schedule, const Group& group) {
  const Tiling& tiling = schedule.dq;
  const int dim = padded_dim(problem.head_dim);
  const int dim_v = padded_dim(problem.head_dim_v);
  group(0, Parts{{"queries", "the block's rows of q", tile_bytes(problem, tiling.block_rows, dim)},
                 {"output gradients", "the block's rows of do",
                  tile_bytes(problem, tiling.block_rows, dim_v)}});
  group(tiling.stages,
        Parts{{"key tile", "a stage of the pipeline", tile_bytes(problem, tiling.block_cols, dim)},
              {"value tile", "a stage of the pipeline",
               tile_bytes(problem, tiling.block_cols, dim_v)},
              {"key norms", "reciprocal, of the stage's keys", tiling.block_cols * 4}});
}

// Adds up the parts of a layout.
struct Sum {
  int* bytes;
  void operator()(int count, Parts parts) const {
    for (const Part& part : parts) *bytes += std::max(count, 1) * part.bytes;
  }
};

struct Placer {
  std::vector<SharedPart>* layout;
  void operator()(int count, Parts parts) const {
    for (int stage = 0; stage < std::max(count, 1); ++stage) {
      for (const Part& part : parts) {
        const int offset = layout->empty() ? 0 : layout->back().offset + layout->back().bytes;
        layout->push_back({part.name, part.note, offset, part.bytes, count == 0 ? -1 : stage});
      }
    }
  }
};

}  // namespace

int hopper_forward_shared_bytes(const Problem& problem, const Schedule& schedule) {
  int bytes = 0;
  hopper_forward_parts(problem, schedule, Sum{&bytes});
  return bytes;
}

int hopper_dkdv_shared_bytes(const Problem& problem, const Schedule& schedule) {
  int bytes = 0;
  hopper_dkdv_parts(problem, schedule, Sum{&bytes});
  return bytes;
}

int hopper_dq_shared_bytes(const Problem& problem, const Schedule& schedule) {
  int bytes = 0;
  hopper_dq_parts(problem, schedule, Sum{&bytes});
  return bytes;
}

int forward_shared_bytes(const Problem& problem, const Schedule& schedule) {
  int bytes = 0;
  forward_parts(problem, schedule, Sum{&bytes});
  return bytes;
}

int decode_values_shared_bytes(const Problem& problem, const Schedule& schedule) {
  int bytes = 0;
  decode_values_parts(problem, schedule, Sum{&bytes});
  return bytes;
}

int decode_outputs_shared_bytes(const Problem& problem) {
  int bytes = 0;
  decode_outputs_parts(problem, Sum{&bytes});
  return bytes;
}

int dkdv_shared_bytes(const Problem& problem, const Schedule& schedule) {
  int bytes = 0;
  dkdv_parts(problem, schedule, Sum{&bytes});
  return bytes;
}

int dq_shared_bytes(const Problem& problem, const Schedule& schedule) {
  int bytes = 0;
  dq_parts(problem, schedule, Sum{&bytes});
  return bytes;
}

std::vector<SharedPart> shared_layout(const Problem& problem, const Schedule& schedule,
                                      const std::string& entry) {
  std::vector<SharedPart> layout;
  const Placer place{&layout};
  const bool is_hopper = schedule.variant == Variant::kHopper;
  if (entry == "lssar_forward" || entry == "lssar_row_sums" || entry == "lssar_weighted_sum") {
    is_hopper ? hopper_forward_parts(problem, schedule, place)
              : forward_parts(problem, schedule, place);
  } else if (entry == "lssar_decode_scores") {
    forward_parts(problem, schedule, place);
  } else if (entry == "lssar_decode_values") {
    decode_values_parts(problem, schedule, place);
  } else if (entry == "lssar_decode_outputs") {
    decode_outputs_parts(problem, place);
  } else if (entry == "lssar_backward_dkdv") {
    is_hopper ? hopper_dkdv_parts(problem, schedule, place) : dkdv_parts(problem, schedule, place);
  } else if (entry == "lssar_backward_dq" || entry == "lssar_backward_epsilon") {
    is_hopper ? hopper_dq_parts(problem, schedule, place) : dq_parts(problem, schedule, place);
  }
  return layout;
}

}  // namespace lssar
