// Sums of a fragment's rows, in float32.
#pragma once

#include "templates/ptx/math.cuh"
#include "templates/tile/fragment.cuh"

namespace lssar_device {

// Each lane adds up its own elements: four sums, so that additions need not wait for each other.
struct LaneSums {
  float at[4] = {0.0f, 0.0f, 0.0f, 0.0f};

  template <int kTiles>
  LSSAR_DEVICE void add(const Fragment<kTiles>& x) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) at[e] += x.at[n][e];
  }
  template <int kTiles>
  LSSAR_DEVICE void add_magnitudes(const Fragment<kTiles>& x) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) at[e] += absolute(x.at[n][e]);
  }
  LSSAR_DEVICE void rescale(const float (&by)[2]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) at[e] *= by[e / 2];
  }
  // In every lane of a quad.
  LSSAR_DEVICE float total(int half) const { return quad_sum(at[2 * half] + at[2 * half + 1]); }
};

}  // namespace lssar_device
