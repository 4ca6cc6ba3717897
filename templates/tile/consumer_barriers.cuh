// Named barriers among the consumer warp groups of a block.
//
// Barriers 1 to 3 are for ping-pong, barrier 4 is for all consumers together, barriers 5 to 7 are
// one for each consumer.
#pragma once

#include "templates/ptx/warp_group.cuh"

namespace lssar_device {

inline constexpr u32 kFirstPingPongBarrier = 1;
inline constexpr u32 kAllConsumersBarrier = 4;
inline constexpr u32 kFirstConsumerBarrier = 5;

// The 128 threads of consumer `group`.
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
// between acquire() and release(); its arithmetic afterwards runs beside the products of the next
// consumer. Without kIsOn all of this does nothing.
template <bool kIsOn, int kNumConsumers>
struct PingPong {
  int group;

  // Called before the first acquire(): the first consumer's succeeds then.
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
