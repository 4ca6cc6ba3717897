// Backward for keys and values.
//
// With kSumsDq also for queries.
//
//   dv_j = sum_i M_ij g_i
//   dk_j = a_j - k̂_j (k̂_j a_j),   a_j = sum_i dS'_ij q_i / |k_j|
//   kSumsDq: dq sums += dS'_ij k_j / |k_j|, in any order, or with kOrderedDq in the order of keys
//
// A block owns kBlockRows keys of one kv head, 16 per warp. It walks over tiles of kBlockCols
// queries of every head that reads these keys, so that sums over a head group need no second kernel
// and have one order. S and D are computed transposed (keys as rows), so that M and dS' feed dv and
// dk from registers. kSplitDkdv: one sweep over the queries for dv, a second one for dk.
//
// Shared memory: key tile, value tile, kStages stages of {queries, output gradients, row
// constants}; to sum dq also a tile of dS', a word per warp and the block's ticket. Barriers: one
// per stage (tile/pipeline.cuh). To sum dq, one before other warps read dS' (the next stage's
// barrier frees the tile), one between its two parts, and for fp16 one to agree on its scale.
#pragma once

#include "templates/tile/dq_turns.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/grad_q_sum.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/key_scores.cuh"
#include "templates/tile/load_seen.cuh"
#include "templates/tile/load_tile.cuh"
#include "templates/tile/pipeline.cuh"
#include "templates/tile/project.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

template <class Config>
struct DkdvShape {
  using Element = typename Config::Element;
  static constexpr int kBlockRows = Config::kDkdvBlockRows;
  static constexpr int kBlockCols = Config::kDkdvBlockCols;
  static constexpr int kWarps = kBlockRows / kWarpRows;
  static constexpr int kThreads = kWarps * kWarpThreads;
  static constexpr int kNumSweeps = Config::kSplitDkdv ? 2 : 1;

  using KeyTile = SharedTile<Element, kBlockRows, Config::kHeadDimPadded>;
  using ValueTile = SharedTile<Element, kBlockRows, Config::kHeadDimVPadded>;
  using QueryTile = SharedTile<Element, kBlockCols, Config::kHeadDimPadded>;
  using GradTile = SharedTile<Element, kBlockCols, Config::kHeadDimVPadded>;
  using ScoreTile = SharedTile<Element, kBlockRows, kBlockCols>;

  static constexpr int kConstantsOffset = QueryTile::kBytes + GradTile::kBytes;
  static constexpr int kStageBytes = kConstantsOffset + kBlockCols * kRowConstantBytes;
  static constexpr int kStagesOffset = KeyTile::kBytes + ValueTile::kBytes;
  static constexpr int kScoreOffset = kStagesOffset + Config::kDkdvStages * kStageBytes;
  static constexpr int kWordsOffset = kScoreOffset + ScoreTile::kBytes;
  static constexpr int kTicketOffset = kWordsOffset + kWarps * 4;
  static constexpr int kSharedBytes = Config::kSumsDq ? kTicketOffset + kTicketBytes : kScoreOffset;

  static_assert(kBlockRows % kWarpRows == 0, "a warp owns 16 keys");
  static_assert(kBlockCols % 16 == 0, "queries are the depth of an mma, 16 at a time");
};

// Query tiles in the order of use: the tiles of a head, then those of the group's next head; the
// whole list once per sweep.
template <class Config>
struct DkdvLoader {
  using Shape = DkdvShape<Config>;
  using Element = typename Config::Element;

  const AttentionParams& params;
  int batch;
  int first_head;
  int num_heads;
  int first_tile;
  int num_tiles;
  u32 stages;

  int head = 0;
  int tile = 0;
  int sweep = 0;

  LSSAR_DEVICE void load(int stage) {
    if (num_tiles == 0 || sweep == Shape::kNumSweeps) return;
    const u32 base = stages + stage * Shape::kStageBytes;
    const i64 first = i64{first_tile + tile} * Shape::kBlockCols;
    const i64 queries = seq_q<Config>(params);
    const i64 valid = queries - first;
    const int q_head = first_head + head;
    load_tile<Config, Shape::kThreads>(typename Shape::QueryTile{base},
                                       row_pointer<const Element>(params.q, batch, q_head, first),
                                       params.q.row_stride, valid, Config::kHeadDim);
    load_tile<Config, Shape::kThreads>(
        typename Shape::GradTile{base + Shape::QueryTile::kBytes},
        row_pointer<const Element>(params.grad_o, batch, q_head, first), params.grad_o.row_stride,
        valid, Config::kHeadDimV);
    constexpr int kFloatsPerRow = kRowConstantBytes / 4;
    load_floats<Shape::kThreads, Shape::kBlockCols * kFloatsPerRow>(
        base + Shape::kConstantsOffset,
        params.row_constants +
            ((i64{batch} * params.heads + q_head) * queries + first) * kFloatsPerRow,
        valid * kFloatsPerRow);
    if (++tile < num_tiles) return;
    tile = 0;
    if (++head < num_heads) return;
    head = 0;
    ++sweep;
  }
};

