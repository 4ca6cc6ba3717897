// When asynchronous operations take effect. Handlers read it: plain data only.
#pragma once

#include <cstdint>

namespace lssar {

// An operation takes effect, and reads its sources, between its issue and the point where its
// completion is observed.
enum class AsyncTiming : uint8_t {
  kBySeed,    // kLatest for seed 0; each of the three in turn for seeds 1, 2, 3, ...
  kLatest,    // finds missing waits
  kEarliest,  // finds stages that are overwritten while they are read
  kRandom,
};

}  // namespace lssar
