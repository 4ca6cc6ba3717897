// The forward of few queries, as in decoding: blocks divide the keys, because queries alone would
// keep only some SMs busy. A chunk has kSplitKeys keys, counted from the sequence's first key.
//
//   decode_scores   a chunk's scores, and its part of every row's sum and largest score (this file)
//   decode_values   adds the parts of all chunks, makes weights of the chunk's scores, and
//                   multiplies the values that have weights (decode/values.cuh)
//   decode_outputs  adds what the chunks contribute to o (decode/outputs.cuh)
//
// Chunks are added in the order of their keys, so a row's bits do not depend on the batch. Keys are
// read once: their scores lie in the workspace (decode/memory.cuh), and norms are made of the
// key tile. A block takes a chunk of a kv head, and all queries that share it, tile by tile.
#pragma once

#include "templates/decode/general_rows.cuh"
#include "templates/decode/rows.cuh"
#include "templates/decode/turn_tile.cuh"
#include "templates/kernels/forward_block.cuh"

namespace lssar_device {

// The tiles of a chunk that a query tile visits: the n-th of all visited tiles, n = begin to
// end - 1.
struct ChunkTiles {
  int begin, end;
};

// How many of the tiles that the rows visit come before `tile`, which need not be one of them.
LSSAR_DEVICE int visited_before(int num_tiles, int tile) { return minimum(tile, num_tiles); }
LSSAR_DEVICE int visited_before(const VisitedTiles& tiles, int tile) {
  const int behind_gap =
      minimum(maximum(tile - tiles.always - tiles.skipped, 0), tiles.count - tiles.always);
  return minimum(tile, tiles.always) + behind_gap;
}

// The key tiles of a chunk.
template <class Config>
struct DecodeKeyLoader {
  using Shape = ForwardShape<Config>;
  using Element = typename Config::Element;

  const Element* keys;
  i64 key_stride;
  i64 num_keys;
  KeyTiles<Config> num_tiles;
  u32 stages;
  int tile, end;

  LSSAR_DEVICE void load(int stage) {
    if (tile >= end) return;
    const typename Shape::KeyTile to{stages + stage * Shape::kStageBytes};
    const i64 first = i64{tile_at<Config>(num_tiles, tile)} * Shape::kBlockCols;
    if constexpr (Config::kHasWindow) {
      load_seen_tile<Config, Shape::kThreads>(to, keys + first * key_stride, key_stride,
                                              num_tiles.seen, first, Config::kHeadDim);
    } else {
      load_tile<Config, Shape::kThreads>(to, keys + first * key_stride, key_stride,
                                         num_keys - first, Config::kHeadDim);
    }
    ++tile;
  }
};

// A block's chunk, and the query tile that it works on.
template <class Config>
struct DecodeBlock : ForwardBlock<Config> {
  using Block = ForwardBlock<Config>;
  using Shape = ForwardShape<Config>;
  using Element = typename Config::Element;
  using Block::kKeyMmaTiles;
  using Block::num_tiles;
  using Block::params;
  using Block::place;
  using Block::queries;
  using Block::stages;
  using typename Block::Mma;
  using typename Block::Scores;
  static_assert(Config::kSplitKeys % Shape::kBlockCols == 0, "a chunk has whole tiles");

  QueryTiles<Config, Shape::kBlockRows> tiles;
  i64 chunk;
  typename Select<Config::kIsGeneral, GeneralDecodeRows<Config>, DecodeRows<Config>>::Type rows;

  LSSAR_DEVICE explicit DecodeBlock(const AttentionParams& params) : Block(params), tiles(params) {
    place = block_place<Config>(num_chunks<Config>(params), tiles.slices);
    chunk = place.tile_idx;
    queries.base = dynamic_shared_address();
    stages = queries.base + Shape::QueryTile::kBytes;
  }

  // The first key of the n-th visited tile.
  LSSAR_DEVICE i64 first_key(int n) const {
    return i64{tile_at<Config>(num_tiles, n)} * Shape::kBlockCols;
  }

  // Places the rows of a query tile, and returns it.
  LSSAR_DEVICE QueryRows<Config> place_rows(i64 query_tile) {
    const QueryRows<Config> tile = tiles.rows(place, query_tile);
    const i64 last = tiles.last_query(query_tile);
    const bool has_gaps = tiles.has_gaps(tile, last);
    rows.place(params, tile, warp_index() * kWarpRows);
    if constexpr (Config::kHasWindow) {
      this->place_window(tile.first, last, has_gaps);
    } else {
      this->first_masked = has_gaps ? 0 : num_visible_keys<Config>(params, tile.first);
      num_tiles =
          static_cast<int>(ceil_div(num_visible_keys<Config>(params, last), Shape::kBlockCols));
    }
    return tile;
  }

