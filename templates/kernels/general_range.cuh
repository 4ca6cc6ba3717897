// The two passes of a forward whose score function is given as expressions, as separate kernels
// over a range of all keys. The caller merges the ranges by the rules of docs/math.md.
//
//   row_sums:      planes of row_stats: 0 sum_j a_ij (kActivationSum 2: |a_ij|), in units of
//                  2^(plane 2); 1 the power's largest -a_ij; 2 an exponential's largest score, else
//                  0; 3 the power's largest a_ij, or as plane 2
//   (outside:      planes 1 to 3 maximised; plane 0 summed, in units of the largest plane 2)
//   weighted_sum:  sum_j w_ij v_j, undivided; plane 2 gets its divisor, the other planes what the
//                  forward for training saves
//   (outside:      both summed over the ranges; o_i is their quotient)
//
// Blocks, shared memory and barriers are those of forward_block.cuh.
#pragma once

#include "templates/kernels/general_forward.cuh"

namespace lssar_device {

// Reads and writes a lane's two rows. One lane of the quad that shares a row writes its statistics.
template <class Config>
struct GeneralRangeRows {
  const AttentionParams& params;
  const BlockPlace& place;
  GeneralRows<Config>& rows;

  LSSAR_DEVICE i64 index(int half) const { return rows.saved_index(params, place, half); }
  LSSAR_DEVICE bool has(int half) const { return rows.row[half] < seq_q<Config>(params); }
  LSSAR_DEVICE float* stats(int plane, int half) const {
    const i64 count = i64{params.batch} * params.heads * seq_q<Config>(params);
    return params.saved_stats + plane * count + index(half);
  }

  LSSAR_DEVICE void place_range() const {
    rows.clear();
    rows.seen[0] = keys_in_range<Config>(params, rows.visible[0]);
    rows.seen[1] = keys_in_range<Config>(params, rows.visible[1]);
  }

  LSSAR_DEVICE void write_sums() const {
    constexpr bool kHasExtremes = Config::kSecondStage == 1 && !Config::kIsExponential;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Every lane of a quad takes part in its sums.
      const float sum = quad_sum(rows.sum[half]);
      const float largest_negative = quad_maximum(-rows.lowest[half]);
      const float highest = quad_maximum(rows.highest[half]);
      if (!has(half) || lane_index() % 4 != 0) continue;
      const bool has_keys = rows.visible[half] != 0;
      const float score = Config::kIsExponential && has_keys ? rows.largest_score[half] : 0.0f;
      *stats(0, half) = sum;
      *stats(1, half) = kHasExtremes && has_keys ? largest_negative : 0.0f;
      *stats(2, half) = score;
      *stats(3, half) = kHasExtremes && has_keys ? highest : score;
    }
  }

  LSSAR_DEVICE void read_sums() const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (has(half)) {
        rows.sum[half] = *stats(0, half);
        if constexpr (Config::kIsExponential) {
          rows.largest_score[half] = *stats(2, half);
        } else if constexpr (Config::kSecondStage == 1) {
          rows.lowest[half] = -*stats(1, half);
          rows.highest[half] = *stats(3, half);
        }
      }
      rows.finish_sums(half);
    }
    warp_barrier();  // before one of the lanes writes them
  }

  // The range's part of the row's divisor. `weights`: see GeneralRows::write_columns. If the
  // divisor is not a sum, the range's share of it is its share of the row's keys. So is its share
  // of the sink.
  LSSAR_DEVICE float divisor(int half, float weights) const {
    if (rows.normalizer[half] == 0.0f) return 0.0f;
    if (rows.is_bad(half)) return quiet_nan();
    const float share = static_cast<float>(rows.seen[half]) / rows.length(half);
    if constexpr (Config::kDivisorSum == 0) return share;
    if (Config::kHasSink && Config::kSecondStage == 0 && share != 0.0f)
      weights += rows.sink(half) * share;
    return Config::kScalesWeights ? weights * rows.range[half].inverse() : weights;
  }

  template <int kTiles>
  LSSAR_DEVICE void write_columns(int first_col, const Fragment<kTiles>& o,
                                  const float (&weights)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!has(half)) continue;
      const i64 row = index(half);
      const float z = divisor(half, weights[half]);
      const bool is_zero = rows.normalizer[half] == 0.0f;
      float factor = is_nan(z) ? z : 1.0f;
      if constexpr (Config::kDivisorSum == 0 && Config::kSecondStage == 0)
        factor /= rows.normalizer[half];
      if constexpr (Config::kScalesWeights) factor *= rows.range[half].inverse();
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int col = first_col + fragment_col(n);
        if (col >= Config::kHeadDimV) continue;
        store_global_8(params.partial_o + row * Config::kHeadDimV + col,
                       is_zero ? 0.0f : o.at[n][2 * half] * factor,
                       is_zero ? 0.0f : o.at[n][2 * half + 1] * factor);
      }
      if (first_col == 0 && lane_index() % 4 == 0) rows.save_stats(params, half, row, z);
    }
  }
};

template <class Config>
LSSAR_DEVICE void general_row_sums(const AttentionParams& params) {
  GeneralForward<Config> block(params);
  ForwardLoader<Config> loader = block.start_loads(block.rows);
  typename GeneralForward<Config>::Ring ring(loader);
  ring.start();
  const GeneralRangeRows<Config> range{params, block.place, block.rows};
  range.place_range();
  if constexpr (Config::kHasAlibi)
    block.alibi = alibi_of_rows<Config>(params, block.place, block.rows);
  block.sum_activations(ring);
  range.write_sums();
  ring.finish();
}

template <class Config>
LSSAR_DEVICE void general_weighted_sum(const AttentionParams& params) {
  using Block = GeneralForward<Config>;
  Block block(params);
  ForwardLoader<Config> loader = block.start_loads(block.rows);
  typename Block::Ring ring(loader);
  ring.start();
  const GeneralRangeRows<Config> range{params, block.place, block.rows};
  range.place_range();
  if constexpr (Config::kHasSink) block.rows.load_sink(params, block.place);
  if constexpr (Config::kHasAlibi)
    block.alibi = alibi_of_rows<Config>(params, block.place, block.rows);
  range.read_sums();
#pragma unroll 1
  for (int dv_block = 0; dv_block < Block::Shape::kNumDvBlocks; ++dv_block) {
    typename Block::Columns o;
    typename Config::Mma::RowSums sums;
    o.clear();
    block.rows.start_columns();
    block.weighted_pass(ring, o, sums);
    range.write_columns(dv_block * Block::Shape::kBlockDv, o, {sums.total(0), sums.total(1)});
  }
  ring.finish();
}

}  // namespace lssar_device
