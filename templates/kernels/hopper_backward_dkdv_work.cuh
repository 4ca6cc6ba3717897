// Work tiles, alike for producer and consumers.
//
// See hopper_backward_dkdv.cuh.
#pragma once

#include "templates/kernels/hopper_backward_dkdv_layout.cuh"
#include "templates/ptx/assembler.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/rows.cuh"
#include "templates/tile/work_tiles.cuh"

namespace lssar_device {

// One tile of keys. Rows are below 2^31.
template <class Config>
struct DkdvWork {
  using Shape = HopperDkdvShape<Config>;

  int tile;
  int head;  // kv head
  int batch;
  int first_key;
  int first_query;  // of the first tile in which a query sees one of the keys

  int end_query;  // kHasWindow: after the last one that sees one of the keys

  LSSAR_DEVICE DkdvWork(const AttentionParams& params, u32 index) {
    if constexpr (Config::kHasLengths) index = block_of_sequence;
    const i64 num_keys = seq_k<Config>(params);
    const i64 num_queries = seq_q<Config>(params);
    // The first keys have the most queries.
    const BlockPlace place =
        work_place<Config::kHeadGroup, false>(index, ceil_div(num_keys, Shape::kBlockRows),
                                              params.kv_heads, params.batch * params.kv_heads);
    head = place.head;
    batch = place.batch;
    tile = static_cast<int>(place.tile_idx);
    first_key = tile * Shape::kBlockRows;
    const i64 seen =
        Config::kIsCausal ? maximum(first_key + num_queries - num_keys, i64{0}) : i64{0};
    first_query = static_cast<int>(seen / Shape::kBlockCols) * Shape::kBlockCols;
    if constexpr (Config::kHasWindow) place_window(num_keys, num_queries);
  }

  LSSAR_DEVICE void place_window(i64 num_keys, i64 num_queries) {
    const i64 end_key = minimum(i64{first_key} + Shape::kBlockRows, num_keys);
    const SeeingRows rows = seeing_rows<Config>(first_key, end_key, num_keys, num_queries);
    first_query = static_cast<int>(rows.begin / Shape::kBlockCols) * Shape::kBlockCols;
    end_query = rows.begin < rows.end ? static_cast<int>(rows.end) : first_query;
  }

  // REQUIRES: called by whole warps.
  LSSAR_DEVICE DkdvWork as_uniform() const {
    DkdvWork work = *this;
    work.tile = uniform(tile);
    work.head = uniform(head);
    work.batch = uniform(batch);
    work.first_key = uniform(first_key);
    work.first_query = uniform(first_query);
    if constexpr (Config::kHasWindow) work.end_query = uniform(end_query);
    return work;
  }

  // Keeps the compiler from computing values of the work tile ahead of this point. It would hold
  // them in registers over a loop that needs all registers.
  LSSAR_DEVICE void renew() {
    pin_register(head);
    pin_register(batch);
    pin_register(first_key);
  }

  static LSSAR_DEVICE u32 count(const AttentionParams& params) {
    return static_cast<u32>(ceil_div(seq_k<Config>(params), Shape::kBlockRows) * params.kv_heads *
                            params.batch);
  }
};

// The queries of one step. Steps are the tiles of a head, then those of the group's next head.
template <class Config>
struct DkdvItem {
  int head;
  int first_query;
  int remaining;  // including this one

  LSSAR_DEVICE DkdvItem(const AttentionParams& params, const DkdvWork<Config>& work)
      : head(work.head * (params.heads / params.kv_heads)), first_query(work.first_query) {
    constexpr u32 kQueries = HopperDkdvShape<Config>::kBlockCols;
    const u32 queries =
        static_cast<u32>(Config::kHasWindow ? i64{work.end_query} - first_query
                                            : maximum(seq_q<Config>(params) - first_query, i64{0}));
    remaining =
        static_cast<int>((queries + (kQueries - 1)) / kQueries) * (params.heads / params.kv_heads);
  }

  // kHasWindow: the keys of its first query, and of its last.
  LSSAR_DEVICE VisibleKeys keys_of_first(const AttentionParams& params) const {
    return num_visible_keys<Config>(params, first_query);
  }
  LSSAR_DEVICE VisibleKeys keys_of_last(const AttentionParams& params) const {
    constexpr int kQueries = HopperDkdvShape<Config>::kBlockCols;
    const i64 end = minimum(i64{first_query} + kQueries, seq_q<Config>(params));
    return num_visible_keys<Config>(params, end - 1);
  }

  // REQUIRES: called by whole warps.
  LSSAR_DEVICE DkdvItem as_uniform() const {
    DkdvItem item = *this;
    item.head = uniform(head);
    item.first_query = uniform(first_query);
    item.remaining = uniform(remaining);
    return item;
  }

  LSSAR_DEVICE bool is_valid() const { return remaining > 0; }
  LSSAR_DEVICE void advance(const AttentionParams& params, const DkdvWork<Config>& work) {
    --remaining;
    first_query += HopperDkdvShape<Config>::kBlockCols;
    if (Config::kHasWindow ? first_query >= work.end_query
                           : first_query >= static_cast<int>(seq_q<Config>(params))) {
      first_query = work.first_query;
      ++head;
    }
  }
};

// Calls `process` with each work tile of this block. With an ordered dq that is `ticket`.
template <class Config, class Process>
LSSAR_DEVICE void for_each_dkdv_work(const AttentionParams& params, u32 ticket,
                                     const Process& process) {
  if constexpr (Config::kOrderedDq) {
    LSSAR_INLINE_CALL process(ticket);
  } else {
    for_each_work_tile<Config::kIsPersistent>(DkdvWork<Config>::count(params), process);
  }
}

}  // namespace lssar_device
