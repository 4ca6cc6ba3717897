// What the backward knows of a query row: written once by backward_rows.cuh, read for every score.
#pragma once

#include "templates/ptx/memory.cuh"
#include "templates/ptx/types.cuh"
#include "templates/tile/score.cuh"

namespace lssar_device {

// With c'_i = c_i / |q_i|. A row without gradient (dead, or without keys) is all zeros; one that
// saw a NaN has NaN in the last four but delta.
struct RowConstants {
  float score_scale;    // c'_i log2(e)
  WeightScale weights;  // u_ij = U_ij / m_i
  float inverse_zs;     // 1 / zs_i, times kWeightRange
  float gain;           // p N_i c'_i / (m_i zs_i R_i)
  float delta;          // g_i o_i
  float epsilon;        // eps_i c'_i / R_i

  LSSAR_DEVICE void unpack_from(const float (&low)[4], const float (&high)[4]) {
    score_scale = low[0];
    weights = {low[1], low[2], low[3]};
    inverse_zs = high[0];
    gain = high[1];
    delta = high[2];
    epsilon = high[3];
  }
};
constexpr int kRowConstantBytes = 32;
static_assert(sizeof(RowConstants) == kRowConstantBytes, "two 16-byte vectors");

// Weights in (0, 1] are rounded to T after multiplication with this: 2^15 keeps small ones normal
// in fp16, whose exponents bf16 and float do not lack.
template <class T>
constexpr float kWeightRange = IsSame<T, Fp16>::value ? 32768.0f : 1.0f;

LSSAR_DEVICE RowConstants load_row_constants_shared(u32 address) {
  float low[4], high[4];
  load_shared(low, address);
  load_shared(high, address + kVectorBytes);
  RowConstants constants;
  constants.unpack_from(low, high);
  return constants;
}

LSSAR_DEVICE RowConstants load_row_constants_global(const float* row) {
  float low[4], high[4];
  load_global_16(low, row);
  load_global_16(high, row + 4);
  RowConstants constants;
  constants.unpack_from(low, high);
  return constants;
}

LSSAR_DEVICE RowConstants no_gradient() {
  return {0.0f, dead_weight_scale(), 0.0f, 0.0f, 0.0f, 0.0f};
}

// From score x (bits) and d = g_i v_j: the weight M_ij (times kWeightRange) and
//   dS'_ij = dS_ij c'_i = (gain u^(p-1) (D - delta) - epsilon) sigmoid(S_ij).
template <class Config>
LSSAR_DEVICE void weight_and_gradient(float x, float d, const RowConstants& row, float& weight,
                                      float& grad) {
  float softplus, sigmoid;
  softplus_and_sigmoid<Config>(x, softplus, sigmoid);
  const float u = row.weights.apply(softplus);
  const float slope = Config::power_slope(u);
  weight = u * slope * row.inverse_zs;
  grad = (row.gain * slope * (d - row.delta) - row.epsilon) * sigmoid;
}

// Products that dS' takes part in for dq, from the keys the first row of a tile sees: 2 = also what
// rounding to 16 bits dropped. The few dS of a row without an offset sum to zero, and if its keys
// agree so does its dq: only the rounding would be left of it.
template <class Config>
LSSAR_DEVICE int num_grad_parts(i64 visible_of_first_row) {
  return Config::Mma::kRoundsOperands && visible_of_first_row <= 3 ? 2 : 1;
}

}  // namespace lssar_device
