// The constants of the cost model that measured times can correct, by the names that
// docs/cost_model.md has for them. Threads: plain values.
#pragma once

#include <string>

#include "autotune/model/gpu_model.h"

namespace lssar::probe {

struct ModelConstant {
  const char* name;
  double (*get)(const GpuModel& gpu);
  void (*set)(GpuModel& gpu, double value);
};

// Null: there is none of that name.
const ModelConstant* find_constant(const std::string& name);
// "block_clocks, cluster_wait, ...", for errors.
std::string constant_names();

}  // namespace lssar::probe
