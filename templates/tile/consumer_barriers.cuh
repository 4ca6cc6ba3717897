// Named barriers among the consumer warp groups of a block.
//
// Barriers 1 to 3 are the consumers' turns, 4 is that of all consumers, 5 to 7 are a consumer's
// own.
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

// The same; whether `condition` holds for any of them.
LSSAR_DEVICE bool consumer_any(int group, bool condition) {
  return named_barrier_any(kFirstConsumerBarrier + group, kWarpGroupThreads, condition);
}

template <int kNumConsumers>
LSSAR_DEVICE void all_consumers_barrier() {
  named_barrier_sync(kAllConsumersBarrier, kNumConsumers * kWarpGroupThreads);
}

// Turns of the consumers, in a circle: between acquire() and release() a consumer starts products,
// and what it does after runs beside the next one's products. Without kIsOn, nothing.
template <bool kIsOn, int kNumConsumers>
struct PingPong {
  int group;

  // Before the first turn; the first consumer then has it.
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
