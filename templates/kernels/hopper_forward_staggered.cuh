// Staggered passes of the Hopper forward (kStagger above 1): pass 1 of a query tile runs beside
// pass 2 of the tile before it. See hopper_forward.cuh.
//
// A consumer uses each key tile for both. Three products are in flight together: the next queries
// with these keys, the current queries with them, and the last weights with values. Only pass 1 of
// a chain's first query tile and pass 2 of its last one run alone.
#pragma once

#include "templates/kernels/hopper_forward_consumer.cuh"
#include "templates/kernels/hopper_forward_producer.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// Neighbouring query tiles of a head, kStagger of them or, at its end, fewer.
template <class Config>
struct ForwardChain {
  BlockPlace place;
  int count;  // of its tiles

  LSSAR_DEVICE ForwardChain(const AttentionParams& params, u32 index)
      : place(chain_place<Config>(params, index)) {
    const i64 left = tiles_of_slice<Config>(params) - place.tile_idx * Config::kStagger;
    count = static_cast<int>(minimum(left, i64{Config::kStagger}));
  }

  // Query tile i. None sees more keys than the one before it.
  LSSAR_DEVICE ForwardWork<Config> query_tile(const AttentionParams& params, int i) const {
    BlockPlace at = place;
    at.tile_idx = place.tile_idx * Config::kStagger + count - 1 - i;
    return {params, at};
  }
};

// Runs in one thread.
template <class Config>
struct LoadsStaggered {
  using Shape = HopperForwardShape<Config>;

  ForwardProducer<Config> producer;

  LSSAR_DEVICE void load(u32 index) {
    const AttentionParams& params = producer.params;
    const ForwardChain<Config> chain(params, index);
    ForwardWork<Config> work = chain.query_tile(params, 0);
    producer.load_pass_one(work, index);
#pragma unroll 1
    for (int i = 1; i <= chain.count; ++i) {
      // The stages are filled before the next queries are loaded, because their tile may become
      // free only after the last output has left it.
      const ForwardWork<Config> next = chain.query_tile(params, minimum(i, chain.count - 1));
      const int ahead = i < chain.count ? minimum(work.tiles, Shape::kStages / 2) : -1;
#pragma unroll 1
      for (int tile = 0; tile <= work.tiles; ++tile) {  // as load_pass_two
        if (tile == ahead) producer.load_queries(next, index);
        if (tile < work.tiles)
          producer.template load_keys<typename Shape::KeyTile>(kKeyMap, kNormMap, tile, work.place);
        if (tile >= 1) producer.load_values(tile - 1, 0, work.place);
      }
      work = next;
    }
  }

  LSSAR_DEVICE void run() {
    producer.for_each_chain([this](u32 index) { load(index); });
  }
};

// Runs in a warp group.
template <class Config>
struct PassesStaggered {
  using Consumer = ForwardConsumer<Config>;
  using Shape = typename Consumer::Shape;
  using Sums = typename Consumer::Sums;
  using Scores = typename Consumer::Scores;
  using Rows = typename Consumer::Rows;

  // The query tile whose pass 1 runs beside pass 2.
  struct Next {
    Rows rows;
    typename Consumer::ScoreSums sums;
    int stage;
    int tiles;  // of keys that it sees; 0 if there is no such query tile
  };

  Consumer c;

  // Starts the score products of a key tile, those of the next query tile first.
  template <bool kHasNext>
  LSSAR_DEVICE void start_scores(Scores& s, Scores& ahead, int stage, const Next& next) {
    const typename Shape::KeyTile keys{c.next_stage()};
    if constexpr (kHasNext) c.start_scores(ahead, next.stage, keys);
    c.start_scores(s, stage, keys);
  }

  // From products to the sums of pass 1 and the weights of pass 2. Releases the keys. kBehind: the
  // groups of products that started after the scores and may still be in flight.
  template <bool kHasNext, int kBehind>
  LSSAR_DEVICE void finish_scores(Scores& s, Scores& ahead, Next& next, int tile) {
    if constexpr (kHasNext) {
      const auto norms = c.template finish_scores<kBehind + 1>(ahead);
      norms.scale(ahead, next.rows.score_scale);
      next.rows.mask(ahead, tile, -infinity());
      next.sums.add(ahead);
    }
    c.template weigh<kBehind>(s, tile);
  }

  template <bool kHasNext>
  LSSAR_DEVICE void first_tile(Sums& sums, Scores& s, int stage, Next& next) {
    Scores ahead;
    c.ping_pong.acquire();
    start_scores<kHasNext>(s, ahead, stage, next);
    c.ping_pong.release();
    finish_scores<kHasNext, 0>(s, ahead, next, 0);
    sums.round(s);
  }

  template <bool kHasNext>
  LSSAR_DEVICE void next_staggered_tile(Sums& sums, Scores& s, int stage, Next& next, int tile) {
    Scores ahead;
    c.ping_pong.acquire();
    start_scores<kHasNext>(s, ahead, stage, next);
    sums.start(typename Shape::ValueTile{c.next_stage()});
    c.ping_pong.release();
    finish_scores<kHasNext, 1>(s, ahead, next, tile);
    sums.finish_products();
    c.release_stage();
    sums.round(s);
  }

  LSSAR_DEVICE void sweep(Sums& sums, int stage, Next& next, int num_tiles) {
    if (num_tiles == 0) return;
    Scores s;
    if (next.tiles > 0) {
      first_tile<true>(sums, s, stage, next);
    } else {
      first_tile<false>(sums, s, stage, next);
    }
    // NOTE: all products of a tile end before the next branch; see ForwardConsumer::add_overlapped.
    int tile = 1;
#pragma unroll 1
    for (; tile < next.tiles; ++tile) next_staggered_tile<true>(sums, s, stage, next, tile);
#pragma unroll 1
    for (; tile < num_tiles; ++tile) next_staggered_tile<false>(sums, s, stage, next, tile);
    sums.start(typename Shape::ValueTile{c.next_stage()});
    sums.finish_products();
    c.release_stage();
  }

  // Waits for the next queries.
  LSSAR_DEVICE void prepare(Next& next, const ForwardWork<Config>& work) {
    next.stage = c.next_query_stage();
    next.tiles = work.tiles;
    next.rows.place_in(c.params, work, c.group);
    c.prepare_queries(next.rows, next.stage);
  }

  LSSAR_DEVICE void process(const ForwardChain<Config>& chain, int stage) {
    ForwardWork<Config> work = chain.query_tile(c.params, 0);
    c.rows.place_in(c.params, work, c.group);
    c.prepare_queries(c.rows, stage);
    c.pass_one(stage, work);
    Next next;
#pragma unroll 1
    for (int i = 1; i <= chain.count; ++i) {
      const bool has_next = i < chain.count;
      const ForwardWork<Config> next_work = chain.query_tile(c.params, has_next ? i : i - 1);
      next.sums = {};
      next.tiles = 0;
      if (has_next) prepare(next, next_work);
      Sums sums(c.shared, c.group);
      c.rows.save_pass_one(c.params, work.place);
      sweep(sums, stage, next, work.tiles);
      if constexpr (!Config::kStoresByTma) c.release_queries(stage);
      c.write_output(sums, work, 0, stage);
      if (!has_next) break;
      c.rows = next.rows;
      c.rows.reduce_sums(next.sums);
      c.rows.prepare_pass_two();
      stage = next.stage;
      work = next_work;
    }
  }

  LSSAR_DEVICE void run() {
    c.for_each_chain(
        [this](u32 index, int stage) { process(ForwardChain<Config>(c.params, index), stage); });
  }
};

}  // namespace lssar_device
