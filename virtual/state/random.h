// The pseudo-random numbers of a schedule: splitmix64. Not for handlers.
#pragma once

#include <cstdint>

namespace lssar::vdev {

inline uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed = 0) : state_(seed) {}
  uint64_t next() { return mix_bits(state_ += 0x9e3779b97f4a7c15ull); }
  // 0 to bound - 1; bound > 0.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }

 private:
  uint64_t state_;
};

}  // namespace lssar::vdev
