// Named barriers among the consumer warp groups of a block.
//
// Barriers 1 to 3 are for ping-pong, barrier 4 is for all consumers together, and barriers 5 to 7
// are for one consumer each.
#pragma once

#include "templates/ptx/warp_group.cuh"

namespace lssar_device {

inline constexpr u32 kFirstPingPongBarrier = 1;
inline constexpr u32 kAllConsumersBarrier = 4;
inline constexpr u32 kFirstConsumerBarrier = 5;

// A barrier of the 128 threads of consumer `group`.
LSSAR_DEVICE void consumer_barrier(int group) {
  named_barrier_sync(kFirstConsumerBarrier + group, kWarpGroupThreads);
}

// The same; returns whether `condition` holds for any of the threads.
LSSAR_DEVICE bool consumer_any(int group, bool condition) {
  return named_barrier_any(kFirstConsumerBarrier + group, kWarpGroupThreads, condition);
}

template <int kNumConsumers>
LSSAR_DEVICE void all_consumers_barrier() {
  named_barrier_sync(kAllConsumersBarrier, kNumConsumers * kWarpGroupThreads);
}

// Lets consumers start products one after another, in a circle. A consumer starts its products
// between acquire() and release(); its later arithmetic overlaps the products of the next consumer.
//
// Does nothing unless kIsOn.
template <bool kIsOn, int kNumConsumers>
struct PingPong {
  int group;

  // Called before the first acquire(), so that the first consumer's succeeds.
  LSSAR_DEVICE void begin() const {
    if (group == kNumConsumers - 1) release();
  }
  LSSAR_DEVICE void acquire() const {
    if constexpr (kIsOn) named_barrier_sync(kFirstPingPongBarrier + group, 2 * kWarpGroupThreads);
  }
  LSSAR_DEVICE void release() const {
    if constexpr (kIsOn)
      named_barrier_arrive(kFirstPingPongBarrier + (group + 1) % kNumConsumers,
                           2 * kWarpGroupThreads);
  }
};

}  // namespace lssar_device
