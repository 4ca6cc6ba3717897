// Norms of keys that are read while the products with these keys still run.
#pragma once

#include "templates/ptx/memory.cuh"
#include "templates/tile/fragment.cuh"

namespace lssar_device {

// 1 / |k_j| of a tile's keys. As many as registers allow are read before the products have ended.
template <int kTiles>
struct NormsAhead {
  static constexpr int kLoaded = kTiles < 8 ? kTiles : 8;

  u32 address;  // of the tile's norms in shared memory
  float at[kLoaded][2];

  LSSAR_DEVICE void load(u32 norms) {
    address = norms;
#pragma unroll
    for (int n = 0; n < kLoaded; ++n) load_shared(at[n], address + fragment_col(n) * 4);
  }

  // As scale_scores.
  LSSAR_DEVICE void scale(Fragment<kTiles>& s, const float (&row_scale)[2]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float norm[2];
      if (n >= kLoaded) load_shared(norm, address + fragment_col(n) * 4);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        s.at[n][e] *= row_scale[e / 2] * (n < kLoaded ? at[n][e % 2] : norm[e % 2]);
    }
  }
};

}  // namespace lssar_device
