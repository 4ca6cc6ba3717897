// Scores of the backward with keys as rows and queries as columns: from the two products of a tile
// to what dv and dk are summed with. Shared by the dk/dv kernels of every architecture.
#pragma once

#include "templates/tile/fragment.cuh"
#include "templates/tile/row_constants.cuh"

namespace lssar_device {

// Row constants of a tile's queries in shared memory, each row's eight floats side by side ...
struct PackedConstants {
  u32 base;
  LSSAR_DEVICE RowConstants load(int query) const {
    return load_row_constants_shared(base + query * kRowConstantBytes);
  }
};

// ... or in two planes of four floats per row: the four columns of a quad then lie on different
// banks.
template <int kQueries>
struct PlanarConstants {
  static constexpr int kPlaneBytes = kQueries * kVectorBytes;
  static constexpr int kBytes = 2 * kPlaneBytes;

  u32 base;
  LSSAR_DEVICE RowConstants load(int query) const {
    float low[4], high[4];
    load_shared(low, base + query * kVectorBytes);
    load_shared(high, base + kPlaneBytes + query * kVectorBytes);
    RowConstants constants;
    constants.unpack_from(low, high);
    return constants;
  }
};

// Key row r of the block sees query column c of the tile where r - c <= limit.
struct KeyMask {
  int limit;
  bool is_needed;
};

// s: products k_j q_i -> M_ij; d: products v_j g_i -> dS'_ij, with kGradHasKeyNorm / |k_j|.
// kWithDk false: only M. `row0` is the warp's first row in the block, key_norm 1 / |k_j|. Tiles of
// 8 queries from first_tile up to end_tile.
template <class Config, bool kWithDk, bool kGradHasKeyNorm, class Constants, int kTiles>
LSSAR_DEVICE void weigh_keys(Fragment<kTiles>& s, Fragment<kTiles>& d, Constants constants,
                             const float (&key_norm)[2], int row0, KeyMask mask, int first_tile = 0,
                             int end_tile = kTiles) {
#pragma unroll
  for (int n = first_tile; n < end_tile; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int col = fragment_col(n) + c;
      const RowConstants row = constants.load(col);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int e = 2 * half + c;
        const float x = s.at[n][e] * (row.score_scale * key_norm[half]);
        float grad;
        weight_and_gradient<Config>(x, kWithDk ? d.at[n][e] : 0.0f, row, s.at[n][e], grad);
        if constexpr (kWithDk) d.at[n][e] = kGradHasKeyNorm ? grad * key_norm[half] : grad;
        if (mask.is_needed && row0 + fragment_row(half) - col > mask.limit) {
          s.at[n][e] = 0.0f;
          if constexpr (kWithDk) d.at[n][e] = 0.0f;
        }
      }
    }
  }
}

}  // namespace lssar_device