template <class Config>
struct BackwardDkdv {
  using Shape = DkdvShape<Config>;
  using Element = typename Config::Element;
  using Mma = typename Config::Mma;
  static constexpr int kQueryMmaTiles = Shape::kBlockCols / kTileCols;
  using Scores = Fragment<kQueryMmaTiles>;
  using KeyGrads = Fragment<Config::kHeadDimPadded / kTileCols>;
  using ValueGrads = Fragment<Config::kHeadDimVPadded / kTileCols>;
  using Ring = Pipeline<Config::kDkdvStages, DkdvLoader<Config>>;
  using Scale = GradScale<Config>;
  // Use dS' / |k_j| in place of dS' if a sum over keys needs it, or if keys share a scale: a key
  // past the end (norm 0) must not decide that scale. The scale is multiplied in together with the
  // norm. Otherwise the norm is applied at the end of the sum.
  static constexpr bool kGradHasKeyNorm = Config::kSumsDq || Scale::kIsNeeded;

  const AttentionParams& params;
  BlockPlace place;  // head: kv head
  typename Shape::KeyTile keys;
  typename Shape::ValueTile values;
  u32 shared;
  i64 first_key;
  int first_tile;
  int num_tiles;
  int group;              // query heads per kv head
  VisibleKeys seen_keys;  // kHasWindow: keys that some query of the call sees
  float key_norm[2];
  Scale weight_scale;   // kScalesWeights: the weights' scale, as for gradients
  float slope_of_head;  // kHasAlibi: of the tile's queries

  LSSAR_DEVICE explicit BackwardDkdv(const AttentionParams& params) : params(params) {}

  LSSAR_DEVICE int warp_row0() const { return warp_index() * kWarpRows; }

  // A key is visible in the tile at `first_query` if its row minus the query's column is at most
  // this.
  LSSAR_DEVICE int diagonal(i64 first_query) const {
    const i64 limit = seq_k<Config>(params) - seq_q<Config>(params) - first_key + first_query;
    const i64 far = i64{Shape::kBlockRows + Shape::kBlockCols};
    return static_cast<int>(minimum(maximum(limit, -far), far));
  }

  LSSAR_DEVICE AlibiConstants<PackedConstants> alibi_constants(u32 constants,
                                                               i64 first_query) const {
    const i64 distance = row_position<Config>(params, first_query) - first_key;
    return {{constants}, slope_of_head, static_cast<float>(distance)};
  }

  // See weigh_keys.
  template <bool kWithDk>
  LSSAR_DEVICE void weigh(Scores& s, Scores& d, u32 constants, i64 first_query) const {
    const int limit = diagonal(first_query);
    if constexpr (Config::kHasAlibi) {
      weigh_keys<Config, kWithDk, kGradHasKeyNorm && !Scale::kIsNeeded, true>(
          s, d, alibi_constants(constants, first_query), key_norm, warp_row0(),
          {limit, Config::kIsCausal && limit < Shape::kBlockRows - 1});
    } else {
      weigh_keys<Config, kWithDk, kGradHasKeyNorm && !Scale::kIsNeeded, true>(
          s, d, PackedConstants{constants}, key_norm, warp_row0(),
          {limit, Config::kIsCausal && limit < Shape::kBlockRows - 1});
    }
    if constexpr (Config::kHasWindow) hide_window<kWithDk>(s, d, first_query);
    if constexpr (Config::kIsGeneral) hide_past_end(d);
  }

  // The keys of the first query of a tile, and of its last.
  LSSAR_DEVICE VisibleKeys keys_of_first(i64 first_query) const {
    return num_visible_keys<Config>(params, first_query);
  }
  LSSAR_DEVICE VisibleKeys keys_of_last(i64 first_query) const {
    const i64 end = minimum(first_query + Shape::kBlockCols, seq_q<Config>(params));
    return num_visible_keys<Config>(params, end - 1);
  }

