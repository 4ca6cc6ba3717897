// How much work a call is. Threads: pure functions.
#pragma once

#include "codegen/problem.h"
#include "codegen/sizes.h"

namespace lssar {

// Pairs of a query and a key that it sees, of all heads and batch entries.
double count_scores(const Problem& problem, const Sizes& sizes);

// Multiply-adds of a call's matrix products. What a mask hides is not counted; windows are
// sampled.
double multiply_adds(const Problem& problem, const Sizes& sizes);

}  // namespace lssar
