// Tiles without weights, which the Hopper forward skips.
//
// kSkipTiles. A warp whose tile has no score with a weight above 2^-24 skips its arithmetic. If all
// warps of a consumer skip, it also skips the product with the values, and releases them unread.
// Then no product is in flight while the next tile's scores are computed, so that tile has a body
// of its own: wgmma must not start under a condition. See hopper_forward.cuh.
#pragma once

#include "templates/kernels/hopper_forward_layout.cuh"
#include "templates/ptx/math.cuh"
#include "templates/tile/consumer_barriers.cuh"
#include "templates/tile/fragment.cuh"

namespace lssar_device {

template <class Config>
struct SkippedTiles {
  bool group_has_weights = true;

  // Whether the last tile weighed has weights in any row of the warp group.
  LSSAR_DEVICE bool has_weights() const { return !Config::kSkipTiles || group_has_weights; }

  // Whether none of the warp's scores of a tile has a weight; they are 0 then. All warps of the
  // consumer call it.
  template <class WarpRows, int kTiles>
  LSSAR_DEVICE bool skips(const WarpRows& rows, Fragment<kTiles>& s, int tile, int group) {
    if constexpr (Config::kHasWindow || Config::kHasLengths)
      rows.mask(s, tile, -infinity());  // they may be NaN
    const bool is_skipped = rows.has_no_weights(s);
    group_has_weights = consumer_any(group, !is_skipped);
    if (is_skipped) s.clear();
    return is_skipped;
  }
};

// A tile of pass 2 after one that consumer `c` skipped: its scores.
template <class Config, class User, int kTiles>
LSSAR_DEVICE void weigh_after_skipped(User& c, Fragment<kTiles>& s, int query_stage, int tile) {
  using KeyTile = typename HopperForwardShape<Config>::KeyTile;
  c.ping_pong.acquire();
  if constexpr (Config::kOverlap) c.start_scores(s, query_stage, KeyTile{c.next_stage()});
  c.next_stage();  // values of the skipped tile
  if constexpr (!Config::kOverlap) c.start_scores(s, query_stage, KeyTile{c.next_stage()});
  c.ping_pong.release();
  if constexpr (Config::kOverlap) c.template weigh<0>(s, tile);
  c.release_stage();
  if constexpr (!Config::kOverlap) c.template weigh<0>(s, tile);
}

}  // namespace lssar_device
