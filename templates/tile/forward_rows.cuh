// A lane's two query rows in a forward pass, and how it writes them.
//
// All forward kernels of LSSA and LSSAR share this; docs/math.md has the formulas.
//
// kIsInvariant: a row's sums do not depend on tiles that only other rows see (docs/invariance.md).
#pragma once

#include "templates/ptx/sync.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/lane_rows.cuh"
#include "templates/tile/saved_o.cuh"
#include "templates/tile/score.cuh"

namespace lssar_device {

// The sums of pass 1 of a lane's two rows.
template <class Config, int kTiles>
struct PassOneSums {
  static_assert(2 * kTiles <= SoftplusSum::kMaxFactors, "a tile must not overflow the product");
  static constexpr int kTilesPerFlush =
      Config::kIsInvariant ? 1 : SoftplusSum::kMaxFactors / (2 * kTiles);

  SoftplusSum sums[2];
  int unflushed = 0;

  LSSAR_DEVICE void add(const Fragment<kTiles>& s) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[e / 2].add(s.at[n][e]);
    if (++unflushed == kTilesPerFlush) flush();
  }

  LSSAR_DEVICE void flush() {
    sums[0].template flush<Config>();
    sums[1].template flush<Config>();
    unflushed = 0;
  }
};

template <class Config>
struct ForwardRows : LaneRows<Config> {
  using Element = typename Config::Element;
  using LaneRows<Config>::row;
  using LaneRows<Config>::head;
  using LaneRows<Config>::visible;
  using LaneRows<Config>::head_of;

  float score_scale[2];  // c_i log2(e) / |q_i|
  float sum[2];          // R in bits
  float largest_score[2];
  float m[2];
  WeightScale scale[2];
  Evaluator evaluator;
  float skip_below[2];  // kSkipTiles: lower scores have weights (for X: u^(p-1)) below 2^-24

  ForwardRows() = default;

  LSSAR_DEVICE void finish_row(int half, float inverse_norm) {
    const float num_keys = static_cast<float>(visible[half]);
    score_scale[half] =
        visible[half] == 0 ? 0.0f : Config::score_scale_bits(num_keys) * inverse_norm;
  }

