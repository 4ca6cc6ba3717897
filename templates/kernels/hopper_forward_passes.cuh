// One pass after the other.
//
// The order of the producer's loads and of the consumers' work.
//
// See hopper_forward.cuh; hopper_forward_staggered.cuh has another order.
#pragma once

#include "templates/kernels/hopper_forward_consumer.cuh"
#include "templates/kernels/hopper_forward_producer.cuh"
#include "templates/kernels/hopper_forward_skipping.cuh"
#include "templates/kernels/hopper_forward_window.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/warp_group_mma.cuh"

namespace lssar_device {

// Runs in one thread.
template <class Config>
struct LoadsApart {
  using Shape = HopperForwardShape<Config>;

  ForwardProducer<Config> producer;

  LSSAR_DEVICE void run() {
    producer.for_each_chain([this](u32 index) {
      const ForwardWork<Config> work(producer.params, chain_place<Config>(producer.params, index));
      if constexpr (Config::kHasPassOne) {
        producer.load_pass_one(work, index);
      } else {
        producer.load_queries(work, index);
      }
      for (int dv_block = 0; dv_block < Shape::kNumDvBlocks; ++dv_block) {
        producer.load_pass_two(work, dv_block);
        if constexpr (Config::kIsGeneral) {
          if (work.has_few_keys(producer.params)) producer.load_pass_two(work, dv_block);
        }
      }
    });
  }
};

// Runs in a warp group.
template <class Config>
struct PassesApart {
  using Consumer = ForwardConsumer<Config>;
  using Shape = typename Consumer::Shape;
  using Sums = typename Consumer::Sums;
  using Scores = typename Consumer::Scores;
  using KeyTile = typename Shape::KeyTile;
  static constexpr bool kReleasesQueriesLast =
      !Config::kQueriesInRegisters && !Config::kStoresByTma;

  Consumer c;

  // A tile of pass 2 after the first one: its scores, and the sum of the last tile's weights.
  LSSAR_DEVICE void next_tile(Sums& sums, Scores& s, int query_stage, int tile) {
    c.ping_pong.acquire();
    if constexpr (Config::kOverlap) c.start_scores(s, query_stage, KeyTile{c.next_stage()});
    const typename Shape::ValueTile values{c.next_stage()};
    sums.start(values);
    if constexpr (!Config::kOverlap) c.start_scores(s, query_stage, KeyTile{c.next_stage()});
    c.ping_pong.release();
    if constexpr (Config::kOverlap) c.template weigh<1>(s, tile);
    sums.finish_products();
    c.release_stage();
    if constexpr (!Config::kOverlap) c.template weigh<0>(s, tile);
    if constexpr (Config::kIsGeneral) {
      if constexpr (Consumer::Rows::kRescales) sums.rescale(c.weight_factor);
    }
  }

  LSSAR_DEVICE void pass_two(Sums& sums, int query_stage, KeyTiles<Config> num_tiles) {
    if (num_tiles == 0) return;
    Scores s;
    c.ping_pong.acquire();
    c.start_scores(s, query_stage, KeyTile{c.next_stage()});
    c.ping_pong.release();
    c.template weigh<0>(s, tile_at<Config>(num_tiles, 0));
    sums.round(s);
    // NOTE: all products of a tile end before the next branch; see ForwardConsumer::add_overlapped.
#pragma unroll 1
    for (int tile = 1; tile < num_tiles; ++tile) {
      if constexpr (UnseenValues<Config>::kMayExist)
        c.unseen.template clear<Config::kOverlap>(c.shared, c.filled, c.group,
                                                  tile_at<Config>(num_tiles, tile - 1));
      if (c.skipping.has_weights()) {
        next_tile(sums, s, query_stage, tile_at<Config>(num_tiles, tile));
      } else {
        weigh_after_skipped<Config>(c, s, query_stage, tile_at<Config>(num_tiles, tile));
      }
      sums.round(s);
    }
    if constexpr (UnseenValues<Config>::kMayExist)
      c.unseen.template clear<false>(c.shared, c.filled, c.group,
                                     tile_at<Config>(num_tiles, num_tiles - 1));
    const typename Shape::ValueTile values{c.next_stage()};
    if (c.skipping.has_weights()) {
      sums.start(values);
      sums.finish_products();
    }
    c.release_stage();
  }

  LSSAR_DEVICE void process(const ForwardWork<Config>& work, int stage) {
    c.rows.place_in(c.params, work, c.group);
    c.prepare_queries(c.rows, stage);
    if constexpr (Config::kIsGeneral) c.rows.clear();
    if constexpr (Config::kHasSink) c.rows.load_sink(c.params, work.place);
    if constexpr (Config::kHasAlibi) c.alibi = alibi_of_rows<Config>(c.params, work.place, c.rows);
    if constexpr (Config::kHasPassOne) c.pass_one(stage, work);
    if constexpr (!Config::kIsGeneral) c.rows.save_pass_one(c.params, work.place);
#pragma unroll 1
    for (int dv_block = 0; dv_block < Shape::kNumDvBlocks; ++dv_block) {
      Sums sums(c.shared, c.group);
      if constexpr (Config::kIsGeneral) c.rows.start_columns();
      pass_two(sums, stage, work.tiles);
      if constexpr (Config::kIsGeneral) {
        if (work.has_few_keys(c.params)) {
          sums.takes_remainders = true;
          pass_two(sums, stage, work.tiles);
        }
      }
      if (kReleasesQueriesLast && dv_block == Shape::kNumDvBlocks - 1) c.release_queries(stage);
      c.write_output(sums, work, dv_block, stage);
    }
  }

  LSSAR_DEVICE void run() {
    c.for_each_chain([this](u32 index, int stage) {
      process({c.params, chain_place<Config>(c.params, index)}, stage);
    });
  }
};

}  // namespace lssar_device
