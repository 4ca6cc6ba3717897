// Seeded inputs for tests, `lssar verify` and benchmarks: the same numbers on every x86-64 machine
// and with every compiler, already rounded to the problem's dtype. No state: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"

namespace lssar {

// What q and k look like; v and grad_o are Gaussian.
enum class InputKind {
  kGauss,      // independent, standard deviation 1
  kPeaky,      // every query points at one key, three times as long
  kClustered,  // q and k point in a few directions: gradients cancel
  kOpposed,    // every query points away from every key: very negative scores
  kTies,       // all keys equal: every row of more than 3 keys is dead
  kNearTies,   // all scores nearly 0, of different keys: N P - b cancels
  kZeros,      // every third vector of q and k is 0
  kHuge,       // Gaussian times 10^4: only directions matter
  kLocal,      // runs of 64 positions point in a direction of their own: most tiles have no weight
  kShifted,    // all scores of a row between 3 and 3.5 bits, in other rows between 10 and 10.5
};

// "gauss", "peaky", ...; an unknown name is an error that lists what is allowed.
const char* input_kind_name(InputKind kind);
Result<InputKind> parse_input_kind(const std::string& name);

// Contiguous [batch, heads or kv_heads, length, dim].
struct RandomInputs {
  std::vector<float> q, k, v, grad_o;
  std::vector<float> sink = {};  // [heads], where the score function has one: not rounded
};

// A tensor depends on the seed, the kind and its own shape (peaky: q on k too; shifted: on lengths
// and mask), so forward and backward problems of one seed share q, k and v.
// REQUIRES: validate(problem).ok() and sizes >= 0 that fit in memory.
RandomInputs random_inputs(const Problem& problem, const Sizes& sizes, InputKind kind,
                           uint64_t seed);

// For those who need other shapes: `count` values, mean 0 and standard deviation 1, not rounded.
std::vector<float> random_gauss(uint64_t seed, size_t count);

}  // namespace lssar
