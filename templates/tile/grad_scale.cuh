// Keeps dS' in the range of its 16-bit format.
//
// bf16 and float32 have large enough exponents. fp16 does not, and the caller decides the size of
// gradients (loss scaling). So fp16 gradients are multiplied by a power of two. If a tile needs a
// smaller one, the factor falls and the sums so far are rescaled. Gradients below 2^-33 of the
// largest one (with kScalesAhead, 2^-37 of the largest bound) fall below fp16's subnormals.
#pragma once

#include "templates/ptx/sync.cuh"
#include "templates/tile/fragment.cuh"

namespace lssar_device {

template <class Config>
struct GradScale {
  static constexpr bool kIsNeeded = Config::kIsFp16;
  static constexpr float kLimit = 32768.0f;  // half of the largest fp16
  static constexpr int kTargetExponent = 9;  // largest gradient of a tile in [2^9, 2^10)
  static constexpr int kTargetOfBound = 13;  // bounds are usually larger than the gradients
  static constexpr int kExponentBias = 127;
  static constexpr u32 kInfinityBits = 0x7f800000u;
  // 2^80, biased. It stays finite when multiplied by any 1 / |k_j|, which is at most 1e12. A
  // gradient that needs a larger factor is 0 in fp16.
  static constexpr int kLargestExponent = kExponentBias + 80;

  float factor = largest_factor();  // the first tile sets it

  static LSSAR_DEVICE float largest_factor() {
    return kIsNeeded ? float_from_bits(static_cast<u32>(kLargestExponent) << 23) : 1.0f;
  }

  // The bits of the warp's largest |gradient| times its row's factor. They order like the numbers.
  // NaN is ignored.
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

  // Makes room for gradients up to `largest`. Returns the factor by which the sums so far must be
  // multiplied. Infinity and NaN change nothing.
  template <int kTarget = kTargetExponent>
  LSSAR_DEVICE float make_room(u32 largest) {
    if (largest >= kInfinityBits || float_from_bits(largest) * factor <= kLimit) return 1.0f;
    // The biased exponent of 2^kTarget / 2^e, kept within normal numbers.
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

// Whether the dk/dv kernel derives the scale from bounds before it computes dS'
// (tile/scale_ahead.cuh). Not if it sums dq, because the sums of dq cannot be rescaled.
template <class Config>
inline constexpr bool kScalesAhead =
    GradScale<Config>::kIsNeeded && !Config::kSumsDq && !Config::kIsGeneral;

}  // namespace lssar_device
