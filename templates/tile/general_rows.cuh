// The rows of a forward whose score function is given as expressions: from scores to the weights
// that multiply values. docs/math.md has the classes of score functions.
//
// kActivationSum: r is 0 no sum, 1 sum_j a_ij, 2 sum_j |a_ij|.
// kSecondStage:   0 none, 1 the power of the re-weighting, 2 psi.
// kWeightSum:     z of psi, as kActivationSum.
// kIsExponential: phi is an exponential over a sum; the row's largest score is taken out, and the
//                 bias with it. Large scores must be the same to the bit wherever they are
//                 computed: hence add_rounded.
// kFusesScale:    scores are products until activate(), which scales and shifts them by one fma.
//                 Rows with large scores are scaled before (has_large_scores).
// kHasPassOne:    a pass over the keys comes first and finds r, which weights need. Without it, and
//                 without kIsRange, weights are activations, and r divides at the end.
// kDivisorSum:    the divisor of o: as kActivationSum, but a sum of weights.
// kDivisorIsSum:  r is the sum of weights that divides o; there is no other sum.
// kHasSink:       r includes the sink of the row's head (tile/sink.cuh); weights do not.
// kScalesWeights: weights may leave fp16's range. Each row has a power of two then.
// kIsInvariant:   a row's sums and products do not depend on its warp's other rows, or on tiles
//                 that only those see (docs/invariance.md).
#pragma once

#include "templates/tile/expression_math.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/lane_rows.cuh"
#include "templates/tile/saved_o.cuh"
#include "templates/tile/score.cuh"
#include "templates/tile/score_fragment.cuh"
#include "templates/tile/sink.cuh"

namespace lssar_device {

// Which keys of a tile a lane's rows see; `first` is the tile's first key.
struct TileMask {
  i64 first;
  bool is_needed;
};

template <class Config>
struct GeneralRows : LaneRows<Config> {
  using Element = typename Config::Element;
  using LaneRows<Config>::row;
  using LaneRows<Config>::visible;

  // Whether r is known before the first weight: from pass 1, or from the caller.
  static constexpr bool kKnowsSums = Config::kHasPassOne || Config::kIsRange;
  // Whether weigh() changes the unit of the weights so far.
  static constexpr bool kRescales =
      Config::kScalesWeights || (Config::kIsExponential && !kKnowsSums);

  RowKeys<Config> seen[2];  // kIsRange: keys of the range that the row sees
  float score_scale[2];     // c_i / |q_i|, as Config::score_scale has it
  float bias[2];
  float largest_score[2];  // kIsExponential: so far; -infinity before the first key
  float sum[2];            // of activations or their magnitudes: the lane's part, then the row's
  float lost[2];           // what roundings of `sum` dropped (Kahan's sum)
  float highest[2], lowest[2];  // activation, for the power
  float weight_sum[2];          // the same as `sum` of psi
  float normalizer[2];          // r_i, once it is known
  float m[2];                   // largest U
  WeightScale scale[2];         // the power's
  GradScale<Config> range[2];   // kScalesWeights
  float sink_logit[2];          // kHasSink

  LSSAR_DEVICE float length(int half) const { return static_cast<float>(visible[half]); }

