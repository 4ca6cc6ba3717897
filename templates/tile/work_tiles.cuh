// The order in which a grid processes the query tiles of all heads.
#pragma once

#include "templates/tile/rows.cuh"

namespace lssar_device {

// The place of work tile `index`. Slices (batch and head) are processed kHeadGroup at a time, and
// within a group the slice varies fastest. With kIsCausal, tiles with the most keys come first.
//
// So keys and values of a group stay in L2, heads that share keys run together, and no long tile is
// left for the end.
template <int kHeadGroup, bool kIsCausal>
LSSAR_DEVICE BlockPlace work_place(u32 index, i64 num_tiles, int heads, int slices) {
  const u32 tiles = static_cast<u32>(num_tiles);
  const u32 group_size = static_cast<u32>(minimum(kHeadGroup, slices));
  const u32 first = index / (group_size * tiles) * group_size;
  const u32 size =
      static_cast<u32>(minimum(static_cast<int>(group_size), slices - static_cast<int>(first)));
  const u32 within = index - first * tiles;
  const u32 tile = within / size;
  const u32 slice = first + within - tile * size;
  BlockPlace place;
  place.tile_idx = kIsCausal ? tiles - 1 - tile : tile;
  place.batch = static_cast<int>(slice / static_cast<u32>(heads));
  place.head = static_cast<int>(slice - static_cast<u32>(place.batch) * static_cast<u32>(heads));
  return place;
}

// Calls `process` with each work tile of this block, out of `count`: one tile, or with
// kIsPersistent every gridDim.x-th one. The kBlocks blocks of a cluster have the same work tiles.
template <bool kIsPersistent, int kBlocks = 1, class Process>
LSSAR_DEVICE void for_each_work_tile(u32 count, const Process& process) {
  if constexpr (kIsPersistent) {
#pragma unroll 1
    for (u32 index = block_index() / kBlocks; index < count; index += grid_blocks() / kBlocks)
      LSSAR_INLINE_CALL process(index);
  } else {
    LSSAR_INLINE_CALL process(block_index() / kBlocks);
  }
}

}  // namespace lssar_device
