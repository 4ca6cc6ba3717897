// What a pass of a problem needs besides its tensors, by problem and schedule. Threads: pure
// functions.
#pragma once

#include "codegen/problem.h"
#include "codegen/schedule.h"

namespace lssar {

// Whether blocks of a persistent kernel draw their work tiles by tickets
// (AttentionParams::tickets).
bool takes_tickets(const Problem& problem, const Schedule& schedule);

// Whether the backward needs epsilon: only re-weighting with an offset does; else it is 0.
bool needs_epsilon(const Problem& problem);
// Whether X is saved for epsilon: the forward for training sums it up, and the backward reads it.
bool saves_x(const Problem& problem, const Schedule& schedule);
// Whether the pass is the forward for training, and sums up X.
bool sums_x(const Problem& problem, const Schedule& schedule);

// Whether kernels may take cheaper forms of softplus than the full one (HopperOptions::evaluator).
// Portable kernels have only the full one, because their time goes into loads and products. At p =
// 1 (and 0) neither gradients nor a forward that sums up X may take them. The backward computes
// epsilon from X (docs/math.md), a sum of U^(p-1) v, and U^(p-1) jumps at U = 0 then. So any error
// moves scores over that edge.
bool may_abridge_softplus(const Problem& problem, const Schedule& schedule);

}  // namespace lssar
