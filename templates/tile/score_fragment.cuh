// Scores of a warp with queries as rows and keys as columns.
#pragma once

#include "templates/ptx/memory.cuh"
#include "templates/ptx/sync.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/window.cuh"

namespace lssar_device {

// Replaces products q_i k_j by x = c_i log2(e) q̂_i k̂_j. `norms`: the tile's 1 / |k_j|.
template <int kTiles>
LSSAR_DEVICE void scale_scores(Fragment<kTiles>& s, const float (&row_scale)[2], u32 norms) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float norm[2];
    load_shared(norm, norms + fragment_col(n) * 4);
#pragma unroll
    for (int e = 0; e < 4; ++e) s.at[n][e] *= row_scale[e / 2] * norm[e % 2];
  }
}

// Makes the scores of keys that are not finite NaN. `norms` are NaN for those keys and 1 for the
// others.
template <int kTiles>
LSSAR_DEVICE void spoil_scores(Fragment<kTiles>& s, u32 norms) {
  constexpr int kKeys = kTiles * kTileCols;
  bool is_spoilt = false;
#pragma unroll
  for (int first = 0; first < kKeys; first += kWarpThreads) {
    const int key = first + lane_index();
    float norm = 1.0f;
    if (kKeys - first >= kWarpThreads || key < kKeys) load_shared(norm, norms + key * 4);
    is_spoilt |= is_nan(norm);
  }
  if (warp_all(!is_spoilt)) return;
  const float no_scale[2] = {1.0f, 1.0f};
  scale_scores(s, no_scale, norms);
}

// Within windows: writes `value` over elements of keys that a row does not see.
template <int kTiles>
LSSAR_DEVICE void mask_window(Fragment<kTiles>& s, const VisibleKeys (&visible)[2], i64 first,
                              float value) {
  // Counted from the lane's first key, so that each element's key is a constant.
  const int lane_key = static_cast<int>(first) + fragment_col(0);
  int always[2], begin[2];
  u32 count[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    always[half] = visible[half].always - lane_key;
    begin[half] = visible[half].begin - lane_key;
    count[half] = static_cast<u32>(visible[half].end - visible[half].begin);
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = n * kTileCols + e % 2;
      if (key >= always[e / 2] && static_cast<u32>(key - begin[e / 2]) >= count[e / 2])
        s.at[n][e] = value;
    }
}

// Writes `value` over elements of keys that a row does not see. `first` is the tile's first key.
template <class Config, int kTiles>
LSSAR_DEVICE void mask_keys(Fragment<kTiles>& s, const RowKeys<Config> (&visible)[2], i64 first,
                            float value) {
  if constexpr (Config::kHasWindow) return mask_window(s, visible, first, value);
  const int limit[2] = {static_cast<int>(minimum(visible[0] - first, i64{kTiles * kTileCols})),
                        static_cast<int>(minimum(visible[1] - first, i64{kTiles * kTileCols}))};
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (fragment_col(n) + e % 2 >= limit[e / 2]) s.at[n][e] = value;
}

}  // namespace lssar_device
