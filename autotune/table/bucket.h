// Bucket: the problems that share a tuned schedule. Plain, comparable, JSON both ways.
//
// What changes the best schedule and cannot be rounded (pass, dtype, head dims, p, ...) is exact.
// Lengths and the number of heads at work are rounded to powers of two. Threads: plain values and
// pure functions.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/determinism.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"

namespace lssar {

// The length that stands for one that the problem leaves open.
inline constexpr int64_t kTypicalLength = 4096;

// Which keys rows see; by default all. The fields are those of Problem with the same names. Beside
// another limit, a causal mask is a window_right of 0.
struct BucketWindow {
  int64_t window_left = -1, window_right = -1;
  int64_t window_sinks = 0, prefix = 0, chunk = 0;

  bool operator==(const BucketWindow&) const = default;
};

struct Bucket {
  Pass pass = Pass::kForward;
  DType dtype = DType::kBf16;
  int head_dim = 64;
  int head_dim_v = 64;
  bool causal = true;
  BucketWindow window;
  int p = 15;
  bool has_offset = true;      // offset != 0 and p != 0
  ScoreFunction score;
  int alignment = 16;          // 16; for anything less, the element's size
  int64_t gqa_ratio = 1;       // heads / kv_heads
  bool fixed_lengths = false;  // kernels are made for both lengths
  Determinism determinism =
      Determinism::kRepeatable;  // of the backward; other passes have no choice
  bool varlen = false;           // sequences of their own lengths
  bool rotary = false;           // q and k are turned first, however many columns of them
  bool invariant = false;

  // With varlen the lengths are the longest, and a batch entry is a sequence.
  // The powers of two nearest to the lengths (by logarithm; a tie rounds up); 0 = not known. From
  // 17 queries on at least 32.
  int64_t seq_q = 0;
  int64_t seq_k = 0;
  int64_t slices = 0;  // batch * heads, likewise

  bool operator==(const Bucket&) const = default;
};

// The power of two nearest to `n` by logarithm; 0 for n <= 0.
int64_t length_bucket(int64_t n);

// REQUIRES: validate(problem).ok(). A size of 0 in `sizes` is not known.
Bucket bucket_of(const Problem& problem, const Sizes& sizes, Determinism determinism);

// What a problem may have and a record of another bucket may lack. A record that lacks some of it
// is near to the problem: its schedule is right wherever it is legal. The larger the number, the
// more a schedule depends on it.
enum class Feature : unsigned { kRotary = 1, kInvariant = 2, kVarlen = 4, kWindow = 8 };

// The features that `bucket` has and `its` does not; as a sum of Feature.
unsigned lacking(const Bucket& its, const Bucket& bucket);
// "the window, varlen": names of the features in a sum.
std::string feature_names(unsigned features);
// The bucket without these features.
Bucket without(Bucket bucket, unsigned features);

// Whether the two differ only in seq_q, seq_k and slices.
bool same_but_sizes(const Bucket& a, const Bucket& b);

// How far apart the sizes are: the sum of |log2| differences; slices count half. A size of 0 is
// taken as length 4096, or as 64 slices.
double size_distance(const Bucket& a, const Bucket& b);

// The largest of |log2| of either length's ratio, and half that of the slices if both are known. So
// plans for any batch use what was tuned for one. With varlen only lengths count, because a plan
// knows neither the lengths of its calls nor how many sequences they have. A length that is not
// known is near to every other, except to that of few queries.
double widest_size_gap(const Bucket& a, const Bucket& b);

// "forward causal bf16 d 64 dv 64 p 15 gqa 1 seq 4096x4096 slices 64 repeatable".
std::string to_string(const Bucket& bucket);
nlohmann::json to_json(const Bucket& bucket);
// Every field must be there, except for the score, the window and the three features, which are the
// defaults if they are missing. Errors name the field.
Result<Bucket> bucket_from_json(const nlohmann::json& json);

}  // namespace lssar
