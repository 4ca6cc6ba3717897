// Measures how fast a core of this machine multiplies and reads. Threads: any.
#pragma once

#include "codegen/target.h"

namespace lssar {

// What one core reaches. Other cores may be busy meanwhile.
struct CpuRates {
  double fma_gflops = 0;   // float32, two for each multiply-add
  double pair_gflops = 0;  // pairs of bf16, four for each pair; 0: the level has no such products
  double l2_gbps = 0;      // reading 10^9 bytes per second from the second-level cache
  double l3_gbps = 0;      // from the third-level cache
  double memory_gbps = 0;  // from memory
};

// The rates with vectors of the target's level, or zeros if the machine cannot run that level. The
// first call for a level measures them, which takes some 0.1 s; they are kept. Each rate is the
// best of several short runs, so another program disturbs it little.
const CpuRates& cpu_rates(const Target& target);

}  // namespace lssar
