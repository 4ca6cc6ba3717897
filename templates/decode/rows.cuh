// A lane's two rows of LSSA and LSSAR while blocks divide their keys (decode/scores.cuh).
#pragma once

#include "templates/decode/memory.cuh"
#include "templates/tile/forward_rows.cuh"
#include "templates/tile/score_fragment.cuh"

namespace lssar_device {

template <class Config>
struct DecodeRows : KeptRows<Config, ForwardRows<Config>> {
  using Kept = KeptRows<Config, ForwardRows<Config>>;
  using Rows = ForwardRows<Config>;
  using Kept::has;
  using Kept::least;
  using Kept::memory;
  using Rows::largest_score;
  using Rows::m;
  using Rows::scale;
  using Rows::sum;
  using Rows::visible;
  static constexpr int kTiles = Config::kForwardBlockCols / kTileCols;

  PassOneSums<Config, kTiles> sums;

  LSSAR_DEVICE void start(const AttentionParams& params, const BlockPlace& place) {
    sums = PassOneSums<Config, kTiles>();
  }
  // Scores of keys that a row does not see are -infinity, also in the workspace.
  LSSAR_DEVICE void change_scores(Fragment<kTiles>& s, i64 first, bool needs_mask) const {
    if (needs_mask) mask_keys<Config>(s, visible, first, -infinity());
  }
  LSSAR_DEVICE void add_scores(Fragment<kTiles>& s, i64 first, bool needs_mask) { sums.add(s); }

  LSSAR_DEVICE void write_sums(const AttentionParams& params, const BlockPlace& place, i64 chunk) {
    this->reduce_sums(sums);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!has(params, half) || lane_index() % 4 != 0) continue;
      const DecodeMemory<Config> of_row = memory(params, place, half);
      *of_row.part(kPartSum, chunk) = sum[half];
      *of_row.part(kPartLargest, chunk) = largest_score[half];
    }
  }

  // Adds the chunks' sums, and computes what weights need.
  LSSAR_DEVICE void read_sums(const AttentionParams& params, const BlockPlace& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const DecodeMemory<Config> of_row = memory(params, place, half);
      sum[half] = of_row.sum(kPartSum, has(params, half), [](i64) { return 1.0f; });
      largest_score[half] = of_row.largest(kPartLargest, has(params, half));
      least[half] = least_weight<Config>(static_cast<float>(visible[half]));
    }
    this->prepare_pass_two();
  }

  // Scores -> weights.
  LSSAR_DEVICE void weigh_scores(Fragment<kTiles>& s, i64 first, bool needs_mask) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float x = s.at[n][e];
        const float u = scale[e / 2].apply(softplus_bits<Config>(x));
        s.at[n][e] = x == -infinity() ? 0.0f : Config::power(u);
      }
  }
  LSSAR_DEVICE int num_weight_parts() const { return 1; }
  // What weights are multiplied by before they are rounded, and sums of them afterwards.
  LSSAR_DEVICE float range_factor(int half) const { return 1.0f; }
  LSSAR_DEVICE float output_factor(int half) const { return 1.0f; }

  // The chunk's part of the divisor, given the sum of its weights. The clamp to [0, 1] hides a NaN,
  // so a row that saw one becomes NaN here.
  LSSAR_DEVICE float divisor(int half, float weights, i64 chunk) const {
    return is_nan(sum[half]) || is_nan(m[half]) ? quiet_nan() : weights;
  }

  // All statistics but the divisor, which all chunks make together.
  LSSAR_DEVICE void write_stats(const AttentionParams& params, i64 saved_row, int half) const {
    const i64 count = i64{params.batch} * params.heads * seq_q<Config>(params);
    params.saved_stats[saved_row] = sum[half] * kLn2;
    params.saved_stats[count + saved_row] = m[half];
    params.saved_stats[3 * count + saved_row] = largest_score[half];
  }
};

}  // namespace lssar_device
