// The gradient of a vector from the gradient of its unit vector: the part of `a` perpendicular to
// x,
//   a - x̂ (x̂ a),   x̂ = x / |x|.
#pragma once

#include "templates/tile/fragment.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/shared_tile.cuh"

namespace lssar_device {

// For the lane's row `half`. `x` is the tile that holds the 16 rows from row0 on, and inverse_norm
// is 1 / |x| of the row. Padding columns are 0 in both.
template <class Mma, int kTiles, class Tile>
LSSAR_DEVICE void project_row(Fragment<kTiles>& a, int half, Tile x, int row0, float inverse_norm) {
  // Loads are grouped, because ptxas would otherwise start all of them first, and spill.
  constexpr int kTilesPerGroup = 8;
  float dot = 0.0f;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    if (n % kTilesPerGroup == 0) warp_barrier();
    float pair[2];
    Mma::load_pair(pair, x, row0 + fragment_row(half), fragment_col(n));
    dot = fma(pair[0], a.at[n][2 * half], fma(pair[1], a.at[n][2 * half + 1], dot));
  }
  dot = quad_sum(dot) * inverse_norm * inverse_norm;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    if (n % kTilesPerGroup == 0) warp_barrier();
    float pair[2];
    Mma::load_pair(pair, x, row0 + fragment_row(half), fragment_col(n));
    a.at[n][2 * half] = fma(-dot, pair[0], a.at[n][2 * half]);
    a.at[n][2 * half + 1] = fma(-dot, pair[1], a.at[n][2 * half + 1]);
  }
}

// Writes `kDim` columns of the lane's row `half` to global memory.
template <class Config, int kDim, int kTiles>
LSSAR_DEVICE void write_row(typename Config::Element* row, const Fragment<kTiles>& x, int half) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    if (fragment_col(n) < kDim)
      store_pair<Config::kIsAligned>(row + fragment_col(n), x.at[n][2 * half],
                                     x.at[n][2 * half + 1]);
}

}  // namespace lssar_device
