// Decoding: a chunk's weights, and their products with values.
//
// A block turns its chunk's scores into weights, in place, and lists the keys that have a weight in
// any of the rows that share them. It reads the values of these keys only, kForwardBlockCols at a
// time. A row of values is a whole number of memory sectors, so leaving rows out costs nothing
// where most keys are listed.
//
// Shared memory: tiles of values, the list, a word for every 8 keys of each warp, the list's
// length.
//
// At most kDecodeValueStages tiles: a block mostly has one or two, and the memory saved leaves room
// for more blocks, which hide latency.
#pragma once

#include "templates/decode/scores.cuh"

namespace lssar_device {

template <class Config>
struct DecodeValueShape {
  using Forward = ForwardShape<Config>;
  static constexpr int kWarps = Forward::kThreads / kWarpThreads;
  static constexpr int kWords = Config::kSplitKeys / kDecodeKeysPerWord;
  static constexpr int kStages =
      Config::kForwardStages < kDecodeValueStages ? Config::kForwardStages : kDecodeValueStages;
  static constexpr int kListOffset = kStages * Forward::ValueTile::kBytes;
  static constexpr int kWordsOffset = kListOffset + Config::kSplitKeys * 4;
  static constexpr int kCountOffset = kWordsOffset + kWarps * kWords * 4;
  static constexpr int kSharedBytes = kCountOffset + kVectorBytes;
  static_assert(Config::kSplitKeys % kWarpThreads == 0, "a lane lists one key at a time");
};

// Copies 16 bytes to shared memory; zeros if they are not valid.
template <bool kAligned, class T>
LSSAR_DEVICE void load_vector(u32 to, const T* from, bool valid) {
  if constexpr (kAligned) return copy_async_16(to, from, valid);
  u32 vector[4];
  gather_vector(vector, from, valid);
  store_shared(to, vector);
}

// The values of the listed keys, a tile at a time: for each block of columns once.
template <class Config>
struct DecodeValueLoader {
  using Shape = ForwardShape<Config>;
  using Element = typename Config::Element;
  using Tile = typename Shape::ValueTile;

  const Element* values;  // of the chunk's first key
  i64 value_stride;
  u32 list;
  int count;
  u32 stages;
  int first = 0;  // place in the list
  int dv_block = 0;

  LSSAR_DEVICE void load(int stage) {
    if (first >= count || dv_block == Shape::kNumDvBlocks) return;
    constexpr int kVectors = Tile::kRows * Tile::kVectorsPerRow;
    const Tile tile{stages + stage * Tile::kBytes};
    const int first_col = dv_block * Shape::kBlockDv;
#pragma unroll 4
    for (int begin = 0; begin < kVectors; begin += Shape::kThreads) {
      const int vector_idx = begin + thread_index();
      if (kVectors % Shape::kThreads != 0 && vector_idx >= kVectors) break;
      const int row = vector_idx / Tile::kVectorsPerRow;
      const int col = vector_idx % Tile::kVectorsPerRow * Tile::kVectorElems;
      const bool valid = first + row < count && first_col + col < Config::kHeadDimV;
      const Element* from = values;
      if (valid) {
        u32 key;
        load_shared(key, list + (first + row) * 4);
        from += key * value_stride + first_col + col;
      }
      load_vector<Config::kIsAligned>(tile.address(row, col), from, valid);
    }
    first += Shape::kBlockCols;
    if (first >= count) {
      first = 0;
      ++dv_block;
    }
  }
};

template <class Config>
struct DecodeValues : DecodeBlock<Config> {
  using Base = DecodeBlock<Config>;
  using Shape = ForwardShape<Config>;
  using ValueShape = DecodeValueShape<Config>;
  using Element = typename Config::Element;
  using Base::chunk;
  using Base::kKeyMmaTiles;
  using Base::params;
  using Base::place;
  using Base::rows;
  using typename Base::Mma;
  using typename Base::Scores;
  using Columns = Fragment<Shape::kBlockDv / kTileCols>;
  using Ring = Pipeline<ValueShape::kStages, DecodeValueLoader<Config>>;