  // The chunk's tiles that the placed rows visit.
  LSSAR_DEVICE ChunkTiles chunk_tiles() const {
    constexpr int kTiles = Config::kSplitKeys / Shape::kBlockCols;
    const int first = static_cast<int>(chunk) * kTiles;
    return {visited_before(num_tiles, first), visited_before(num_tiles, first + kTiles)};
  }

  // Adds the squares of 16 bytes of elements in shared memory.
  static LSSAR_DEVICE float add_squares(float square, u32 address) {
    if constexpr (Config::kIsFp32) {
      float x[4];
      load_shared(x, address);
#pragma unroll
      for (int i = 0; i < 4; ++i) square = fma(x[i], x[i], square);
    } else {
      u32 pairs[4];
      load_shared(pairs, address);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float low, high;
        unpack(static_cast<Element*>(nullptr), pairs[i], low, high);
        square = fma(low, low, fma(high, high, square));
      }
    }
    return square;
  }

  // Writes 1 / |k_j| of the stage's keys behind them.
  LSSAR_DEVICE void write_norms(u32 stage) const {
    const typename Shape::KeyTile keys{stage};
    for (int key = thread_index(); key < Shape::kBlockCols; key += Shape::kThreads) {
      float square = 0.0f;
#pragma unroll 4
      for (int col = 0; col < Config::kHeadDim; col += Shape::KeyTile::kVectorElems)
        square = add_squares(square, keys.address(key, col));
      store_shared(stage + Shape::kTileBytes + key * 4, inverse_norm<Config>(square));
    }
    block_barrier();
  }

  // kRotaryDim: turns the stage's keys, from key `first` on. All threads call it.
  LSSAR_DEVICE void turn_keys(u32 stage, i64 first) const {
    const i64 keys = seq_k<Config>(params);
    turn_tile<Config, Shape::kThreads>(typename Shape::KeyTile{stage}, params, [&](int row) {
      return first + row < keys ? first + row : i64{-1};
    });
    block_barrier();
  }
  // The same of the queries, before that.
  LSSAR_DEVICE void turn_queries(const QueryRows<Config>& tile) const {
    const i64 queries_end = seq_q<Config>(params);
    const i64 before = seq_k<Config>(params) - queries_end;
    turn_tile<Config, Shape::kThreads>(queries, params, [&](int row) {
      const i64 query = tile.query(row);
      return query < queries_end ? query + before : i64{-1};
    });
  }

  LSSAR_DEVICE void write_scores(const Scores& s, i64 first) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!rows.has(params, half)) continue;
      float* const scores = rows.memory(params, place, half).scores + first;
#pragma unroll
      for (int n = 0; n < kKeyMmaTiles; ++n)
        store_global_8(scores + fragment_col(n), s.at[n][2 * half], s.at[n][2 * half + 1]);
    }
  }

  LSSAR_DEVICE void score_tile(i64 query_tile) {
    const QueryRows<Config> tile = place_rows(query_tile);
    load_packed_queries<Config, Shape::kThreads>(queries, params, place.batch, tile);
    const ChunkTiles of_chunk = chunk_tiles();
    DecodeKeyLoader<Config> loader = {
        row_pointer<const Element>(params.k, place.batch, place.head, 0),
        params.k.row_stride,
        seq_k<Config>(params),
        num_tiles,
        stages,
        of_chunk.begin,
        of_chunk.end};
    Pipeline<Config::kForwardStages, DecodeKeyLoader<Config>> ring(loader);
    ring.start();
    rows.start(params, place);
#pragma unroll 1
    for (int n = of_chunk.begin; n < of_chunk.end; ++n) {
      Scores s;
      const u32 stage = this->stage_address(ring.next());
      if constexpr (Config::kRotaryDim != 0) {
        if (n == of_chunk.begin) turn_queries(tile);
        turn_keys(stage, first_key(n));
      }
      if (n == of_chunk.begin) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          rows.finish_row(half, tile_row_inverse_norm<Config, Mma>(
                                    queries, warp_index() * kWarpRows + fragment_row(half)));
      }
      write_norms(stage);
      this->compute_scores(s, rows.score_scale, stage);
      const i64 first = first_key(n);
      rows.change_scores(s, first, this->needs_mask(first));
      write_scores(s, first);
      rows.add_scores(s, first, this->needs_mask(first));
    }
    rows.write_sums(params, place, chunk);
    ring.finish();
    block_barrier();  // before the next queries
  }
};

template <class Config>
LSSAR_DEVICE void decode_scores(const AttentionParams& params) {
  DecodeBlock<Config> block(params);
#pragma unroll 1
  for (i64 tile = 0; tile < block.tiles.count(); ++tile) block.score_tile(tile);
}

}  // namespace lssar_device
