// Maps each row of a query tile to a query and a head.
//
// Slices are cut into tiles of kRows rows. Without kPackGqa a slice is a (batch, head), and its
// rows are queries. With it a slice is a (batch, kv head). A tile then has whole queries of the
// `group` heads that read its keys, as many as fit: kRows / group. The remaining rows have no
// query. A query of more heads than kRows takes several tiles.
//
// The heads of a query are side by side. So a tile has few queries that are close together, and
// with a causal mask they see almost the same keys. If heads are also side by side in memory, so
// are the rows of a tile.
#pragma once

#include "templates/tile/load_tile.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

// The rows of one tile.
template <class Config>
struct QueryRows {
  static constexpr i64 kNone = i64{1} << 40;  // above any query

  i64 first;  // query of row 0
  int head;   // and its head
  int group;  // kPackGqa: rows per query
  int count;  // kPackGqa: rows that have a query, including ones past the last query

  LSSAR_DEVICE i64 query(int row) const {
    if constexpr (!Config::kPackGqa) return first + row;
    return row < count ? first + static_cast<u32>(row) / static_cast<u32>(group) : kNone;
  }
  // The query after those of `rows` rows from `row` on. If one of these has no query, the result is
  // above all queries.
  LSSAR_DEVICE i64 end_query(int row, int rows) const {
    if constexpr (!Config::kPackGqa) return first + row + rows;
    return query(row + rows - 1) + 1;
  }
  LSSAR_DEVICE int head_of(int row) const {
    return head + static_cast<int>(static_cast<u32>(row) % static_cast<u32>(group));
  }
};

// kPackGqa: how slices are cut into tiles.
template <class Config, int kRows>
struct QueryTiles {
  i64 queries;  // per head
  int slices;   // per batch entry
  int group;    // heads per slice
  int whole;    // queries per tile
  int parts;    // tiles per query: 1 unless it has more heads than kRows

  LSSAR_DEVICE explicit QueryTiles(const AttentionParams& params) : queries(seq_q<Config>(params)) {
    slices = params.kv_heads;
    group = params.heads / params.kv_heads;
    whole = maximum(kRows / group, 1);
    parts = (group + kRows - 1) / kRows;
  }

  // Rows of a slice's tiles, including rows without a query.
  LSSAR_DEVICE i64 num_rows() const { return count() * kRows; }
  // Tiles of a slice.
  LSSAR_DEVICE i64 count() const { return ceil_div(queries, whole) * parts; }
  LSSAR_DEVICE i64 first_query(i64 tile) const { return tile / parts * whole; }
  // The last query of the tile. For tiles past the end it is the last query of all.
  LSSAR_DEVICE i64 last_query(i64 tile) const {
    return minimum(first_query(tile) + whole, queries) - 1;
  }

  // The rows that TMA moves at a time: the rows of a map's box.
  LSSAR_DEVICE int box_rows() const { return minimum(group, kRows) * whole; }

  LSSAR_DEVICE QueryRows<Config> rows(const BlockPlace& place, i64 tile) const {
    const int first_head = static_cast<int>(tile % parts) * kRows;
    const int count = group > kRows ? minimum(group - first_head, kRows) : whole * group;
    return {first_query(tile), place.head * group + first_head, group, count};
  }

  // Whether some row of the tile has no query. `last` is the tile's last query.
  LSSAR_DEVICE bool has_gaps(const QueryRows<Config>& rows, i64 last) const {
    return last < rows.first + whole - 1 || rows.count < kRows;
  }
};

template <class Config>
LSSAR_DEVICE int kv_head_of(const AttentionParams& params, const BlockPlace& place) {
  return Config::kPackGqa ? place.head : place.head / (params.heads / params.kv_heads);
}

// kPackGqa: loads a tile's rows of q into shared memory, as load_tile does.
template <class Config, int kThreads, class Tile>
LSSAR_DEVICE void load_packed_queries(Tile tile, const AttentionParams& params, int batch,
                                      const QueryRows<Config>& rows) {
  using Element = typename Tile::Element;
  constexpr int kVectors = Tile::kRows * Tile::kVectorsPerRow;
#pragma unroll 2
  for (int first = 0; first < kVectors; first += kThreads) {
    const int vector_idx = first + thread_index();
    if (kVectors % kThreads != 0 && vector_idx >= kVectors) break;
    const int row = vector_idx / Tile::kVectorsPerRow;
    const int col = vector_idx % Tile::kVectorsPerRow * Tile::kVectorElems;
    const i64 query = rows.query(row);
    const bool valid = query < seq_q<Config>(params) && col < Config::kHeadDim;
    const Element* from = static_cast<const Element*>(params.q.data);
    if (valid) from = row_pointer<const Element>(params.q, batch, rows.head_of(row), query) + col;
    if constexpr (Config::kIsAligned) {
      copy_async_16(tile.address(row, col), from, valid);
    } else {
      u32 vector[4];
      gather_vector(vector, from, valid);
      store_shared(tile.address(row, col), vector);
    }
  }
}

}  // namespace lssar_device
