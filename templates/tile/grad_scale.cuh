// Keeping dS' in the range of its 16-bit format.
//
// bf16 and float32 have the exponents; fp16 does not, and the size of a gradient is the caller's
// (loss scaling). So fp16 gradients carry a power of two, lowered when a tile needs it; sums so far
// are multiplied along. What falls below fp16's subnormals is then 2^-33 of the largest gradient.
#pragma once

#include "templates/ptx/sync.cuh"
#include "templates/tile/fragment.cuh"

namespace lssar_device {

template <class T>
struct GradScale {
  static constexpr bool kIsNeeded = IsSame<T, Fp16>::value;
  static constexpr float kLimit = 32768.0f;  // half of the largest fp16
  static constexpr u32 kTargetExponent = 9;  // largest gradient of a tile in [2^9, 2^10)
  static constexpr u32 kExponentBias = 127;
  static constexpr u32 kInfinityBits = 0x7f800000u;

  float factor = float_limit();

  static LSSAR_DEVICE float float_limit() {
    return kIsNeeded ? float_from_bits(254u << 23) : 1.0f;  // 2^127: the first tile sets it
  }

  // Bits of the largest magnitude in the warp; they order like the numbers.
  template <int kTiles>
  static LSSAR_DEVICE u32 largest_bits(const Fragment<kTiles>& grads) {
    u32 largest = 0;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 bits = bits_of_float(absolute(grads.at[n][e]));
        largest = bits > largest ? bits : largest;
      }
    return warp_maximum(largest);
  }

  // Makes room for gradients up to `largest`; returns what sums so far must be multiplied with.
  // Infinity and NaN change nothing and come out as they are.
  LSSAR_DEVICE float make_room(u32 largest) {
    if (largest >= kInfinityBits || float_from_bits(largest) * factor <= kLimit) return 1.0f;
    // The biased exponent of 2^9 / 2^e, within the normal numbers.
    const int wanted =
        static_cast<int>(2 * kExponentBias + kTargetExponent) - static_cast<int>(largest >> 23);
    const float lower = float_from_bits(static_cast<u32>(wanted < 1     ? 1
                                                         : wanted > 254 ? 254
                                                                        : wanted)
                                        << 23);
    const float ratio = lower / factor;
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

  // Scales `grads` for rounding and `sums` to match.
  template <int kGradTiles, int kSumTiles>
  LSSAR_DEVICE void apply(u32 largest, Fragment<kGradTiles>& grads, Fragment<kSumTiles>& sums) {
    const float ratio = make_room(largest);
    if (ratio != 1.0f) multiply(sums, ratio);
    multiply(grads, factor);
  }

  LSSAR_DEVICE float inverse() const { return 1.0f / factor; }
};

}  // namespace lssar_device
