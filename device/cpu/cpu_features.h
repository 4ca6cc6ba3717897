// What the machine's CPU can run: which x86-64 level, under which name, with which caches.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "codegen/target.h"

namespace lssar {

struct CpuFeatures {
  std::string name;      // "AMD EPYC 7543 32-Core Processor"
  std::string level;     // the highest of cpu_levels() that it runs; "" for none
  int64_t l2_bytes = 0;  // of a core; 0 = not known
};

// Found once and kept. CPU and operating system must both know a level's registers.
const CpuFeatures& cpu_features();

// The target of this name, or without a name the machine's highest level. kUnsupported where the
// machine has none, or where it lacks instructions of the one that is named; kInvalidArgument where
// the name is not a CPU's.
Result<Target> cpu_target_for(const std::string& name, const CpuFeatures& features);

}  // namespace lssar