  // Clears the weights and gradients of keys outside a query's window.
  template <bool kWithDk>
  LSSAR_DEVICE void hide_window(Scores& s, Scores& d, i64 first_query) const {
    const VisibleKeys common = common_keys(keys_of_first(first_query), keys_of_last(first_query));
    if (common.has_all(first_key, Shape::kBlockRows)) return;
    const i64 key = first_key + warp_row0();
#pragma unroll
    for (int n = 0; n < kQueryMmaTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const VisibleKeys keys =
            num_visible_keys<Config>(params, first_query + fragment_col(n) + e % 2);
        if (keys.has(key + fragment_row(e / 2))) continue;
        s.at[n][e] = 0.0f;
        if constexpr (kWithDk) d.at[n][e] = 0.0f;
      }
  }

  // kOrderedDq: how many key tiles add to dq of the query tile before this one.
  LSSAR_DEVICE i64 turn_in_window(i64 first_query) const {
    return tiles_before(
        visited_tiles<Shape::kBlockRows>(keys_of_first(first_query), keys_of_last(first_query)),
        static_cast<int>(place.tile_idx));
  }

  // num_grad_parts for a query tile, the same in all warps.
  LSSAR_DEVICE int num_window_parts(i64 first_query) const {
    bool has_few = false;
#pragma unroll
    for (int col = 0; col < Shape::kBlockCols; col += kWarpThreads) {
      const i64 keys = num_visible_keys<Config>(params, first_query + col + lane_index());
      has_few |= keys > 0 && num_grad_parts<Config>(keys) > 1;
    }
    return warp_all(!has_few) ? 1 : 2;
  }

