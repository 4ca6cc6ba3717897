// Adds a part of dq to the sums.
//
// The Hopper dk/dv kernel with kSumsDq; see hopper_backward_dkdv.cuh.
#pragma once

#include "templates/kernels/hopper_backward_dkdv_work.cuh"
#include "templates/ptx/assembler.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/ptx/tma.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/tile/dq_turns.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/grad_q_sum.cuh"

namespace lssar_device {

// Adds one consumer's part.
template <class Config>
struct DkdvQueryPart {
  using Shape = HopperDkdvShape<Config>;
  using QueryGrads = Fragment<Shape::kQueryGradCols / kTileCols>;

  const AttentionParams& params;
  const TensorMap& sum_map;
  DkdvShared<Config> shared;
  int group;  // index among the consumers

  // The first of the warp's keys in the block.
  LSSAR_DEVICE int warp_row0() const {
    return group * kWarpGroupRows + warp_group_thread() / kWarpThreads * kWarpRows;
  }

  // The first column of the consumer's share of dq.
  LSSAR_DEVICE int query_grad_col0() const { return group == 0 ? 0 : Shape::kSecondCol; }

  // The counter of turns for the warp's part of the item's dq.
  LSSAR_DEVICE u32* turn(const DkdvWork<Config>& work, const DkdvItem<Config>& item) const {
    return DqTurns<Config>::of_part(params, i64{work.batch} * params.heads + item.head,
                                    item.first_query, warp_row0() / kWarpRows);
  }

  // How many key tiles add to the item's dq before this one.
  LSSAR_DEVICE int turn_in_window(const DkdvWork<Config>& work,
                                  const DkdvItem<Config>& item) const {
    return tiles_before(
        visited_tiles<Shape::kBlockRows>(item.keys_of_first(params), item.keys_of_last(params)),
        work.tile);
  }

  // The first column of dq that the other consumer does not compute.
  LSSAR_DEVICE int first_own_col() const { return group == 0 ? 0 : Shape::kHalfDim; }
  // The first of the warp's rows of dq in the tile.
  LSSAR_DEVICE int query_grad_row0() const {
    return warp_group_thread() / kWarpThreads * kWarpRows;
  }

  // Adds the consumer's share of the item's dq to the sums in global memory.
  LSSAR_DEVICE void add_query_grads(const QueryGrads& dq, const DkdvWork<Config>& work,
                                    const DkdvItem<Config>& item, float inverse_scale) const {
    if constexpr (Config::kSumsByTma) {
      stage_query_grads(dq, inverse_scale);
      if (lane_index() == 0) add_staged_grads(work, item);
      return;
    }
    const i64 slice = i64{work.batch} * params.heads + item.head;
    const u32 query = static_cast<u32>(item.first_query + query_grad_row0() + fragment_row(0));
    float* first = GradQSum<Config>::at(params, slice, query, query_grad_col0() + fragment_col(0));
    i64 stride = GradQSum<Config>::group_stride(params);
    pin_register(stride);  // so one addition leads from group to group, and not an address for each
    if constexpr (Config::kOrderedDq)
      begin_turn(turn(work, item),
                 static_cast<u32>(Config::kHasWindow ? turn_in_window(work, item) : work.tile));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      constexpr int kApart = kWarpRows / 2;
      if (query + half * kApart >= seq_q<Config>(params)) continue;
      float* out = first + half * kApart * GradQSum<Config>::kCols;
#pragma unroll
      for (int n = 0; n < QueryGrads::kNumTiles; ++n, out += stride) {
        const int col = query_grad_col0() + fragment_col(n);
        if (Shape::kSharesAreHalves || (col >= first_own_col() && col < Config::kHeadDim))
          add_global_pair(out, dq.at[n][2 * half] * inverse_scale,
                          dq.at[n][2 * half + 1] * inverse_scale);
      }
    }
  }

  // Writes the warp's part of dq to shared memory, for TMA.
  LSSAR_DEVICE void stage_query_grads(const QueryGrads& dq, float inverse_scale) const {
    constexpr int kRowBytes = kTileCols * 4;
    if (lane_index() == 0) bulk_wait_read<0>();  // the previous part
    warp_barrier();
    const u32 first =
        shared.staging(warp_row0() / kWarpRows) + fragment_row(0) * kRowBytes + fragment_col(0) * 4;
#pragma unroll
    for (int n = 0; n < QueryGrads::kNumTiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        store_shared(first + (n * kWarpRows + half * kWarpRows / 2) * kRowBytes,
                     dq.at[n][2 * half] * inverse_scale, dq.at[n][2 * half + 1] * inverse_scale);
    fence_async_shared();
    warp_barrier();
  }

  // Called by one lane. Rows and columns outside of dq are left out.
  LSSAR_DEVICE void add_staged_grads(const DkdvWork<Config>& work,
                                     const DkdvItem<Config>& item) const {
    const u32 staged = shared.staging(warp_row0() / kWarpRows);
#pragma unroll
    for (int box = 0; box < Shape::kSumBoxes; ++box) {
      const int col = query_grad_col0() + box * Shape::kSumCols;
      if (Shape::kSharesAreHalves || (col >= first_own_col() && col < Config::kHeadDim))
        tma_reduce_add(sum_map, staged + box * Shape::kSumBoxBytes,
                       (item.first_query + query_grad_row0()) * GradQSum<Config>::kCols,
                       col / GradQSum<Config>::kCols, item.head, work.batch);
    }
    bulk_commit();
  }
};

}  // namespace lssar_device
