// Keeping dS' in the range of its 16-bit format.
//
// bf16 and float32 have exponents enough. fp16 does not, and the size of a gradient is the caller's
// choice (loss scaling). So fp16 gradients are multiplied by a power of two, which is lowered when
// a tile needs it; the sums so far are then multiplied along. What falls below fp16's subnormals is
// 2^-33 of the largest gradient, or with kScalesAhead 2^-37 of the largest bound.
#pragma once

#include "templates/ptx/sync.cuh"
#include "templates/tile/fragment.cuh"

namespace lssar_device {

template <class Config>
struct GradScale {
  static constexpr bool kIsNeeded = Config::kIsFp16;
  static constexpr float kLimit = 32768.0f;  // half of the largest fp16
  static constexpr int kTargetExponent = 9;  // largest gradient of a tile in [2^9, 2^10)
  static constexpr int kTargetOfBound = 13;  // what a bound allows is mostly larger than what comes
  static constexpr int kExponentBias = 127;
  static constexpr u32 kInfinityBits = 0x7f800000u;
  // 2^80, biased: finite after multiplication with any 1 / |k_j|, which is at most 1e12. A gradient
  // that would need more is 0 in fp16.
  static constexpr int kLargestExponent = kExponentBias + 80;

  float factor = largest_factor();  // the first tile sets it

  static LSSAR_DEVICE float largest_factor() {
    return kIsNeeded ? float_from_bits(static_cast<u32>(kLargestExponent) << 23) : 1.0f;
  }

  // Bits of the largest magnitude in the warp of gradients times their row's factor. The bits order
  // like the numbers. NaN does not count.
  template <int kTiles>
  static LSSAR_DEVICE u32 largest_bits(const Fragment<kTiles>& grads,
                                       const float (&row_factor)[2] = {1.0f, 1.0f}) {
    float largest[2] = {0.0f, 0.0f};
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        largest[e / 2] = maximum(largest[e / 2], absolute(grads.at[n][e]));
    return warp_maximum(
        bits_of_float(maximum(largest[0] * row_factor[0], largest[1] * row_factor[1])));
  }

  // Makes room for gradients up to `largest`. Returns the factor that the sums so far must be
  // multiplied by. Infinity and NaN change nothing.
  template <int kTarget = kTargetExponent>
  LSSAR_DEVICE float make_room(u32 largest) {
    if (largest >= kInfinityBits || float_from_bits(largest) * factor <= kLimit) return 1.0f;
    // The biased exponent of 2^kTarget / 2^e, within the normal numbers.
    const int wanted = 2 * kExponentBias + kTarget - static_cast<int>(largest >> 23);
    const int exponent = minimum(maximum(wanted, 1), kLargestExponent);
    const float lower = float_from_bits(static_cast<u32>(exponent) << 23);
    const float ratio = lower * inverse();
    factor = lower;
    return ratio;
  }

  template <int kTiles>
  static LSSAR_DEVICE void multiply(Fragment<kTiles>& x, float by) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) x.at[n][e] *= by;
  }

  // Scales `grads`, times their row's factor, for rounding, and scales `sums` to match.
  template <int kGradTiles, int kSumTiles>
  LSSAR_DEVICE void apply(u32 largest, Fragment<kGradTiles>& grads, const float (&row_factor)[2],
                          Fragment<kSumTiles>& sums) {
    const float ratio = make_room(largest);
    if (ratio != 1.0f) multiply(sums, ratio);
    const float by[2] = {factor * row_factor[0], factor * row_factor[1]};
#pragma unroll
    for (int n = 0; n < kGradTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) grads.at[n][e] *= by[e / 2];
  }
  template <int kGradTiles, int kSumTiles>
  LSSAR_DEVICE void apply(u32 largest, Fragment<kGradTiles>& grads, Fragment<kSumTiles>& sums) {
    apply(largest, grads, {1.0f, 1.0f}, sums);
  }

  // The inverse of the factor without a division: it is a power of two from 2^-126 to 2^126.
  LSSAR_DEVICE float inverse() const {
    if constexpr (!kIsNeeded) return 1.0f;
    return float_from_bits((2u * kExponentBias << 23) - bits_of_float(factor));
  }
};

// Whether the dk/dv kernel finds the scale ahead of dS' from bounds (tile/scale_ahead.cuh). Not
// where it sums dq, because dq is not multiplied along.
template <class Config>
inline constexpr bool kScalesAhead =
    GradScale<Config>::kIsNeeded && !Config::kSumsDq && !Config::kIsGeneral;

}  // namespace lssar_device
