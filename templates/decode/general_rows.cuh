// A lane's two rows of a score function given as expressions while blocks divide their keys
// (decode/scores.cuh).
#pragma once

#include "templates/decode/memory.cuh"
#include "templates/tile/changed_scores.cuh"
#include "templates/tile/general_rows.cuh"

namespace lssar_device {

template <class Config>
struct GeneralDecodeRows : KeptRows<Config, GeneralRows<Config>> {
  using Kept = KeptRows<Config, GeneralRows<Config>>;
  using Rows = GeneralRows<Config>;
  using Kept::has;
  using Kept::least;
  using Kept::memory;
  using Rows::highest;
  using Rows::largest_score;
  using Rows::lowest;
  using Rows::normalizer;
  using Rows::range;
  using Rows::sum;
  using Rows::visible;
  static constexpr int kTiles = Config::kForwardBlockCols / kTileCols;
  static constexpr bool kHasExtremes = Config::kSecondStage == 1 && !Config::kIsExponential;
  // Whether the largest weight of a row is 1.
  static constexpr bool kLargestIsOne =
      Config::kSecondStage == 1 || (Config::kIsExponential && Config::kSecondStage == 0);

  AlibiRows alibi;  // kHasAlibi

  LSSAR_DEVICE void start(const AttentionParams& params, const BlockPlace& place) {
    this->clear();
    if constexpr (Config::kHasAlibi) alibi = alibi_of_rows<Config>(params, place, *this);
  }
  LSSAR_DEVICE void change_scores(Fragment<kTiles>& s, i64 first, bool needs_mask) const {
    if constexpr (Config::kHasSoftCap) cap_scores<Config>(s);
    if constexpr (Config::kHasAlibi) alibi.add_to(s, first);
  }
  LSSAR_DEVICE void add_scores(Fragment<kTiles>& s, i64 first, bool needs_mask) {
    this->add_activations(s, {first, needs_mask});
  }

  LSSAR_DEVICE void write_sums(const AttentionParams& params, const BlockPlace& place, i64 chunk) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Every lane of a quad takes part in its sums.
      const float of_chunk = quad_sum(sum[half]);
      const float largest = kHasExtremes ? quad_maximum(highest[half]) : largest_score[half];
      const float negative = quad_maximum(-lowest[half]);
      if (!has(params, half) || lane_index() % 4 != 0) continue;
      const DecodeMemory<Config> of_row = memory(params, place, half);
      *of_row.part(kPartSum, chunk) = of_chunk;
      *of_row.part(kPartLargest, chunk) = largest;
      *of_row.part(kPartLowest, chunk) = negative;
    }
  }

  // Adds the chunks' sums, and computes what weights need. An exponential's sums are in units of
  // their chunk's largest score.
  LSSAR_DEVICE void read_sums(const AttentionParams& params, const BlockPlace& place) {
    this->clear();
    if constexpr (Config::kHasSink) this->load_sink(params, place);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      this->finish_row(half, 1.0f);
      const bool has_row = has(params, half);
      const DecodeMemory<Config> of_row = memory(params, place, half);
      const float largest = of_row.largest(kPartLargest, has_row);
      if constexpr (Config::kIsExponential) {
        largest_score[half] = largest;
        sum[half] = of_row.sum(kPartSum, has_row, [&](i64 chunk) {
          return exp2_approx(*of_row.part(kPartLargest, chunk) - Rows::origin_of(largest));
        });
      } else {
        if constexpr (kHasExtremes) {
          highest[half] = largest;
          lowest[half] = -of_row.largest(kPartLowest, has_row);
        }
        sum[half] = of_row.sum(kPartSum, has_row, [](i64) { return 1.0f; });
      }
      this->finish_sums(half);
      constexpr float kLeastNormal = 1.17549435e-38f;
      least[half] = kLargestIsOne ? least_weight<Config>(this->length(half)) : kLeastNormal;
    }
    this->start_columns();
  }

  // What change_scores left -> weights.
  LSSAR_DEVICE void weigh_scores(Fragment<kTiles>& s, i64 first, bool needs_mask) {
    float factor[2];
    this->weigh(s, {first, needs_mask}, factor);
    if constexpr (Config::kScalesWeights) {
      const float inverse[2] = {range[0].inverse(), range[1].inverse()};
      multiply_rows(s, inverse);
    }
  }
  // What weights are multiplied by before they are rounded, and sums of them afterwards. All tiles
  // of the chunk have been weighed.
  LSSAR_DEVICE float range_factor(int half) const {
    return Config::kScalesWeights ? range[half].factor : 1.0f;
  }
  LSSAR_DEVICE float output_factor(int half) const {
    float factor = Config::kScalesWeights ? range[half].inverse() : 1.0f;
    if constexpr (Config::kDivisorSum == 0 && Config::kSecondStage == 0)
      factor = normalizer[half] == 0.0f ? 0.0f : factor / normalizer[half];
    return factor;
  }

  // The chunk's part of the divisor, given the sum of its rounded weights. If the divisor is no
  // sum, every chunk has all of it. The first chunk adds the sink.
  LSSAR_DEVICE float divisor(int half, float weights, i64 chunk) const {
    if (normalizer[half] == 0.0f) return 0.0f;
    if (this->is_bad(half)) return quiet_nan();
    if constexpr (Config::kDivisorSum == 0) return 1.0f;
    if constexpr (Config::kScalesWeights) weights *= range[half].inverse();
    return chunk == 0 ? Rows::divisor(half, weights) : weights;
  }

  LSSAR_DEVICE void write_stats(const AttentionParams& params, i64 saved_row, int half) const {
    this->save_stats(params, half, saved_row, 0.0f);  // outputs come after it
  }
};

}  // namespace lssar_device
