// CpuModel: what a CPU can do, for the cost model. Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "codegen/target.h"
#include "device/cpu/cpu_rates.h"

namespace lssar {

struct CpuModel {
  std::string name;
  std::string target;
  int num_threads = 1;
  int lanes = 8;             // floats of a vector
  bool is_measured = false;  // rates and caches are this machine's; otherwise a typical CPU's
  std::string scaled_from;   // the level whose rates were measured, if it is another one; or ""
  CpuRates rates;            // of one core
  int64_t l1_bytes = 0, l2_bytes = 0;  // of one core
  int64_t l3_bytes = 0;                // of all cores together
};

// A usual CPU of the target: constants, the same on every machine.
// REQUIRES: target.is_cpu(), num_threads > 0.
CpuModel typical_cpu_model(const Target& target, const std::string& name, int num_threads);

// The same with this machine's rates and caches, which are measured and read. For a level that the
// machine cannot run: its widest level's rates, scaled by the lanes. Without a level: a typical
// CPU's.
CpuModel measured_cpu_model(const Target& target, int num_threads);

nlohmann::json to_json(const CpuModel& cpu);

}  // namespace lssar
