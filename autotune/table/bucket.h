// Bucket: the problems that share a tuned schedule. Plain, comparable, JSON both ways.
//
// What changes which schedule is best and cannot be rounded (pass, dtype, head dims, p, ...) is
// exact; lengths and the number of heads at work are rounded to powers of two.
// Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/determinism.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"

namespace lssar {

// What a length that the problem leaves open is taken for.
inline constexpr int64_t kTypicalLength = 4096;

struct Bucket {
  Pass pass = Pass::kForward;
  DType dtype = DType::kBf16;
  int head_dim = 64;
  int head_dim_v = 64;
  bool causal = true;
  int p = 15;
  bool has_offset = true;      // offset != 0 and p != 0
  int alignment = 16;          // 16, or the element's size for all below
  int64_t gqa_ratio = 1;       // heads / kv_heads
  bool fixed_lengths = false;  // kernels are specialised for both lengths
  Determinism determinism =
      Determinism::kRepeatable;  // of the backward; no other pass has a choice

  // Powers of two nearest to the length (by its logarithm, up in a tie); 0 = not known.
  int64_t seq_q = 0;
  int64_t seq_k = 0;
  int64_t slices = 0;  // batch * heads, likewise

  bool operator==(const Bucket&) const = default;
};

// The power of two nearest to `n` by logarithm; 0 for n <= 0.
int64_t length_bucket(int64_t n);

// REQUIRES: validate(problem).ok(). A size of 0 in `sizes` is not known.
Bucket bucket_of(const Problem& problem, const Sizes& sizes, Determinism determinism);

// Whether the two differ in nothing but seq_q, seq_k and slices.
bool same_but_sizes(const Bucket& a, const Bucket& b);

// How far apart the sizes are: sum of |log2| differences, slices counted half. Sizes of 0 are taken
// as 4096 long and 64 slices.
double size_distance(const Bucket& a, const Bucket& b);

// The largest of |log2| of either length's ratio, and of half that of the slices where both are
// known: plans for any batch take what was tuned for one.
double widest_size_gap(const Bucket& a, const Bucket& b);

// "forward causal bf16 d 64 dv 64 p 15 gqa 1 seq 4096x4096 slices 64 repeatable".
std::string to_string(const Bucket& bucket);
nlohmann::json to_json(const Bucket& bucket);
// Every field must be there; errors name the field.
Result<Bucket> bucket_from_json(const nlohmann::json& json);

}  // namespace lssar
