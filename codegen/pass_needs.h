// What a pass of a problem needs besides its tensors, by problem and schedule. Threads: pure
// functions.
#pragma once

#include "codegen/problem.h"
#include "codegen/schedule.h"

namespace lssar {

// Whether blocks of a persistent kernel take their work tiles from a counter
// (AttentionParams::tickets).
bool takes_tickets(const Problem& problem, const Schedule& schedule);

// Whether the backward needs epsilon, which else is 0: re-weighting with an offset.
bool needs_epsilon(const Problem& problem);
// Whether X is saved for it: summed up by the forward for training, read by the backward.
bool saves_x(const Problem& problem, const Schedule& schedule);
// Whether the pass is the forward for training, and sums up X.
bool sums_x(const Problem& problem, const Schedule& schedule);

// Whether kernels may take cheaper forms of softplus than the full one (HopperOptions::evaluator).
// Portable ones have that one only: their time goes into loads and products. At p = 1 (and 0)
// neither gradients nor a forward that sums up X may take them. X (docs/math.md), of which the
// backward makes epsilon, is a sum of U^(p-1) v. U^(p-1) jumps at U = 0, so any error moves scores
// over that edge.
bool may_abridge_softplus(const Problem& problem, const Schedule& schedule);

}  // namespace lssar
