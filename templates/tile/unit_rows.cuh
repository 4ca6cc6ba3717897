// Keys and queries as scaled unit vectors in fp16, so that their products are scores in bits.
//
//   key:    2^kUnitKeyExponent k̂_j               query:  2^-kUnitKeyExponent c_i log2(e) q̂_i
//
// The power of two keeps small components out of fp16's subnormals on both sides. Only for bf16
// problems: fp16's own rounding is what an fp16 problem may err by in all.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/convert.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/tile/fragment.cuh"

namespace lssar_device {

inline constexpr float kUnitKeyScale = static_cast<float>(1 << kUnitKeyExponent);
inline constexpr float kUnitKeyScaleInverse = 1.0f / kUnitKeyScale;

// A row of the tile in place: from Config::Element to fp16, times `scale`. The four lanes of a quad
// share the row.
template <class Config, class Mma, class Tile>
LSSAR_DEVICE void scale_row(Tile tile, int row, float scale) {
#pragma unroll 4
  for (int col = 0; col < Config::kHeadDim; col += kTileCols) {
    float pair[2];
    Mma::load_pair(pair, tile, row, col + fragment_col(0));
    store_shared(tile.address(row, col + fragment_col(0)),
                 pack<Fp16>(pair[0] * scale, pair[1] * scale));
  }
}

}  // namespace lssar_device
