// Accumulators of one warp: 16 rows, kTiles x 8 columns, in float32.
//
// Lane 4 g + t holds columns 8n + 2t and 8n + 2t + 1 of tile n: of row g in elements 0 and 1, of
// row g + 8 in elements 2 and 3. "Half" h, 0 or 1, is row g + 8 h. So a lane works on two rows, and
// the four lanes of a quad (equal g) share them.
#pragma once

#include "templates/ptx/index.cuh"
#include "templates/ptx/math.cuh"
#include "templates/ptx/sync.cuh"

namespace lssar_device {

constexpr int kTileCols = 8;  // of an mma tile; k...MmaTiles count these

template <int kTiles>
struct Fragment {
  static constexpr int kNumTiles = kTiles;
  float at[kTiles][4];

  LSSAR_DEVICE void clear() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) at[n][e] = 0.0f;
  }
};

// The lane's row of half h among the warp's 16.
//
// Unsigned, because dividing a signed number takes one more register.
LSSAR_DEVICE int fragment_row(int half) {
  return static_cast<int>(static_cast<u32>(lane_index()) / 4) + 8 * half;
}
// The first of the two columns of tile n that this lane holds.
//
// NOTE: it is computed with a mask, so that the compiler knows that it stays within the tile. A
// swizzled address then needs no register of its own per tile.
LSSAR_DEVICE int fragment_col(int tile) { return tile * kTileCols + (lane_index() & 3) * 2; }

// Multiplies x's rows by `by`.
template <int kTiles>
LSSAR_DEVICE void multiply_rows(Fragment<kTiles>& x, const float (&by)[2]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) x.at[n][e] *= by[e / 2];
}

LSSAR_DEVICE float quad_sum(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}
// In every lane of the warp.
LSSAR_DEVICE float warp_sum(float x) {
#pragma unroll
  for (int mask = 1; mask < kWarpThreads; mask *= 2) x += shuffle_xor(x, mask);
  return x;
}
// NOTE: ignores NaN.
LSSAR_DEVICE float quad_maximum(float x) {
  x = maximum(x, shuffle_xor(x, 1));
  return maximum(x, shuffle_xor(x, 2));
}

}  // namespace lssar_device
