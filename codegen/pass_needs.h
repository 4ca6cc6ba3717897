// What a pass of a problem needs besides its tensors, by problem and schedule. Threads: pure
// functions.
#pragma once

#include <optional>

#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "score/properties.h"

namespace lssar {

// Whether the kernels are those made from the score function's expressions. LSSAR's own score
// function has kernels made for it, up to kMaxPowerOfOwnKernels.
bool is_general(const Problem& problem);
inline constexpr int kMaxPowerOfOwnKernels = 64;

// phi where it is C exp(lambda x) over a sum: the row's largest score is then taken out.
std::optional<Exponential> exponential_of(const Problem& problem);
// The sign of the activations of exponential_of: over a plain sum it cancels.
double phi_sign(const Problem& problem);
// LSSA is LSSAR with p = 1 and no offset: W = U = N P, so M = P and the second stage does nothing;
// gradients agree too (docs/math.md).
int effective_power(const Problem& problem);
double effective_offset(const Problem& problem);

// Whether one fma scales and shifts scores. The largest score must then come from the largest
// product, so the scale is positive and the same for all keys (no norms) and rows. Not with a
// second stage, whose weights would show that the largest activation is not quite 1, and not where
// scores change between their scale and their shift.
bool fuses_scale(const Problem& problem);
// Whether a row's r is the sum of weights by which o is divided in any case. Hopper forwards of an
// exponential have few instructions per score, and each further sum would be one more.
bool divisor_is_sum(const Problem& problem, const Schedule& schedule);
// Whether weights may be any number, and need a scale to be fp16.
bool scales_weights(const Problem& problem);

// Whether a call of the pass has the sinks' logits (AttentionParams::sink).
bool reads_sink(const Problem& problem);
// Whether a call has the heads' slopes.
bool reads_alibi(const Problem& problem);
// Whether a call may bring new keys and values, which are written into k and v.
bool takes_new_keys(const Problem& problem);
// Whether a call may have norms of keys that are kept beside the cache. Not with rotary positions,
// because kernels take the norms of turned keys, whose bits differ.
bool keeps_key_norms(const Problem& problem);
// Whether scores are more than scaled products and a bias of the row: with a soft cap, or ALiBi.
bool changes_scores(const Problem& problem);

// Whether the kernel runs a pass over the keys before it forms weights, because the weights depend
// on all keys. For ranges of keys, row sums are that pass.
bool has_pass_one(const Problem& problem);

// Whether blocks of a persistent kernel draw their work tiles by tickets
// (AttentionParams::tickets).
bool takes_tickets(const Problem& problem, const Schedule& schedule);

// Whether the backward needs an epsilon that is not known without the keys. LSSAR: re-weighting
// with an offset does; else it is 0. In general, where r is a sum: re-weighting with an offset, and
// psi.
bool needs_epsilon(const Problem& problem);
// Whether X is saved for epsilon: the forward for training sums it up, and the backward reads it.
bool saves_x(const Problem& problem, const Schedule& schedule);
// Whether the forward for training saves what rounding takes from o, for the backward to add to o.
// In fp32 o is not rounded.
bool saves_o(const Problem& problem);
// Whether the pass is the forward for training, and sums up X.
bool sums_x(const Problem& problem, const Schedule& schedule);

// Whether kernels may take cheaper forms of softplus than the full one (HopperOptions::evaluator).
// Those of expressions (is_general) have none.
// Portable kernels have only the full one, because their time goes into loads and products. At p =
// 1 (and 0) neither gradients nor a forward that sums up X may take them. The backward computes
// epsilon from X (docs/math.md), a sum of U^(p-1) v, and U^(p-1) jumps at U = 0 then. So any error
// moves scores over that edge.
bool may_abridge_softplus(const Problem& problem, const Schedule& schedule);

}  // namespace lssar