  // Clears gradients of keys past the end. Their phi' may be infinite, and times the key tile's
  // zeros would give NaN.
  LSSAR_DEVICE void hide_past_end(Scores& d) const {
    if (first_key + Shape::kBlockRows <= seq_k<Config>(params)) return;
#pragma unroll
    for (int n = 0; n < kQueryMmaTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (first_key + warp_row0() + fragment_row(e / 2) >= seq_k<Config>(params))
          d.at[n][e] = 0.0f;
  }

  // The largest gradient of the warp, or of the block if all warps round into one tile.
  LSSAR_DEVICE u32 largest_gradient(const Scores& d) const {
    u32 largest = Scale::largest_bits(d, key_norm);
    if constexpr (Config::kSumsDq) {
      const u32 stages = shared + Shape::kWordsOffset;
      if (lane_index() == 0) store_shared(stages + warp_index() * 4, largest);
      block_barrier();
#pragma unroll
      for (int warp = 0; warp < Shape::kWarps; ++warp) {
        u32 other;
        load_shared(other, stages + warp * 4);
        largest = other > largest ? other : largest;
      }
    }
    return largest;
  }

  // Adds the block's part of dq for this query tile. dS' goes through shared memory. Each warp
  // computes 16 queries and a share of the columns.
  LSSAR_DEVICE void add_query_grads(Scores& d, int head, i64 first_query,
                                    float inverse_scale) const {
    constexpr int kRowGroups = Shape::kBlockCols / kWarpRows;
    constexpr int kColumnGroups = Shape::kWarps / kRowGroups;
    constexpr int kCols = Config::kHeadDimPadded / kColumnGroups;
    static_assert(kColumnGroups * kRowGroups == Shape::kWarps && kCols % 16 == 0,
                  "warps share the tile of dq evenly");
    const typename Shape::ScoreTile tile{shared + Shape::kScoreOffset};
    const int row0 = warp_index() / kColumnGroups * kWarpRows;
    const int col0 = warp_index() % kColumnGroups * kCols;
    Fragment<kCols / kTileCols> dq;
    dq.clear();
    const int num_parts =
        Config::kHasWindow ? num_window_parts(first_query)
                           : num_grad_parts<Config>(num_visible_keys<Config>(params, first_query));
#pragma unroll 1
    for (int part = 0; part < num_parts; ++part) {
      if (part > 0) block_barrier();
      typename Mma::template Operand<kQueryMmaTiles> operand;
      Mma::round(operand, d);
      Mma::store(tile, warp_row0(), d);
      block_barrier();
      Mma::multiply_left_transposed(dq, tile, row0, keys, col0);
      Mma::subtract(d, operand);
    }
    const i64 queries = seq_q<Config>(params);
    const i64 slice = i64{place.batch} * params.heads + head;
    u32* turn = nullptr;
    if constexpr (Config::kOrderedDq) {
      turn = DqTurns<Config>::of_part(params, slice, first_query, warp_index());
      begin_turn(turn, static_cast<u32>(Config::kHasWindow ? turn_in_window(first_query)
                                                           : place.tile_idx));
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 query = first_query + row0 + fragment_row(half);
      if (query >= queries) continue;
      float* out = GradQSum<Config>::at(params, slice, query, col0 + fragment_col(0));
#pragma unroll
      for (int n = 0; n < kCols / kTileCols; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          if (col0 + fragment_col(n) < Config::kHeadDim)
            add_global(out + n * GradQSum<Config>::group_stride(params) + c,
                       dq.at[n][2 * half + c] * inverse_scale);
        }
    }
    if constexpr (Config::kOrderedDq) end_turn(turn);
  }

  template <bool kWithDv, bool kWithDk>
  LSSAR_DEVICE void sweep(Ring& ring, ValueGrads& dv, KeyGrads& dk, Scale& scale) {
#pragma unroll 1
    for (int item = 0; item < num_tiles * group; ++item) {
      const u32 stage = shared + Shape::kStagesOffset + ring.next() * Shape::kStageBytes;
      const typename Shape::QueryTile queries{stage};
      const typename Shape::GradTile grads{stage + Shape::QueryTile::kBytes};
      const int head_in_group = item / num_tiles;
      const i64 first_query =
          i64{first_tile + item - head_in_group * num_tiles} * Shape::kBlockCols;
      Scores s, d;
      s.clear();
      Mma::multiply_transposed(s, keys, warp_row0(), queries);
      if constexpr (kWithDk) {
        d.clear();
        Mma::multiply_transposed(d, values, warp_row0(), grads);
      }
      if constexpr (Config::kHasAlibi)
        slope_of_head = alibi_slope<Config>(params, place.head * group + head_in_group);
      weigh<kWithDk>(s, d, stage + Shape::kConstantsOffset, first_query);
      typename Mma::template Operand<kQueryMmaTiles> operand;
      if constexpr (kWithDv) {
        if constexpr (Config::kScalesWeights) weight_scale.apply(Scale::largest_bits(s), s, dv);
        Mma::round(operand, s);
        Mma::multiply(dv, operand, grads);
      }
      if constexpr (kWithDk) {
        if constexpr (Scale::kIsNeeded) scale.apply(largest_gradient(d), d, key_norm, dk);
        Mma::round(operand, d);
        Mma::multiply(dk, operand, queries);
        if constexpr (Config::kSumsDq)
          add_query_grads(d, place.head * group + head_in_group, first_query, scale.inverse());
      }
    }
  }

  LSSAR_DEVICE void write_values(ValueGrads& dv) const {
    float inverse_range = 1.0f / kWeightRange<Config>;
    if constexpr (Config::kScalesWeights) inverse_range = weight_scale.inverse();
    Scale::multiply(dv, inverse_range);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 key = first_key + warp_row0() + fragment_row(half);
      if (key < seq_k<Config>(params))
        write_row<Config, Config::kHeadDimV>(
            row_pointer<Element>(params.grad_v, place.batch, place.head, key), dv, half);
    }
  }

