/* Random numbers that are the same everywhere: splitmix64. */
#ifndef LSSAR_EXAMPLES_GPT2_RANDOM_H_
#define LSSAR_EXAMPLES_GPT2_RANDOM_H_

#include <stdint.h>

static inline uint64_t random_bits(uint64_t* state) {
  uint64_t x = (*state += 0x9E3779B97F4A7C15u);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static inline int random_below(uint64_t* state, int end) {
  return (int)(random_bits(state) % (uint64_t)end);
}

static inline double random_unit(uint64_t* state) { /* in [0, 1) */
  return (double)(random_bits(state) >> 11) * 0x1p-53;
}

#endif /* LSSAR_EXAMPLES_GPT2_RANDOM_H_ */
