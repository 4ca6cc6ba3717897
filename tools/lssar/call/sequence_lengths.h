// Sequences of their own lengths, packed one after another: --lengths of `lssar verify` and
// `lssar tune`, and --cu-seqlens of `lssar run`.
// Threads: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "autotune/table/sequence_lengths.h"
#include "base/status.h"
#include "codegen/problem.h"
#include "runtime/sequences.h"
#include "tools/lssar/call/attention_run.h"

namespace lssar::command {

// The lengths of a call. Tensors hold all sequences as one batch entry.
struct PackedSequences {
  std::vector<int32_t> cu_seqlens_q, cu_seqlens_k;  // [sequences + 1]
  int64_t heads = 1, kv_heads = 1;

  int64_t count() const { return static_cast<int64_t>(cu_seqlens_q.size()) - 1; }
  Sizes tensors() const;               // of all rows, as one batch entry
  Sizes of_sequence(int64_t b) const;  // as a call of its own
  SequencesOfCall call() const;        // refers to this
  SequenceLengths lengths() const;

  // The part of sequence b. Sinks and slopes are shared. Tables of angles have a row for each of
  // its keys, from position 0 on.
  AttentionInputs inputs(int64_t b, const Problem& problem, const AttentionInputs& all) const;
  AttentionOutputs outputs(int64_t b, const Problem& problem, const AttentionOutputs& all) const;
};

class LengthsOption {
 public:
  void add_to(CLI::App& app);
  bool is_given() const { return text_.has_value(); }
  // REQUIRES: is_given(). kInvalidArgument: a text that is not a length, or a problem that fixes
  // lengths or a batch.
  Result<PackedSequences> sequences(const Problem& problem) const;

 private:
  std::optional<std::string> text_;
};

// --cu-seqlens, --cu-seqlens-k.
class CuSeqlensFiles {
 public:
  // The option --cu-seqlens.
  CLI::Option* add_to(CLI::App& app);
  bool is_given() const { return !q_.empty(); }
  // `sizes`: of tensors that hold all rows as one batch entry. REQUIRES: is_given().
  // kInvalidArgument: numbers that are no beginnings of sequences, or that leave out rows.
  Result<PackedSequences> read(const Sizes& sizes) const;

 private:
  std::string q_, k_;
};

}  // namespace lssar::command
