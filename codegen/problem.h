// Problem: what is computed. Plain, comparable, printable, JSON both ways.
//
// A problem holds everything that decides the numbers, and everything that a kernel may be
// specialised for. How a kernel computes them is the schedule's business. Formulas and names are
// those of docs/math.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "score/score_function.h"

namespace lssar {

enum class Pass {
  kForward,
  kForwardTrain,
  kBackward,
  // The two passes of the forward alone, over a range of all keys (Sizes::range).
  kRowSums,      // R and the largest score
  kWeightedSum,  // from merged row sums: the weighted sum of v, and of the weights
};

inline constexpr Pass kAllPasses[] = {Pass::kForward, Pass::kForwardTrain, Pass::kBackward,
                                      Pass::kRowSums, Pass::kWeightedSum};

// Whether the pass takes a range of keys.
constexpr bool is_of_range(Pass pass) {
  return pass == Pass::kRowSums || pass == Pass::kWeightedSum;
}

enum class DType { kFp16, kBf16, kFp32 };

// The Problem::alignment that 16-byte copies need.
inline constexpr int kFastAlignment = 16;

struct Problem {
  Pass pass = Pass::kForward;
  DType dtype = DType::kBf16;

  int head_dim = 64;    // d of q and k: a multiple of 8, 8 to 256
  int head_dim_v = 64;  // dv of v and o: a multiple of 8, 8 to 256

  // Lengths for which a kernel is specialised, up to 2^31 - 1. 0 = given at run time, when 0 keys
  // or 0 queries are allowed too. With varlen the most that a sequence may have; 0: any number.
  int64_t seq_q = 0;
  int64_t seq_k = 0;

  // Not built into kernels. batch >= 0; kv_heads >= 1 divides heads (GQA, MQA).
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;

  // Sequences that have lengths of their own, which a call gives. Not for passes of ranges.
  bool varlen = false;

  bool causal = false;  // bottom-right: row i sees keys j < clamp(i + 1 + seq_k - seq_q, 0, seq_k)

  // Windows (codegen/visible_keys.h). Row i stands at position i + seq_k - seq_q among the keys.
  int64_t window_left = -1;   // keys that it sees before its position; -1: all
  int64_t window_right = -1;  // and after it; -1: all. `causal` allows none.
  int64_t window_sinks = 0;   // the first keys, which neither window_left nor chunk hides
  int64_t prefix = 0;         // the first keys, which every row sees
  int64_t chunk = 0;          // rows see keys of their own chunk of this length; 0: no chunks

  // Rotary positions (docs/rotary.md): a call turns the first rotary_dim columns of q and k, in
  // pairs (c, c + rotary_dim / 2), or (2c, 2c + 1) if interleaved. Query i stands at position
  // i + seq_k - seq_q, key j at position j. Not for passes of ranges.
  int rotary_dim = 0;  // even, 2 to head_dim; 0: no rotation
  bool rotary_interleaved = false;

  // A row's result has the same bits whatever else the call computes (docs/invariance.md). Not for
  // passes of ranges, and not with the variant hopper.
  bool invariant = false;

  int p = 15;           // power of the re-weighting, 1 to 1024; 0 = none (LSSA)
  double offset = 1.0;  // b, finite, >= 0; has no effect if p = 0

  // In bytes: divides every pointer and every stride that the kernel will get. 16 allows copies of
  // 16 bytes at a time. The smallest allowed value is the element size.
  int alignment = 16;

  ScoreFunction score;

  bool operator==(const Problem&) const = default;
};

// Lengths that are built into the problem's kernels; 0: given at run time.
inline int64_t built_in_seq_q(const Problem& problem) {
  return problem.varlen ? 0 : problem.seq_q;
}
inline int64_t built_in_seq_k(const Problem& problem) {
  return problem.varlen ? 0 : problem.seq_k;
}

int dtype_bytes(DType dtype);

// "forward", "forward-train", "backward"; "fp16", "bf16", "fp32"; and the inverse. Errors about
// unknown names list what is allowed.
const char* pass_name(Pass pass);
const char* dtype_name(DType dtype);
Result<Pass> parse_pass(const std::string& name);
Result<DType> parse_dtype(const std::string& name);

// A field's allowed values, for errors: "multiples of 8 from 8 to 256". Empty if there is no such
// field.
std::string allowed_values(std::string_view field);

// kInvalidArgument names the field, its value and what is allowed.
Status validate(const Problem& problem);

// One line: "forward causal bf16 d 64 dv 64 p 15 offset 1 seq 512x512 batch 1 heads 4/4".
std::string to_string(const Problem& problem);

// Writes fields under the names that they have here, and enumerators by their names ("bf16",
// "softplus", ...). Fields of windows, of rotary positions and `invariant` are left out
// where they have their defaults.
nlohmann::json to_json(const Problem& problem);

// Missing fields keep their defaults. But a missing head_dim_v, seq_k or kv_heads takes a given
// head_dim, seq_q or heads; with varlen a missing seq_k stays 0. An unknown field, a wrong type or
// an unknown name is an error that names it. The result is validated.
Result<Problem> problem_from_json(const nlohmann::json& json);

}  // namespace lssar
