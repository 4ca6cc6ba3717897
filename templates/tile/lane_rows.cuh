// The two query rows of a lane of a forward kernel.
#pragma once

#include "templates/tile/fragment.cuh"
#include "templates/tile/query_tiles.cuh"
#include "templates/tile/row_group.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// A row whose largest U is at most this is dead.
inline constexpr float kDeadRow = 1.0f / 65536.0f;

// 1 / |row| of a tile row, for every lane of the quad that needs it.
template <class Config, class Mma, class Tile>
LSSAR_DEVICE float tile_row_inverse_norm(Tile tile, int row) {
  float square = 0.0f;
#pragma unroll 4
  for (int col = 0; col < Config::kHeadDim; col += kTileCols) {
    float pair[2];
    Mma::load_pair(pair, tile, row, col + fragment_col(0));
    square = fma(pair[0], pair[0], fma(pair[1], pair[1], square));
  }
  return inverse_norm<Config>(quad_sum(square));
}

template <class Config>
struct LaneRows {
  i64 row[2];                  // queries; no query if it is past the last one
  int head[2];                 // kPackGqa: their heads
  RowKeys<Config> visible[2];  // N_i

  // `row0` is the first of the warp's 16 rows in the tile.
  LSSAR_DEVICE void place(const AttentionParams& params, const QueryRows<Config>& tile, int row0) {
    const i64 first = tile.first + row0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row[half] = first + fragment_row(half);
      if constexpr (Config::kPackGqa) {
        row[half] = tile.query(row0 + fragment_row(half));
        head[half] = tile.head_of(row0 + fragment_row(half));
      }
      visible[half] = num_visible_keys<Config>(params, row[half]);
    }
  }

  LSSAR_DEVICE int head_of(const BlockPlace& place, int half) const {
    return Config::kPackGqa ? head[half] : place.head;
  }
  // The index of the row among [batch, heads, seq_q].
  LSSAR_DEVICE i64 saved_index(const AttentionParams& params, const BlockPlace& place,
                               int half) const {
    const i64 slice = i64{place.batch} * params.heads + head_of(place, half);
    return slice * seq_q<Config>(params) + row[half];
  }
};

}  // namespace lssar_device
