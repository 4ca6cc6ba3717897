// Registers that a schedule's kernels need and have, as far as their tiles determine it.
//
// Used by the rules of the search space and by the cost model. Threads: pure functions.
#pragma once

#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

// The registers that a multiplying thread may have (Hopper: a consumer's).
int thread_registers(const Schedule& schedule, const Tiling& tiling, const Target& target);

// Per thread, the largest number of accumulators (and queries in registers) that are live together.
// Each kernel needs more registers besides: for addresses, row statistics, rounded weights.
int forward_accumulators(const Problem& problem, const Schedule& schedule);
int dkdv_accumulators(const Problem& problem, const Schedule& schedule);
int dq_accumulators(const Problem& problem, const Schedule& schedule);
int epsilon_accumulators(const Schedule& schedule);

}  // namespace lssar
