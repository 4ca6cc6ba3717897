// First step: what every later score of a query row needs.
//
//   delta_i = g_i o_i (o before it was rounded),  eps_i = p b_i g_i X_i
//
// Eight lanes work on a row of [batch, heads, seq_q]; a block has kThreads / 8 rows. If the dk/dv
// kernel sums dq, this kernel also clears the sums and the counters of their order.
#pragma once

#include "templates/tile/dq_turns.cuh"
#include "templates/tile/general_gradient.cuh"
#include "templates/tile/grad_q_sum.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/row_constants.cuh"
#include "templates/tile/row_group.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/sink.cuh"

namespace lssar_device {

// sum_c g[c] x[c] over the row group.
template <class Config, bool kIsXAligned, class X>
LSSAR_DEVICE float row_dot(const typename Config::Element* g, const X* x) {
  float sum = 0.0f;
#pragma unroll
  for (int col = 0; col < Config::kHeadDimV; col += kRowGroupThreads * kChunkElems) {
    const int at = col + row_group_lane() * kChunkElems;
    if (at >= Config::kHeadDimV) continue;
    float gs[kChunkElems], xs[kChunkElems];
    load_chunk<Config::kIsAligned>(gs, g + at);
    load_chunk<kIsXAligned>(xs, x + at);
#pragma unroll
    for (int i = 0; i < kChunkElems; ++i) sum = fma(gs[i], xs[i], sum);
  }
  return row_group_sum(sum);
}

// 1 / |q_i| for scores. Where N P - b cancels, weights show the last bit of a score, so gradients
// need the very scores that the saved statistics were computed from: float32 rows are summed in the
// order of the forward. In 16 bits, rounding the weights hides the difference.
template <class Config>
LSSAR_DEVICE float query_inverse_norm(const typename Config::Element* q) {
  if constexpr (!Config::kIsFp32) {
    using Element = typename Config::Element;
    return inverse_norm<Config>(row_square<Config::kHeadDim, Config::kIsAligned, Element>(q));
  } else {
    float square = 0.0f;
#pragma unroll 4
    for (int col = 0; col < Config::kHeadDim; col += kTileCols) {
      const float* pair = q + col + fragment_col(0);
      square = fma(pair[0], pair[0], fma(pair[1], pair[1], square));
    }
    return inverse_norm<Config>(quad_sum(square));
  }
}

struct SavedStats {
  float r;  // natural units
  float m;
  float zs;
  float largest_score;  // bits; of score functions given as expressions: as the forward saved it
};

LSSAR_DEVICE SavedStats load_stats(const AttentionParams& params, i64 count, i64 row) {
  return {params.saved_stats[row], params.saved_stats[count + row],
          params.saved_stats[2 * count + row], params.saved_stats[3 * count + row]};
}

// zs^(-1/p). A Newton step brings the approximation to float32 accuracy, because weights have p
// times its relative error. REQUIRES: zs is at least about 1.
template <class Config>
LSSAR_DEVICE float inverse_root(float zs) {
  const float inverse_power = 1.0f / static_cast<float>(Config::kPower);
  const float root = exp2_approx(-log2_approx(zs) * inverse_power);
  const float product = zs * Config::power_slope(root) * root;
  return fma(root * inverse_power, 1.0f - product, root);
}

// By how much an evaluator changes a weight u^(p-1) of the row, or its gradient, relatively. The
// linear form makes weights smaller through the softplus, and gradients larger through the sigmoid,
// which it takes as 1.
template <class Config, Evaluator kEvaluator>
LSSAR_DEVICE float weight_change(const WeightScale& scale, float u) {
  const float activation = scale.activation(u);
  const float by_softplus = static_cast<float>(Config::kPower) * scale.slope / u;
  if constexpr (kEvaluator == kLinearSoftplus)
    return maximum(by_softplus, kLn2) * row_softplus_bits<Config>(-activation);
  return by_softplus * short_softplus_error(activation);
}

// Whether an evaluator serves the row: it changes most of the weights by less than rounding does,
// and changes weights that hardly matter by little.
template <class Config, Evaluator kEvaluator>
LSSAR_DEVICE bool serves(const WeightScale& scale) {
  constexpr float kRounding = Config::kIsFp16 ? 1.0f / 2048.0f : 1.0f / 256.0f;
  constexpr float kMaxChange = kRounding / 2.0f, kMaxCutChange = 1.0f / 16.0f;
  if (scale.slope == 0.0f) return true;  // no weights
  return scale.activation(Config::kCutWeight) >= row_softplus_bits<Config>(kShortLimit) &&
         weight_change<Config, kEvaluator>(scale, Config::kCutWeight) <= kMaxCutChange &&
         weight_change<Config, kEvaluator>(scale, Config::kMostWeight) <= kMaxChange;
}

// The cheapest evaluator that serves the row. NOTE: the row's scale is from the full softplus of
// its largest score, whatever evaluates the others.
template <class Config>
LSSAR_DEVICE Evaluator row_evaluator(const WeightScale& scale) {
  if constexpr (Config::kNumEvaluators > 2) {
    if (serves<Config, kLinearSoftplus>(scale)) return kLinearSoftplus;
  }
  if constexpr (Config::kNumEvaluators > 1) {
    if (serves<Config, kShortSoftplus>(scale)) return kShortSoftplus;
  }
  return kFullSoftplus;
}

// The word of RowLimits without the evaluator; 0 where something is not finite. The largest base is
// `root`, but evaluators change it, and so does a score that is summed in another order: by at most
// kBaseError of the two terms that the base is made of.
template <class Config>
LSSAR_DEVICE u32 gradient_limits(const RowConstants& row, float root, float largest_score,
                                 float g_norm) {
  constexpr float kBaseError = 1.0f / 512.0f;
  constexpr float kLargest = 8.507059e37f;  // 2^126
  const float gain = absolute(row.gain);
  if (!(gain < infinity()) || !(g_norm < infinity())) return 0;
  const float base = fma_saturate(root + absolute(row.intercept), kBaseError, root);
  const float w = Config::power_slope(base);
  const float s = sigmoid_of(largest_score, row_softplus_bits<Config>(largest_score));
  const float bound = gain * s * w * g_norm;  // in this order: where s is small, gain is large
  return RowLimits::pack(bound < kLargest ? bound : kLargest, w, s);
}

template <class Config>
LSSAR_DEVICE RowConstants make_row_constants(float num_keys, float inverse_norm,
                                             const SavedStats& stats, float delta, float g_x,
                                             float g_norm) {
  if (num_keys == 0.0f || stats.zs == 0.0f) return no_gradient();
  const float score_scale = Config::score_scale_bits(num_keys) * inverse_norm;
  const float grad_scale = score_scale * kLn2 / stats.r;  // c'_i / R_i
  const float power = static_cast<float>(Config::kPower);
  RowConstants row;
  row.score_scale = score_scale;
  const WeightScale weights =
      weight_scale<Config>(num_keys, stats.r / kLn2, stats.m, stats.largest_score);
  const float root = inverse_root<Config>(stats.zs);
  row.slope = weights.slope * root;
  if constexpr (!Config::kIsFp32) {
    row.intercept = fma(-weights.origin, weights.slope, weights.intercept) * root;
    row.limits = static_cast<u32>(row_evaluator<Config>(weights));
  } else {
    row.intercept = weights.intercept * root;
    row.limits = bits_of_float(weights.origin);
  }
  row.gain = power * num_keys / stats.m * grad_scale * root;
  row.gain_delta = row.gain * delta;
  row.epsilon = power * row_offset<Config>(num_keys) * g_x * grad_scale;
  // The clamp of u to [0, 1] hides a NaN. These factors bring it back.
  if (is_nan(stats.r) || is_nan(stats.m) || is_nan(stats.zs)) row.gain = row.epsilon = quiet_nan();
  row.inverse_epsilon = inverse_of_epsilon(row.epsilon);
  if constexpr (kScalesAhead<Config>)
    row.limits |= gradient_limits<Config>(row, root, stats.largest_score, g_norm);
  return row;
}

// The activation whose U is the row's largest.
template <class Config>
LSSAR_DEVICE float origin_of_weights(const SavedStats& stats) {
  if constexpr (Config::kIsExponential) {
    return Config::kPhiSign;
  } else {
    return stats.largest_score;
  }
}

// c'_i / r_i.
template <class Config>
LSSAR_DEVICE float general_grad_scale(const RowConstants& row, const SavedStats& stats) {
  return row.score_scale * Config::kGradUnit / stats.r;
}

// The same of a score function given as expressions; tile/general_gradient.cuh says what is where.
template <class Config>
LSSAR_DEVICE RowConstants make_general_constants(float num_keys, float inverse_norm,
                                                 const SavedStats& stats, float delta) {
  RowConstants row{};
  if (num_keys == 0.0f || stats.zs == 0.0f) return row;
  row.score_scale = Config::score_scale(num_keys) * inverse_norm;
  float shift = -stats.largest_score;
  if constexpr (!Config::kIsExponential) shift = Config::score_bias(num_keys);
  row.limits = bits_of_float(shift);
  // If the sink needs epsilon without this factor, the pass of epsilon multiplies by it later.
  const float grad_scale =
      Config::kSinkNeedsEpsilon ? 1.0f : general_grad_scale<Config>(row, stats);
  if constexpr (Config::kSecondStage == 0) {
    row.slope = 1.0f / stats.r;
    if constexpr (Config::kFusesScale) {
      row.intercept = row.score_scale;
      (has_large_scores(stats.largest_score) ? row.intercept : row.score_scale) = 1.0f;
    }
    row.gain = grad_scale;
    row.epsilon = delta * grad_scale;  // epsilon_i = delta_i
  } else if constexpr (Config::kSecondStage == 1) {
    const float root = inverse_root<Config>(stats.zs);
    const WeightScale weights =
        weight_scale<Config>(num_keys, stats.r, stats.m, origin_of_weights<Config>(stats));
    row.slope = weights.slope * root;
    row.intercept = weights.intercept * root;
    row.inverse_epsilon = weights.origin;
    row.gain = static_cast<float>(Config::kPower) * num_keys / stats.m * grad_scale * root;
  } else {
    row.slope = num_keys / stats.r;
    // With r = infinity (a huge sink) P is 0, but psi(0) may not be. 0 would mean a dead row.
    if (row.slope == 0.0f) row.slope = 1.17549435e-38f;
    row.intercept = 1.0f / stats.zs;
    row.inverse_epsilon = num_keys;
    row.gain = num_keys * grad_scale / stats.zs;
  }
  row.gain_delta = row.gain * delta;
  if (is_nan(stats.zs)) row.slope = row.gain = row.epsilon = quiet_nan();
  return row;
}

// Writes what the row adds to the gradient of its head's sink, -exp(t_h) / r_i eps_i.
//
// With kSinkNeedsEpsilon it is not multiplied by -eps_i yet.
template <class Config>
LSSAR_DEVICE void write_sink_terms(const AttentionParams& params, i64 flat_row, int head,
                                   float num_keys, const SavedStats& stats, const RowConstants& row,
                                   float delta) {
  const bool has_gradient = num_keys != 0.0f && stats.zs != 0.0f;
  float share = 0.0f;
  if (has_gradient) {
    const float sink = sink_activation<Config>(params.sink[head], num_keys, stats.largest_score);
    share = sink == infinity() ? 1.0f : sink / stats.r;
    if (is_nan(stats.zs)) share = quiet_nan();
  }
  if constexpr (Config::kSecondStage == 0) share *= -delta;
  if constexpr (Config::kSinkNeedsEpsilon) {
    *sink_terms_of<Config>(params, 1, flat_row) =
        has_gradient ? general_grad_scale<Config>(row, stats) : 0.0f;
  } else if constexpr (Config::kSecondStage != 0) {
    share = is_nan(share) ? share : 0.0f;  // epsilon is 0
  }
  *sink_terms_of<Config>(params, 0, flat_row) = share;
}

template <class Config>
LSSAR_DEVICE void backward_rows(const AttentionParams& params) {
  using Element = typename Config::Element;
  constexpr int kRowsPerBlock = Config::kRowThreads / kRowGroupThreads;
  const i64 queries = seq_q<Config>(params);
  const BlockPlace place = block_place<Config>(ceil_div(queries, kRowsPerBlock), params.heads);
  const i64 row = place.tile_idx * kRowsPerBlock + row_group_index();
  // Every lane takes part in the exchanges of its row group, so rows past the end repeat the last
  // row.
  const i64 read_row = minimum(row, queries - 1);
  const i64 flat_row = (i64{place.batch} * params.heads + place.head) * queries + read_row;

  const float inverse_norm = query_inverse_norm<Config>(
      row_pointer<const Element>(params.q, place.batch, place.head, read_row));
  const Element* g = row_pointer<const Element>(params.grad_o, place.batch, place.head, read_row);
  const Element* o = row_pointer<const Element>(params.o, place.batch, place.head, read_row);
  float delta = row_dot<Config, Config::kIsAligned>(g, o);
  if constexpr (!Config::kIsFp32)
    delta += row_dot<Config, true>(
        g, static_cast<const Bf16*>(params.saved_o) + flat_row * Config::kHeadDimV);
  float g_x = 0.0f;
  if constexpr (Config::kNeedsX)
    g_x = row_dot<Config, true>(g, static_cast<const typename Config::SavedX*>(params.saved_x) +
                                       flat_row * Config::kHeadDimV);
  float g_norm = 0.0f;
  if constexpr (kScalesAhead<Config>)
    g_norm = square_root(row_square<Config::kHeadDimV, Config::kIsAligned>(g));
  if (row >= queries) return;

  if constexpr (Config::kSumsDq) {
    const i64 slice = i64{place.batch} * params.heads + place.head;
    for (int col = row_group_lane() * 4; col < Config::kHeadDim; col += kRowGroupThreads * 4)
      store_global_16(GradQSum<Config>::at(params, slice, row, col), {0.0f, 0.0f, 0.0f, 0.0f});
  }
  if constexpr (Config::kOrderedDq)
    DqTurns<Config>::clear(params, i64{place.batch} * params.heads + place.head, row,
                           row_group_lane(), kRowGroupThreads);
  if (row_group_lane() != 0) return;
  const SavedStats stats = load_stats(params, i64{params.batch} * params.heads * queries, flat_row);
  const float num_keys = static_cast<float>(num_visible_keys<Config>(params, row));
  RowConstants c;
  if constexpr (Config::kIsGeneral) {
    c = make_general_constants<Config>(num_keys, inverse_norm, stats, delta);
    if constexpr (Config::kHasSink)
      write_sink_terms<Config>(params, flat_row, place.head, num_keys, stats, c, delta);
  } else {
    c = make_row_constants<Config>(num_keys, inverse_norm, stats, delta, g_x, g_norm);
  }
  params.q_inv_norm[flat_row] = inverse_norm;
  float* out = params.row_constants + flat_row * (kRowConstantBytes / 4);
  float low[4], high[4];
  c.pack_to(low, high);
  store_global_16(out, low);
  store_global_16(out + 4, high);
}

}  // namespace lssar_device
