// Seeded inputs for tests, `lssar verify` and benchmarks, rounded to the problem's dtype. Every
// x86-64 machine and every compiler gives the same numbers. No state: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"

namespace lssar {

// The distribution of q and k. v and grad_o are Gaussian.
enum class InputKind {
  kGauss,      // independent, standard deviation 1
  kPeaky,      // every query is near one key, three times as long
  kClustered,  // q and k point in a few directions: gradients cancel
  kOpposed,    // every query points away from every key: very negative scores
  kTies,       // all keys are equal: every row of more than 3 keys is dead
  kNearTies,   // keys differ but all scores are nearly 0: N P - b cancels
  kZeros,      // every third vector of q and k is 0
  kHuge,       // Gaussian times 10^4: only directions should matter
  kLocal,      // runs of 64 positions share a direction: most tiles have no weight
  kShifted,    // scores of a row lie between 3 and 3.5 bits, or between 10 and 10.5
};

// "gauss", "peaky", ...; an unknown name is an error that lists what is allowed.
const char* input_kind_name(InputKind kind);
Result<InputKind> parse_input_kind(const std::string& name);

// Contiguous tensors [batch, heads or kv_heads, length, dim].
struct RandomInputs {
  std::vector<float> q, k, v, grad_o;
  std::vector<float> sink = {};  // [heads], where the score function has one: not rounded
  // [seq_k, rotary_dim / 2], with the base 10000; empty without rotary positions
  std::vector<float> rotary_cos = {}, rotary_sin = {};
  std::vector<float> alibi_slopes = {};  // [heads], where the score function has alibi: not rounded
};

// A tensor depends only on the seed, the kind and its own shape (peaky: q also on k; shifted: on
// lengths and mask too), so forward and backward problems of one seed share q, k and v. REQUIRES:
// validate(problem).ok(), and sizes >= 0 that fit in memory.
RandomInputs random_inputs(const Problem& problem, const Sizes& sizes, InputKind kind,
                           uint64_t seed);

// Slopes of ALiBi from 1/256 to 1, in any order. Some are below 0, with which far keys weigh more.
std::vector<float> random_alibi_slopes(int64_t heads, uint64_t seed);

// `count` values of mean 0 and standard deviation 1, not rounded, for callers that need other
// shapes.
std::vector<float> random_gauss(uint64_t seed, size_t count);

}  // namespace lssar
