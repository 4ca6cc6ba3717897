// A ring of stages in shared memory that is filled ahead of use.
//
// Items are loaded and consumed in the same order, one per call of next(). With S stages, up to S -
// 1 items are in flight while one is used. One barrier per item is enough: it publishes the item
// that has arrived and frees the stage that all threads have finished. With one stage nothing
// overlaps, and two barriers are needed.
#pragma once

#include "templates/ptx/memory.cuh"
#include "templates/ptx/sync.cuh"

namespace lssar_device {

// Loader::load(stage) starts copying the next item into a stage, if there is one.
template <int kStages, class Loader>
struct Pipeline {
  static_assert(kStages >= 1, "a pipeline needs a stage");

  Loader& loader;
  int load_stage = 0;
  int use_stage = kStages - 1;

  LSSAR_DEVICE explicit Pipeline(Loader& l) : loader(l) {}

  LSSAR_DEVICE void load_one() {
    loader.load(load_stage);
    copy_async_commit();
    load_stage = load_stage + 1 == kStages ? 0 : load_stage + 1;
  }

  // Call once, before the first next(). Earlier copies of the caller belong to the first group.
  LSSAR_DEVICE void start() {
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) load_one();
  }

  // The stage that holds the next item. All threads of the block call it together.
  LSSAR_DEVICE int next() {
    if constexpr (kStages == 1) {
      block_barrier();
      load_one();
      copy_async_wait<0>();
      block_barrier();
      return 0;
    } else {
      copy_async_wait<kStages - 2>();
      block_barrier();
      load_one();
      use_stage = use_stage + 1 == kStages ? 0 : use_stage + 1;
      return use_stage;
    }
  }

  // After this no copy is in flight.
  //
  // That includes copies that the caller started before a ring with nothing to load.
  LSSAR_DEVICE void finish() {
    copy_async_commit();
    copy_async_wait<0>();
  }
};

}  // namespace lssar_device
