// When asynchronous operations take effect. Read by the handlers: plain data only.
#pragma once

#include <cstdint>

namespace lssar {

// Between issue and the point where completion is observed; reads of sources included.
enum class AsyncTiming : uint8_t {
  kBySeed,    // kLatest for seed 0; each of the three in turn for seeds 1, 2, 3, ...
  kLatest,    // finds waits that are missing
  kEarliest,  // finds stages that are overwritten while they are read
  kRandom,
};

}  // namespace lssar
