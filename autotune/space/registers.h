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
// Rounded weights count where a product reads them beside the next scores.
int forward_accumulators(const Problem& problem, const Schedule& schedule);
int dkdv_accumulators(const Problem& problem, const Schedule& schedule);
int dq_accumulators(const Problem& problem, const Schedule& schedule);
int epsilon_accumulators(const Schedule& schedule);

// Registers that a Hopper kernel needs beside these, for addresses and row statistics: with more
// accumulators than they leave, ptxas 13.0 spills (tests/autotune/registers_test.cpp).
inline constexpr int kHopperDkdvOthers = 32, kHopperDqOthers = 56;
inline constexpr int kHopperGeneralOthers = 36;  // the forward of expressions
int hopper_forward_others(const Problem& problem, const Schedule& schedule);

}  // namespace lssar
