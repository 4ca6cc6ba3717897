// The two passes of the forward as separate kernels over a range of all keys. The caller merges the
// results of the ranges by sums and a maximum, so keys may be split over GPUs or calls.
//
//   row_sums:      R_i = sum_j softplus(S_ij) and the largest score, over the call's keys
//   (the caller):  sums R_i and takes the maximum of the largest scores over the ranges
//   weighted_sum:  sum_j w_ij v_j, undivided, and zs_i = sum_j w_ij over the call's keys; m_i
//   (the caller):  sums both over the ranges; o_i is their quotient
//
// forward.cuh describes blocks, shared memory and barriers.
#pragma once

#include "templates/kernels/forward.cuh"

namespace lssar_device {

// Reads and writes the statistics of a lane's two rows. One lane of the quad that shares a row
// writes.
template <class Config>
struct RangeRows {
  const AttentionParams& params;
  const BlockPlace& place;
  ForwardRows<Config>& rows;

  LSSAR_DEVICE i64 count() const {
    return i64{params.batch} * params.heads * seq_q<Config>(params);
  }
  LSSAR_DEVICE i64 index(int half) const { return rows.saved_index(params, place, half); }
  LSSAR_DEVICE bool has(int half) const { return rows.row[half] < seq_q<Config>(params); }

  LSSAR_DEVICE void write_sums() const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!has(half) || lane_index() % 4 != 0) continue;
      params.saved_stats[index(half)] = rows.sum[half] * kLn2;
      params.saved_stats[3 * count() + index(half)] =
          rows.visible[half] == 0 ? 0.0f : rows.largest_score[half];
    }
  }

  LSSAR_DEVICE void read_sums() const {
    constexpr float kLog2E = 1.4426950408889634f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows.sum[half] = has(half) ? params.saved_stats[index(half)] * kLog2E : 0.0f;
      rows.largest_score[half] = has(half) ? params.saved_stats[3 * count() + index(half)] : 0.0f;
    }
  }

  template <int kTiles>
  LSSAR_DEVICE void write_columns(int first_col, const Fragment<kTiles>& o,
                                  const float (&zs)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!has(half)) continue;
      // The clamp to [0, 1] hides a NaN, so a row that saw one in any range becomes NaN here.
      const bool is_bad = is_nan(rows.sum[half]) || is_nan(rows.m[half]);
      const i64 row = index(half);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int col = first_col + fragment_col(n);
        if (col >= Config::kHeadDimV) continue;
        store_global_8(params.partial_o + row * Config::kHeadDimV + col,
                       is_bad ? quiet_nan() : o.at[n][2 * half],
                       is_bad ? quiet_nan() : o.at[n][2 * half + 1]);
      }
      if (first_col != 0 || lane_index() % 4 != 0) continue;
      params.saved_stats[count() + row] = rows.m[half];
      params.saved_stats[2 * count() + row] = is_bad ? quiet_nan() : zs[half];
    }
  }
};

template <class Config>
LSSAR_DEVICE void row_sums(const AttentionParams& params) {
  Forward<Config> block(params);
  ForwardLoader<Config> loader = block.start_loads(block.rows);
  typename Forward<Config>::Ring ring(loader);
  ring.start();
  PassOneSums<Config, Forward<Config>::kKeyMmaTiles> sums;
  block.pass_one(ring, sums);
  block.rows.reduce_sums(sums);
  RangeRows<Config>{params, block.place, block.rows}.write_sums();
  ring.finish();
}

template <class Config>
LSSAR_DEVICE void weighted_sum(const AttentionParams& params) {
  using Block = Forward<Config>;
  Block block(params);
  ForwardLoader<Config> loader = block.start_loads(block.rows);
  typename Block::Ring ring(loader);
  ring.start();
  const RangeRows<Config> range{params, block.place, block.rows};
  range.read_sums();
  block.rows.prepare_pass_two();
#pragma unroll 1
  for (int dv_block = 0; dv_block < Block::Shape::kNumDvBlocks; ++dv_block) {
    typename Block::Columns o, unused;
    typename Config::Mma::RowSums zs, none;
    o.clear();
    block.pass_two(ring, o, zs, unused, none);
    range.write_columns(dv_block * Block::Shape::kBlockDv, o, {zs.total(0), zs.total(1)});
  }
  ring.finish();
}

}  // namespace lssar_device
