// Describes the machine's CPU: its x86-64 level, its name and its caches. Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "codegen/target.h"

namespace lssar {

struct CpuFeatures {
  std::string name;      // "AMD EPYC 7543 32-Core Processor"
  std::string level;     // the highest of cpu_levels() that it runs; "" for none
  // Sizes of caches. 0 = not known.
  int64_t l1_bytes = 0, l2_bytes = 0;  // of one core
  int64_t l3_bytes = 0;                // of the cores that share one
};

// Found once and kept. A level counts only if the CPU and the operating system both support its
// registers.
const CpuFeatures& cpu_features();

// The target of this name, or the machine's highest level if the name is empty. kUnsupported: the
// machine has no level, or lacks instructions of the named one. kInvalidArgument: the name is not
// that of a CPU target.
Result<Target> cpu_target_for(const std::string& name, const CpuFeatures& features);

}  // namespace lssar
