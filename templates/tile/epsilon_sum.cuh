// Epsilon of the backward's rows as a sum over their keys, used if no X was saved
// (tile/row_constants.cuh). The epsilon kernels of all architectures share it.
//
//   eps_i c'_i / R_i = b_i / N_i sum_j u_ij^(p-1) (gain D_ij - gain_delta)
//
// Epsilon is the mean of dP over P, where P_ij is (U_ij + b_i) / N_i if U_ij > 0. The part of U in
// this sum is 0 (docs/math.md), so only the part of b_i remains. For psi it is the whole mean.
#pragma once

#include "templates/tile/general_gradient.cuh"
#include "templates/tile/query_scores.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/sink.cuh"

namespace lssar_device {

// Places in a row's constants, which RowConstants::pack_to lays out.
inline constexpr int kEpsilonIdx = 5, kInverseEpsilonIdx = 7;
inline constexpr int kGainIdx = 3, kGainDeltaIdx = 6;

template <class Config>
struct EpsilonSum {
  float sums[2];  // of this lane's columns

  LSSAR_DEVICE void clear() { sums[0] = sums[1] = 0.0f; }

  // s: products q_i k_j, d: products g_i v_j. The mask is needed also past the last key, where
  // products are 0 but weights are not. Each tile is summed separately, so that sums have fewer
  // terms.
  template <int kTiles>
  LSSAR_DEVICE void add(Fragment<kTiles>& s, const Fragment<kTiles>& d,
                        const RowConstants (&rows)[2], u32 norms, const QueryMask<Config>& mask) {
    const float score_scale[2] = {rows[0].score_scale, rows[1].score_scale};
    scale_scores(s, score_scale, norms);
    float tile[2] = {0.0f, 0.0f};
    if constexpr (Config::kChangesScores) change_query_scores<Config>(s, mask);
    if constexpr (Config::kIsGeneral) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          s.at[n][e] = general_epsilon_term<Config>(s.at[n][e], d.at[n][e], rows[e / 2]);
      if (mask.is_needed) mask_keys<Config>(s, mask.visible, mask.first, 0.0f);
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) tile[e / 2] += s.at[n][e];
    } else {
      if (mask.is_needed) mask_keys<Config>(s, mask.visible, mask.first, -infinity());
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const RowConstants& row = rows[e / 2];
          const float u = weight_base<Config>(softplus_bits<Config>(s.at[n][e]), row);
          tile[e / 2] =
              fma(Config::power_slope(u), fma(row.gain, d.at[n][e], -row.gain_delta), tile[e / 2]);
        }
      }
    }
    sums[0] += tile[0];
    sums[1] += tile[1];
  }

  // Writes the row of half `half` to `constants`. All lanes of a warp call it. A row without an
  // offset keeps its value: 0, or NaN if it saw one.
  LSSAR_DEVICE void write(int half, i64 visible, float* constants) const {
    const float sum = quad_sum(sums[half]);
    const float num_keys = static_cast<float>(visible);
    float offset = row_offset<Config>(num_keys);
    if constexpr (Config::kSecondStage == 2) offset = num_keys == 0.0f ? 0.0f : 1.0f;
    if (offset == 0.0f || (lane_index() & 3) != 0) return;
    const float epsilon = sum * offset / num_keys;
    constants[kEpsilonIdx] = epsilon;
    if constexpr (!Config::kIsGeneral) constants[kInverseEpsilonIdx] = inverse_of_epsilon(epsilon);
  }
};

// As EpsilonSum::write, for a sink that needs epsilon without the factor c'_i / r_i. The row's
// gains do not have this factor yet, so they get it here. `term` and `grad_scale` are the row's
// sink_terms.
template <class Config>
LSSAR_DEVICE void write_epsilon_and_sink(float lane_sum, i64 visible, float* constants, float* term,
                                         const float* grad_scale) {
  const float sum = quad_sum(lane_sum);
  if (visible == 0 || (lane_index() & 3) != 0) return;
  const float num_keys = static_cast<float>(visible);
  const float offset = Config::kSecondStage == 2 ? 1.0f : row_offset<Config>(num_keys);
  const float epsilon = offset == 0.0f ? constants[kEpsilonIdx] : sum * offset / num_keys;
  constants[kEpsilonIdx] = epsilon * *grad_scale;
  constants[kGainIdx] *= *grad_scale;
  constants[kGainDeltaIdx] *= *grad_scale;
  *term *= -epsilon;
}

// Completes the constants of a row, and what it adds to its head's sink. `flat_row` is its index
// among [batch, heads, seq_q]. All lanes of a warp call it.
template <class Config>
LSSAR_DEVICE void write_epsilon(const EpsilonSum<Config>& sum, const AttentionParams& params,
                                i64 flat_row, int half, i64 visible) {
  float* constants = params.row_constants + flat_row * (kRowConstantBytes / 4);
  if constexpr (Config::kSinkNeedsEpsilon) {
    write_epsilon_and_sink<Config>(sum.sums[half], visible, constants,
                                   sink_terms_of<Config>(params, 0, flat_row),
                                   sink_terms_of<Config>(params, 1, flat_row));
  } else {
    sum.write(half, visible, constants);
  }
}

}  // namespace lssar_device