  template <int kTiles>
  LSSAR_DEVICE void reduce_sums(PassOneSums<Config, kTiles>& pass) {
    pass.flush();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] = quad_sum(pass.sums[half].total);
      largest_score[half] = quad_maximum(pass.sums[half].largest);
    }
  }

  // Computes the other members from `sum` and `largest_score`.
  LSSAR_DEVICE void prepare_pass_two() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float num_keys = static_cast<float>(visible[half]);
      scale[half] = {0.0f, 0.0f, 0.0f};  // every weight is 0
      m[half] = 0.0f;
      if (visible[half] == 0) {
        largest_score[half] = 0.0f;
      } else {
        m[half] = largest_weight<Config>(num_keys, sum[half], largest_score[half]);  // NaN if R is
        if (!(m[half] <= kDeadRow))
          scale[half] = weight_scale<Config>(num_keys, sum[half], m[half], largest_score[half]);
      }
      if constexpr (Config::kSkipTiles) skip_below[half] = skip_threshold(half);
    }
    if constexpr (Config::kNumEvaluators > 1) choose_evaluator();
  }

  // In the warp's rows.
  LSSAR_DEVICE bool all_scores_above(float limit) const {
    return warp_all(has_scores_above<Config>(scale[0], limit) &&
                    has_scores_above<Config>(scale[1], limit));
  }

  // A lower bound of the score whose activation has u = kSkipWeight. A row that saw a NaN skips
  // nothing, so that its sums stay NaN.
  LSSAR_DEVICE float skip_threshold(int half) const {
    constexpr float kMargin = 1.0f - 1.0f / 1024.0f;  // above the evaluators' errors
    const WeightScale& s = scale[half];
    if (is_nan(sum[half]) || is_nan(m[half])) return -infinity();
    if (s.slope == 0.0f) return infinity();  // no weights
    const float cut = (s.origin + (Config::kSkipWeight - s.intercept) / s.slope) * kMargin;
    return cut > 0.0f ? inverse_softplus_bits(cut) : -infinity();
  }

  // Whether no score of the tile has a weight in any of the warp's rows. NOTE: the largest score
  // ignores NaN, but a row with a NaN skips nothing.
  template <int kTiles>
  LSSAR_DEVICE bool has_no_weights(const Fragment<kTiles>& s) const {
    float largest[2] = {s.at[0][0], s.at[0][2]};
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) largest[e / 2] = maximum(largest[e / 2], s.at[n][e]);
    return warp_all(largest[0] < skip_below[0] && largest[1] < skip_below[1]);
  }

  // The cheapest evaluator that is accurate enough for the warp's rows.
  //
  // All but the full one use the weight scale without an origin, and evaluate the softplus of the
  // largest score themselves, so that max u is 1.
  LSSAR_DEVICE void choose_evaluator() {
    evaluator = kFullSoftplus;
    if (all_scores_above(kShortLimit)) evaluator = kShortSoftplus;
    if constexpr (Config::kNumEvaluators > 2) {
      if (all_scores_above(kLinearLimit)) evaluator = kLinearSoftplus;
    }
    if (evaluator == kFullSoftplus) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (scale[half].slope == 0.0f) continue;
      const float largest = evaluator == kLinearSoftplus ? largest_score[half]
                                                         : short_softplus_bits(largest_score[half]);
      if (scale[half].intercept == 0.0f) {
        scale[half].slope = 1.0f / largest;
      } else {
        scale[half].intercept = fma(-largest, scale[half].slope, 1.0f);
        scale[half].origin = 0.0f;
      }
    }
  }

  // Scores in bits -> u.
  template <int kTiles>
  LSSAR_DEVICE void evaluate(Fragment<kTiles>& s) const {
    if (Config::kNumEvaluators > 2 && evaluator == kLinearSoftplus) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s.at[n][e] = fma_saturate(s.at[n][e], scale[e / 2].slope, scale[e / 2].intercept);
    } else if (Config::kNumEvaluators > 1 && evaluator == kShortSoftplus) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s.at[n][e] = fma_saturate(short_softplus_bits(s.at[n][e]), scale[e / 2].slope,
                                    scale[e / 2].intercept);
    } else {
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s.at[n][e] = scale[e / 2].apply(softplus_bits<Config>(s.at[n][e]));
    }
  }

  // Writes the lane's elements of o, from column `first_col` on, and what is saved with them. `o`
  // and `y` are sum_j w_ij v_j and sum_j u_ij^(p-1) v_j, `sums` and `t` the same without v_j.
  //
  // Portable kernels add up weights as rounded. For training it also writes the saved o, X and the
  // statistics. With kStoresByTma, o stays in `o` and the caller stores it.
  template <int kTiles>
  LSSAR_DEVICE void write_columns(const AttentionParams& params, const BlockPlace& place,
                                  int first_col, Fragment<kTiles>& o, const Fragment<kTiles>& y,
                                  const float (&sums)[2], const float (&t)[2]) const {
    const i64 queries_total = seq_q<Config>(params);
    const i64 slice = i64{place.batch} * params.heads + (Config::kPackGqa ? 0 : place.head);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (row[half] >= queries_total) continue;
      // The clamp to [0, 1] hides a NaN, so a row that saw one becomes NaN here.
      const bool is_bad = (!Config::kSavesPassOneEarly && is_nan(sum[half])) || is_nan(m[half]);
      const float zs = sums[half];
      const float inverse = is_bad ? quiet_nan() : zs > 0.0f ? 1.0f / zs : 0.0f;
      const float x_scale = zs > 0.0f || is_bad ? inverse / m[half] : 0.0f;
      const i64 saved_row =
          (Config::kPackGqa ? slice + head[half] : slice) * queries_total + row[half];
      Element* out = row_pointer<Element>(params.o, place.batch, head_of(place, half), row[half]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int col = first_col + fragment_col(n);
        if (col >= Config::kHeadDimV) continue;
        const float o0 = o.at[n][2 * half] * inverse;
        const float o1 = o.at[n][2 * half + 1] * inverse;
        if constexpr (!Config::kStoresByTma) {
          store_pair<Config::kIsAligned, Element>(out + col, o0, o1);
        } else {
          o.at[n][2 * half] = o0;
          o.at[n][2 * half + 1] = o1;
        }
        if constexpr (Config::kIsTraining && !Config::kIsFp32)
          save_rounding<Config>(params, saved_row, col, o0, o1);
        if constexpr (Config::kNeedsX)
          store_pair<true, typename Config::SavedX>(
              static_cast<typename Config::SavedX*>(params.saved_x) +
                  saved_row * Config::kHeadDimV + col,
              (y.at[n][2 * half] - t[half] * o0) * x_scale,
              (y.at[n][2 * half + 1] - t[half] * o1) * x_scale);
      }
      const bool has_stats = Config::kIsTraining || params.saved_stats != nullptr;
      if (!has_stats || first_col != 0 || lane_index() % 4 != 0) continue;
      const i64 count = i64{params.batch} * params.heads * seq_q<Config>(params);
      if constexpr (!Config::kSavesPassOneEarly) {
        params.saved_stats[saved_row] = sum[half] * kLn2;
        params.saved_stats[count + saved_row] = m[half];
      }
      params.saved_stats[2 * count + saved_row] = is_bad ? quiet_nan() : zs;
      if constexpr (!Config::kSavesPassOneEarly)
        params.saved_stats[3 * count + saved_row] = largest_score[half];
    }
  }
};

}  // namespace lssar_device
