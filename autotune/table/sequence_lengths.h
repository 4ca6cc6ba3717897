// SequenceLengths: the queries and keys of each sequence of a call (Problem::varlen), as the tuner
// measures them. Plain, comparable, JSON both ways. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"

namespace lssar {

// Empty: the call has no sequences.
struct SequenceLengths {
  std::vector<int64_t> q, k;  // as many of each

  bool empty() const { return q.empty(); }
  int64_t count() const { return static_cast<int64_t>(q.size()); }
  int64_t total_q() const;
  int64_t total_k() const;
  void add(int64_t queries, int64_t keys) {
    q.push_back(queries);
    k.push_back(keys);
  }

  bool operator==(const SequenceLengths&) const = default;
};

// What stands for lengths that nobody gave: sizes.batch sequences, the longest as long as `sizes`
// says, the others evenly shorter. Empty for a problem without varlen.
SequenceLengths even_lengths(const Problem& problem, const Sizes& sizes);

// The sizes of a call with these sequences: their number, and the longest lengths.
Sizes sizes_of_call(const SequenceLengths& lengths, int64_t heads, int64_t kv_heads);
// The sizes of tensors that hold all of them, packed as one batch entry. Without lengths: `call`.
Sizes sizes_of_packed(const SequenceLengths& lengths, const Sizes& call);
// The sizes of a call of sequence b alone.
Sizes sizes_of_sequence(const SequenceLengths& lengths, size_t b, const Sizes& call);

// "5,0,300", or "5:7,0:3,300:300" where a sequence has another number of keys: as --lengths of the
// command.
std::string to_string(const SequenceLengths& lengths);

// The most sequences of a call that is measured, because its record lists them.
inline constexpr int64_t kMostSequences = 1 << 20;

// kInvalidArgument: lengths without varlen or varlen without lengths; more than kMostSequences; a
// length below 0; more than 2^31 - 1 queries or keys in all; sizes of another call; with rotary
// positions more queries than keys.
Status check_lengths(const Problem& problem, const Sizes& sizes, const SequenceLengths& lengths);

nlohmann::json to_json(const SequenceLengths& lengths);
// `where` names the object in errors.
Result<SequenceLengths> lengths_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace lssar