  LSSAR_DEVICE void write_keys(KeyGrads& dk, float inverse_scale) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = kGradHasKeyNorm ? inverse_scale : inverse_scale * key_norm[half];
#pragma unroll
      for (int n = 0; n < KeyGrads::kNumTiles; ++n) {
        dk.at[n][2 * half] *= factor;
        dk.at[n][2 * half + 1] *= factor;
      }
      if constexpr (Config::kHasNorms)
        project_row<Mma>(dk, half, keys, warp_row0(), key_norm[half]);
      const i64 key = first_key + warp_row0() + fragment_row(half);
      if (key < seq_k<Config>(params))
        write_row<Config, Config::kHeadDim>(
            row_pointer<Element>(params.grad_k, place.batch, place.head, key), dk, half);
    }
  }

  // kHasWindow: only tiles with queries that see one of the block's keys.
  LSSAR_DEVICE void place_window(i64 num_keys, i64 num_queries) {
    const i64 end_key = minimum(first_key + Shape::kBlockRows, num_keys);
    const SeeingRows rows = seeing_rows<Config>(first_key, end_key, num_keys, num_queries);
    const i64 end = rows.end > rows.begin ? ceil_div(rows.end, Shape::kBlockCols) : 0;
    first_tile = static_cast<int>(rows.begin / Shape::kBlockCols);
    num_tiles = maximum(static_cast<int>(end) - first_tile, 0);
    if (num_tiles > 0)
      seen_keys = keys_of_some(num_visible_keys<Config>(params, 0),
                               num_visible_keys<Config>(params, num_queries - 1));
  }

  //
  // Not formatted: lines break as in emitted sources, which have no <Config>.
  // clang-format off
  LSSAR_DEVICE void place_block() {
    const i64 num_keys = seq_k<Config>(params);
    const i64 num_queries = seq_q<Config>(params);
    const i64 num_tiles_k = ceil_div(num_keys, Shape::kBlockRows);
    if constexpr (Config::kOrderedDq && !Config::kHasLengths) {
      place = block_place<Config>(num_tiles_k, params.kv_heads,
                          DqTurns<Config>::take_ticket(params, shared + Shape::kTicketOffset));
    } else {
      place = block_place<Config>(num_tiles_k, params.kv_heads);
    }
    first_key = place.tile_idx * Shape::kBlockRows;
    group = params.heads / params.kv_heads;
    // The first query that sees the block's first key.
    const i64 first_query =
        Config::kIsCausal ? maximum(first_key + num_queries - num_keys, i64{0}) : 0;
    first_tile = static_cast<int>(first_query / Shape::kBlockCols);
    num_tiles = maximum(static_cast<int>(ceil_div(num_queries, Shape::kBlockCols)) - first_tile, 0);
    if constexpr (Config::kHasWindow) place_window(num_keys, num_queries);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 key = first_key + warp_row0() + fragment_row(half);
      key_norm[half] = key < num_keys
                           ? params.k_inv_norm[(i64{place.batch} * params.kv_heads + place.head) *
                                                   key_norm_pitch<Config>(params) +
                                               key]
                           : 0.0f;
      if constexpr (Config::kHasWindow) {
        if (!seen_keys.has(key)) key_norm[half] = 0.0f;  // it may be NaN
      }
    }
  }

  //
  // clang-format on
  LSSAR_DEVICE void load_owned() {
    keys.base = shared;
    values.base = shared + Shape::KeyTile::kBytes;
    if constexpr (Config::kHasWindow) {
      load_seen_tile<Config, Shape::kThreads>(
          keys, row_pointer<const Element>(params.k, place.batch, place.head, first_key),
          params.k.row_stride, seen_keys, first_key, Config::kHeadDim);
      load_seen_tile<Config, Shape::kThreads>(
          values, row_pointer<const Element>(params.v, place.batch, place.head, first_key),
          params.v.row_stride, seen_keys, first_key, Config::kHeadDimV);
      return;
    }
    const i64 valid = seq_k<Config>(params) - first_key;
    load_tile<Config, Shape::kThreads>(
        keys, row_pointer<const Element>(params.k, place.batch, place.head, first_key),
        params.k.row_stride, valid, Config::kHeadDim);
    load_tile<Config, Shape::kThreads>(
        values, row_pointer<const Element>(params.v, place.batch, place.head, first_key),
        params.v.row_stride, valid, Config::kHeadDimV);
  }

  LSSAR_DEVICE void run() {
    shared = dynamic_shared_address();
    place_block();
    load_owned();
    DkdvLoader<Config> loader{params,     place.batch, place.head * group,           group,
                              first_tile, num_tiles,   shared + Shape::kStagesOffset};
    Ring ring(loader);
    ring.start();
    Scale scale;
    ValueGrads dv;
    KeyGrads dk;
    if constexpr (Config::kSplitDkdv) {
      dv.clear();
      sweep<true, false>(ring, dv, dk, scale);
      write_values(dv);
      dk.clear();
      sweep<false, true>(ring, dv, dk, scale);
    } else {
      dv.clear();
      dk.clear();
      sweep<true, true>(ring, dv, dk, scale);
      write_values(dv);
    }
    ring.finish();
    block_barrier();  // without query tiles nothing has waited for the key tile yet
    write_keys(dk, scale.inverse());
  }
};

template <class Config>
LSSAR_DEVICE void backward_dkdv(const AttentionParams& params) {
  BackwardDkdv<Config>(params).run();
}

}  // namespace lssar_device