  u32 shared;

  LSSAR_DEVICE explicit DecodeValues(const AttentionParams& params)
      : Base(params), shared(dynamic_shared_address()) {}

  LSSAR_DEVICE u32 word_address(int warp, int word) const {
    return shared + ValueShape::kWordsOffset + (warp * ValueShape::kWords + word) * 4;
  }
  LSSAR_DEVICE float* scores_of(int half) const {
    return rows.memory(params, place, half).scores + chunk * Config::kSplitKeys;
  }

  // Which of the 8 keys of mma tile n have a weight in a row of the warp: bit by bit.
  LSSAR_DEVICE u32 live_keys(const Scores& weights, int n) const {
    u32 live = 0;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool is_live = !(absolute(weights.at[n][e]) < rows.least[0]) ||
                           !(absolute(weights.at[n][2 + e]) < rows.least[1]);
      const u32 lanes = warp_ballot(is_live);
#pragma unroll
      for (int t = 0; t < 4; ++t)
        if ((lanes & 0x11111111u << t) != 0) live |= 1u << (2 * t + e);
    }
    return live;
  }

  LSSAR_DEVICE void load_scores(Scores& s, int tile, const bool (&has_row)[2]) const {
    s.clear();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!has_row[half]) continue;
      const float* const from =
          scores_of(half) + (this->first_key(tile) - chunk * Config::kSplitKeys);
#pragma unroll
      for (int n = 0; n < kKeyMmaTiles; ++n) {
        s.at[n][2 * half] = from[fragment_col(n)];
        s.at[n][2 * half + 1] = from[fragment_col(n) + 1];
      }
    }
  }

  // Scores -> weights in the workspace, and the words of the warp's live keys.
  LSSAR_DEVICE void weigh_chunk() {
    for (int word = lane_index(); word < ValueShape::kWords; word += kWarpThreads)
      store_shared(word_address(warp_index(), word), 0u);
    warp_barrier();
    const ChunkTiles tiles = this->chunk_tiles();
    const bool has_row[2] = {rows.has(params, 0), rows.has(params, 1)};
    Scores next;  // loaded while a tile is weighed
    if (tiles.begin < tiles.end) load_scores(next, tiles.begin, has_row);
#pragma unroll 1
    for (int tile = tiles.begin; tile < tiles.end; ++tile) {
      const i64 first = this->first_key(tile);
      const int in_chunk = static_cast<int>(first - chunk * Config::kSplitKeys);
      Scores s = next;
      if (tile + 1 < tiles.end) load_scores(next, tile + 1, has_row);
      rows.weigh_scores(s, first, this->needs_mask(first));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const to = scores_of(half) + in_chunk;
#pragma unroll
        for (int n = 0; n < kKeyMmaTiles; ++n) {
          if (!has_row[half]) s.at[n][2 * half] = s.at[n][2 * half + 1] = 0.0f;
          if (has_row[half])
            store_global_8(to + fragment_col(n), s.at[n][2 * half], s.at[n][2 * half + 1]);
        }
      }
#pragma unroll
      for (int n = 0; n < kKeyMmaTiles; ++n) {
        const u32 live = live_keys(s, n);
        if (lane_index() == 0)
          store_shared(word_address(warp_index(), in_chunk / kDecodeKeysPerWord + n), live);
      }
    }
  }

  // Lists the keys that are live in any warp, in their order. One warp calls it.
  LSSAR_DEVICE void list_keys() const {
    const u32 list = shared + ValueShape::kListOffset;
    const u32 lanes_below = (1u << lane_index()) - 1;
    int count = 0;
    for (int key = lane_index(); key < Config::kSplitKeys; key += kWarpThreads) {
      u32 word = 0;
      for (int warp = 0; warp < ValueShape::kWarps; ++warp) {
        u32 of_warp;
        load_shared(of_warp, word_address(warp, key / kDecodeKeysPerWord));
        word |= of_warp;
      }
      const bool is_live = (word >> key % kDecodeKeysPerWord & 1u) != 0;
      const u32 live = warp_ballot(is_live);
      if (is_live)
        store_shared(list + (count + count_bits(live & lanes_below)) * 4, static_cast<u32>(key));
      count += count_bits(live);
    }
    if (lane_index() == 0) store_shared(shared + ValueShape::kCountOffset, static_cast<u32>(count));
  }

  // The weights of the listed keys from `first` on.
  LSSAR_DEVICE void gather_weights(Scores& s, int first, int count) const {
    s.clear();
#pragma unroll
    for (int n = 0; n < kKeyMmaTiles; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int at = first + fragment_col(n) + c;
        if (at >= count) continue;
        u32 key;
        load_shared(key, shared + ValueShape::kListOffset + at * 4);
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (rows.has(params, half))
            s.at[n][2 * half + c] = scores_of(half)[key] * rows.range_factor(half);
      }
  }

  LSSAR_DEVICE void write_columns(int dv_block, const Columns& o,
                                  const typename Mma::RowSums& sums) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float weights = sums.total(half);  // of all lanes of the quad
      if (!rows.has(params, half)) continue;
      const DecodeMemory<Config> memory = rows.memory(params, place, half);
      const float factor = rows.output_factor(half);
      float* const to = memory.outputs + chunk * Config::kHeadDimV;
