// What a CPU schedule's kernels do, and how long that takes on a CpuModel. docs/cost_model.md
// explains the terms. Used by cost_model.cpp. Threads: pure functions.
#pragma once

#include <array>

#include "autotune/model/cost_model.h"
#include "autotune/model/problem_figures.h"

namespace lssar {

// "products", "evaluation", "rows and panels", "instructions", "L2", "memory".
const char* cpu_resource_name(Resource resource);

// Amounts per millisecond of all threads, in the order of Resource: FLOP of products; vector
// instructions of evaluation, of rows and panels, and of loads and loops; bytes from the L2 and
// from behind it.
std::array<double, kNumResources> cpu_resource_rates(const CpuModel& cpu);

// REQUIRES: validate(schedule, problem, target).ok(); `parts` are those of the problem.
CostEstimate estimate_cpu(const Problem& problem, const CallParts& parts, const Schedule& schedule,
                          const Target& target, const CpuModel& cpu);

}  // namespace lssar