  LSSAR_DEVICE void clear() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      largest_score[half] = highest[half] = -infinity();
      lowest[half] = infinity();
      sum[half] = lost[half] = m[half] = normalizer[half] = 0.0f;
    }
  }
  // Called before a pass that accumulates columns of o. If r is not known, each such pass sums it.
  LSSAR_DEVICE void start_columns() {
    if constexpr (!kKnowsSums) clear();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      weight_sum[half] = lost[half] = 0.0f;
      range[half].factor = GradScale<Config>::largest_factor();
    }
  }

  // REQUIRES: the rows are placed.
  LSSAR_DEVICE void load_sink(const AttentionParams& params, const BlockPlace& place) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      sink_logit[half] = visible[half] == 0 ? 0.0f : params.sink[this->head_of(place, half)];
  }
  // What the sink adds to r, or to the sum of weights; 0 without one. REQUIRES: the row has keys.
  LSSAR_DEVICE float sink(int half) const {
    if constexpr (!Config::kHasSink) return 0.0f;
    return sink_activation<Config>(sink_logit[half], length(half), origin_of(largest_score[half]));
  }

  LSSAR_DEVICE void finish_row(int half, float inverse_norm) {
    const bool has_keys = visible[half] != 0;
    // Fused scores may be infinite, and times 0 they would be NaN.
    constexpr float kNoScale = Config::kFusesScale ? 1.0f : 0.0f;
    score_scale[half] = has_keys ? Config::score_scale(length(half)) * inverse_norm : kNoScale;
    bias[half] = has_keys ? Config::score_bias(length(half)) : 0.0f;
  }

  template <int kTiles>
  LSSAR_DEVICE void hide(Fragment<kTiles>& s, const TileMask& mask, float value) const {
    if constexpr (Config::kIsRange) {
      if (mask.is_needed) mask_keys<Config>(s, seen, mask.first, value);
    } else {
      if (mask.is_needed) mask_keys<Config>(s, visible, mask.first, value);
    }
  }

  // Raises the largest score to that of the tile. `factor`: what sums so far are multiplied by.
  template <int kTiles>
  LSSAR_DEVICE void raise_largest(const Fragment<kTiles>& s, float (&factor)[2]) {
    float largest[2] = {-infinity(), -infinity()};
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) largest[e / 2] = maximum(largest[e / 2], s.at[n][e]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float raised = quad_maximum(largest[half]);
      if constexpr (Config::kFusesScale) raised *= score_scale[half];
      raised = maximum(largest_score[half], raised);
      factor[half] = exp2_approx(largest_score[half] - origin_of(raised));
      largest_score[half] = raised;
    }
  }

  // What is subtracted from scores: 0 before the first key, so that -infinity stays -infinity.
  static LSSAR_DEVICE float origin_of(float largest) {
    return largest == -infinity() ? 0.0f : largest;
  }

  // kFusesScale: scales large scores. Sets `scale` to the factors that the rows still need.
  template <int kTiles>
  LSSAR_DEVICE void scale_large(Fragment<kTiles>& s, float (&scale)[2]) const {
    const bool is_large[2] = {has_large_scores(largest_score[0]),
                              has_large_scores(largest_score[1])};
    float first[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      first[half] = is_large[half] ? score_scale[half] : 1.0f;
      scale[half] = is_large[half] ? 1.0f : score_scale[half];
    }
    if (!warp_all(!is_large[0] && !is_large[1])) multiply_rows(s, first);
  }

  // Scores -> activations. With kRaises the caller multiplies the sums so far by `factor`. Else the
  // largest score stays.
  //
  // Scores are products times scales, or with kFusesScale products. Activations of hidden keys are
  // 0 only if kIsExponential.
  template <bool kRaises, int kTiles>
  LSSAR_DEVICE void activate(Fragment<kTiles>& s, const TileMask& mask, float (&factor)[2]) {
    factor[0] = factor[1] = 1.0f;
    float shift[2] = {bias[0], bias[1]};
    if constexpr (Config::kIsExponential) {
      hide(s, mask, -infinity());
      if constexpr (kRaises) raise_largest(s, factor);
      shift[0] = -origin_of(largest_score[0]);
      shift[1] = -origin_of(largest_score[1]);
    }
    if constexpr (Config::kFusesScale) {
      float scale[2];
      scale_large(s, scale);
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s.at[n][e] = Config::phi(fma(s.at[n][e], scale[e / 2], shift[e / 2]));
    } else {
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s.at[n][e] = Config::phi(add_rounded(s.at[n][e], shift[e / 2]));
    }
  }

  // Kahan's sum of tiles.
  template <int kSum, int kTiles>
  static LSSAR_DEVICE void add(const Fragment<kTiles>& x, float (&sum)[2], float (&lost)[2]) {
    float tile[2] = {0.0f, 0.0f};
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) tile[e / 2] += kSum == 2 ? absolute(x.at[n][e]) : x.at[n][e];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // A tile that only other rows see changes nothing.
      if (Config::kIsInvariant && tile[half] == 0.0f) continue;
      const float term = tile[half] - lost[half];
      const float total = sum[half] + term;
      lost[half] = (total - sum[half]) - term;
      sum[half] = total;
    }
  }

  // Pass one: a tile's activations.
  template <int kTiles>
  LSSAR_DEVICE void add_activations(Fragment<kTiles>& s, const TileMask& mask) {
    float factor[2];
    activate<true>(s, mask, factor);
    if constexpr (Config::kIsExponential) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[half] *= factor[half];
        lost[half] *= factor[half];
      }
    } else {
      if constexpr (Config::kSecondStage == 1) {
        hide(s, mask, quiet_nan());  // which a maximum ignores
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            highest[e / 2] = maximum(highest[e / 2], s.at[n][e]);
            lowest[e / 2] = -maximum(-lowest[e / 2], -s.at[n][e]);
          }
      }
      hide(s, mask, 0.0f);
    }
    add<Config::kActivationSum == 2 ? 2 : 1>(s, sum, lost);
  }

  // Whether the row's output is NaN whatever its weights are: a clamp or a division hides it.
  LSSAR_DEVICE bool is_bad(int half) const {
    if (Config::kActivationSum == 0 && Config::kSecondStage == 0) return false;
    if (Config::kHasSink && is_nan(normalizer[half])) return true;
    return !(absolute(sum[half]) < infinity()) || is_nan(m[half]);
  }
  LSSAR_DEVICE float row_normalizer(int half) const {
    if constexpr (Config::kHasSink) {
      return sum[half] + sink(half);
    } else if constexpr (Config::kActivationSum != 0) {
      return sum[half];
    } else {
      return Config::fixed_normalizer(length(half));
    }
  }

  LSSAR_DEVICE void finish_pass_one() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] = quad_sum(sum[half]);
      highest[half] = quad_maximum(highest[half]);
      lowest[half] = -quad_maximum(-lowest[half]);
      finish_sums(half);
    }
  }

  // Computes what weights need from the row's sum and largest activations.
  LSSAR_DEVICE void finish_sums(int half) {
    scale[half] = dead_weight_scale();
    normalizer[half] = visible[half] == 0 ? 0.0f : row_normalizer(half);
    if constexpr (Config::kSecondStage == 1) {
      if (normalizer[half] != 0.0f) scale_weights(half);
    }
  }

  // The activation whose U is the row's largest.
  LSSAR_DEVICE float extreme(int half) const {
    if constexpr (Config::kIsExponential) {
      return Config::kPhiSign;
    } else {
      return normalizer[half] < 0.0f ? lowest[half] : highest[half];
    }
  }

  LSSAR_DEVICE void scale_weights(int half) {
    const float num_keys = length(half), largest = extreme(half);
    m[half] = num_keys * largest / normalizer[half] - row_offset<Config>(num_keys);
    if (!(m[half] <= kDeadRow))
      scale[half] = weight_scale<Config>(num_keys, normalizer[half], m[half], largest);
  }

  // Products times scales -> weights, 0 for hidden keys.
  //
  // With kRescales the weighted sums so far are to be multiplied by `factor`.
  template <int kTiles>
  LSSAR_DEVICE void weigh(Fragment<kTiles>& s, const TileMask& mask, float (&factor)[2]) {
    activate<!kKnowsSums>(s, mask, factor);
    if constexpr (Config::kIsExponential && !kKnowsSums && !Config::kDivisorIsSum) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[half] *= factor[half];
        lost[half] *= factor[half];
      }
    }
    if constexpr (Config::kSecondStage == 1) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s.at[n][e] = Config::power(scale[e / 2].apply(s.at[n][e]));
    }
    if constexpr (Config::kSecondStage == 2) {
      float per_key[2], offset[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        per_key[half] = normalizer[half] == 0.0f ? 0.0f : length(half) / normalizer[half];
        offset[half] = row_offset<Config>(length(half));
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s.at[n][e] = Config::psi(s.at[n][e] * per_key[e / 2], offset[e / 2], length(e / 2));
    }
    if constexpr (!Config::kIsExponential || Config::kSecondStage != 0) hide(s, mask, 0.0f);
    if constexpr (!kKnowsSums && Config::kActivationSum != 0 && !Config::kDivisorIsSum)
      add<Config::kActivationSum>(s, sum, lost);
    if constexpr (Config::kSecondStage == 2 && Config::kWeightSum != 0)
      add<Config::kWeightSum>(s, weight_sum, lost);
    if constexpr (Config::kScalesWeights) make_room(s, factor);
  }

  // How many products weights take part in. 2: also one of what rounding to 16 bits dropped.
  LSSAR_DEVICE int num_weight_parts() const {
    return warp_all(!has_few_keys<Config>(visible[0]) && !has_few_keys<Config>(visible[1])) ? 1 : 2;
  }

  // Keeps the weights of rows with so few keys that they take part in both products.
  template <int kTiles>
  LSSAR_DEVICE void keep_few(Fragment<kTiles>& s) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (!has_few_keys<Config>(visible[e / 2])) s.at[n][e] = 0.0f;
  }

  // Multiplies each row's weights by a power of two, so that none overflows. From tile to tile this
  // power only falls. The caller multiplies the weighted sums so far by `ratio`.
  template <int kTiles>
  LSSAR_DEVICE void make_room(Fragment<kTiles>& s, float (&ratio)[2]) {
    float largest[2] = {0.0f, 0.0f}, by[2];
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) largest[e / 2] = maximum(largest[e / 2], absolute(s.at[n][e]));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      ratio[half] = range[half].make_room(bits_of_float(quad_maximum(largest[half])));
      by[half] = range[half].factor;
    }
    multiply_rows(s, by);
  }

  // The divisor of o if it is a sum. With a second stage the sink is part of r, not of this sum.
  LSSAR_DEVICE float divisor(int half, float weights) const {
    if constexpr (!Config::kHasSink || Config::kSecondStage != 0) return weights;
    return visible[half] == 0 ? weights : weights + sink(half);
  }

  // Writes the lane's elements of o from column `first_col` on, and for training those of the saved
  // o and the statistics. `o` is sum_j w_ij v_j. `weights` is the divisor's sum, of rounded
  // weights, so that o of a row with one key is exactly this key's value.
  //
  // With kStoresByTma, o stays in `o` for the caller to store.
  template <int kTiles>
  LSSAR_DEVICE void write_columns(const AttentionParams& params, const BlockPlace& place,
                                  int first_col, Fragment<kTiles>& o, const float (&weights)[2]) {
    const i64 queries_total = seq_q<Config>(params);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Every lane of a quad takes part in its sums.
      if constexpr (!kKnowsSums) {
        if (Config::kActivationSum != 0)
          sum[half] = Config::kDivisorIsSum ? weights[half] : quad_sum(sum[half]);
        normalizer[half] = visible[half] == 0 ? 0.0f : row_normalizer(half);
      }
      float z = 1.0f;
      if constexpr (Config::kSecondStage == 1) z = weights[half];
      if constexpr (Config::kSecondStage == 2 && Config::kWeightSum != 0)
        z = quad_sum(weight_sum[half]);
      if (normalizer[half] == 0.0f) z = 0.0f;
      if (is_bad(half)) z = quiet_nan();
      if (row[half] >= queries_total) continue;
      float inverse = z == 0.0f ? 0.0f : z / z;  // NaN stays
      if constexpr (Config::kDivisorSum != 0) {
        inverse /= divisor(half, weights[half]);  // has the same range
      } else {
        if constexpr (Config::kSecondStage == 0) inverse /= normalizer[half];
        if constexpr (Config::kScalesWeights) inverse *= range[half].inverse();
      }
      const i64 saved_row = this->saved_index(params, place, half);
      Element* out =
          row_pointer<Element>(params.o, place.batch, this->head_of(place, half), row[half]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int col = first_col + fragment_col(n);
        if (col >= Config::kHeadDimV) continue;
        const float o0 = z == 0.0f ? 0.0f : o.at[n][2 * half] * inverse;
        const float o1 = z == 0.0f ? 0.0f : o.at[n][2 * half + 1] * inverse;
        if constexpr (!Config::kStoresByTma) {
          store_pair<Config::kIsAligned, Element>(out + col, o0, o1);
        } else {
          o.at[n][2 * half] = o0;
          o.at[n][2 * half + 1] = o1;
        }
        if constexpr (Config::kIsTraining && !Config::kIsFp32)
          save_rounding<Config>(params, saved_row, col, o0, o1);
      }
      const bool has_stats = Config::kIsTraining || params.saved_stats != nullptr;
      if (has_stats && first_col == 0 && lane_index() % 4 == 0)
        save_stats(params, half, saved_row, z);
    }
  }

  LSSAR_DEVICE void save_stats(const AttentionParams& params, int half, i64 saved_row,
                               float z) const {
    const i64 count = i64{params.batch} * params.heads * seq_q<Config>(params);
    float largest = 0.0f;
    if constexpr (Config::kIsExponential) {
      largest = origin_of(largest_score[half]);
    } else if constexpr (Config::kSecondStage == 1) {
      largest = normalizer[half] == 0.0f ? 0.0f : extreme(half);
    }
    params.saved_stats[saved_row] = normalizer[half];
    params.saved_stats[count + saved_row] = m[half];
    params.saved_stats[2 * count + saved_row] = z;
    params.saved_stats[3 * count + saved_row] = largest;
  }
};

}  // namespace lssar_device