#pragma unroll
      for (int n = 0; n < Shape::kBlockDv / kTileCols; ++n) {
        const int col = dv_block * Shape::kBlockDv + fragment_col(n);
        if (col >= Config::kHeadDimV) continue;
        store_global_8(to + col, o.at[n][2 * half] * factor, o.at[n][2 * half + 1] * factor);
      }
      if (dv_block != 0 || lane_index() % 4 != 0) continue;
      *memory.part(kPartDivisor, chunk) = rows.divisor(half, weights, chunk);
      if (chunk == 0 && params.saved_stats != nullptr)
        rows.write_stats(params, rows.saved_index(params, place, half), half);
    }
  }

  LSSAR_DEVICE void multiply_values(int count) {
    const u32 list = shared + ValueShape::kListOffset;
    DecodeValueLoader<Config> loader = {
        row_pointer<const Element>(params.v, place.batch, place.head, chunk * Config::kSplitKeys),
        params.v.row_stride, list, count, shared};
    Ring ring(loader);
    ring.start();
    const int num_parts = rows.num_weight_parts();
#pragma unroll 1
    for (int dv_block = 0; dv_block < Shape::kNumDvBlocks; ++dv_block) {
      Columns o;
      typename Mma::RowSums sums;
      o.clear();
#pragma unroll 1
      for (int first = 0; first < count; first += Shape::kBlockCols) {
        Scores s;
        gather_weights(s, first, count);
        const typename Shape::ValueTile values{shared + ring.next() * Shape::ValueTile::kBytes};
#pragma unroll 1
        for (int part = 0; part < num_parts; ++part) {
          typename Mma::template Operand<kKeyMmaTiles> weights;
          Mma::round(weights, s);
          Mma::multiply(o, weights, values);
          if constexpr (Config::kDivisorSum == 1) sums.add(weights);
          if constexpr (Config::kDivisorSum == 2) sums.add_magnitudes(weights);
          Mma::subtract(s, weights);
        }
      }
      write_columns(dv_block, o, sums);
    }
    ring.finish();
  }

  LSSAR_DEVICE void run_tile(i64 query_tile) {
    this->place_rows(query_tile);
    rows.read_sums(params, place);
    weigh_chunk();
    block_barrier();
    if (warp_index() == 0) list_keys();
    block_barrier();
    u32 count;
    load_shared(count, shared + ValueShape::kCountOffset);
    multiply_values(static_cast<int>(count));
    block_barrier();  // before the next list
  }
};

template <class Config>
LSSAR_DEVICE void decode_values(const AttentionParams& params) {
  DecodeValues<Config> block(params);
#pragma unroll 1
  for (i64 tile = 0; tile < block.tiles.count(); ++tile) block.run_tile(tile);
}

}  // namespace lssar_device
