// Measures how fast a core of this machine multiplies and reads. Threads: any.
#pragma once

#include "codegen/target.h"

namespace lssar {

// Of one core, while others may be busy.
struct CpuRates {
  double fma_gflops = 0;   // float32, two for each multiply-add
  double l2_gbps = 0;      // reading 10^9 bytes per second from the second-level cache
  double l3_gbps = 0;      // from the third-level cache
  double memory_gbps = 0;  // from memory
};

// With vectors of the target's level. Measured when a level is first asked for, which takes some
// 0.1 s, and kept. Each is the best of several short runs, so that another program disturbs it
// little. Zeros: the machine cannot run the level.
const CpuRates& cpu_rates(const Target& target);

}  // namespace lssar
