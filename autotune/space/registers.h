// Registers that a schedule's kernels need and have, as far as that follows from their tiles.
//
// Used by the rules of the search space and by the cost model. Threads: pure functions.
#pragma once

#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

// What one thread that multiplies may have (Hopper: a consumer's).
int thread_registers(const Schedule& schedule, const Tiling& tiling, const Target& target);

// Accumulators (and queries in registers) that are live together where most are, per thread. Each
// kernel needs more beside them: addresses, row statistics, rounded weights.
int forward_accumulators(const Problem& problem, const Schedule& schedule);
int dkdv_accumulators(const Problem& problem, const Schedule& schedule);
int dq_accumulators(const Problem& problem, const Schedule& schedule);
int epsilon_accumulators(const Schedule& schedule);

}  // namespace lssar
