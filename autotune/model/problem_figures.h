// What the estimates of one problem's schedules have in common: loops over blocks and rows, and
// chains of multiplications. These would take many times as long as the rest of an estimate, so
// each figure is computed once, when it is first needed.
//
// Used by the cost model. Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "autotune/model/expression_cost.h"
#include "autotune/model/kernel_work.h"
#include "autotune/table/sequence_lengths.h"

namespace lssar {

// A function's values by its arguments, which are packed in one word. There are a few dozen at
// most.
template <typename Value>
class Memo {
 public:
  template <typename Make>
  Value get(uint64_t key, const Make& make) {
    const auto found = std::find(keys_.begin(), keys_.end(), key);
    const auto idx = static_cast<size_t>(found - keys_.begin());
    if (found == keys_.end()) {
      keys_.push_back(key);
      values_.push_back(make());
    }
    return values_[idx];
  }

 private:
  std::vector<uint64_t> keys_;  // apart from the values, because lookups search only these
  std::vector<Value> values_;
};

class ProblemFigures {
 public:
  // `problem` and `sizes` are kept by reference.
  ProblemFigures(const Problem& problem, const Sizes& sizes);

  // Multiplications of the shortest chain for u^power; 0 for a power below 1. REQUIRES: power is p
  // or p - 1.
  double multiplications(int power) const { return multiplications_[power == problem_.p ? 0 : 1]; }

  // REQUIRES: is_general of the problem.
  const FunctionCosts& functions() const { return functions_; }

  // As the functions of kernel_work.h.
  TileCount query_tiles(int rows, int cols);
  TileCount packed_query_tiles(int packed_rows, int rows, int cols);
  TileCount key_tiles(int rows, int cols);
  EvaluatorMix evaluator_mix(const Schedule& schedule);

 private:
  const Problem& problem_;
  const Sizes& sizes_;
  std::array<double, 2> multiplications_;
  FunctionCosts functions_;
  Memo<TileCount> query_tiles_, packed_query_tiles_, key_tiles_;
  Memo<EvaluatorMix> mixes_;
};

// A part of a call, as a batch: all of a call without sequences, or those sequences of a call that
// have the same lengths. An estimate adds up the work of a call's parts.
struct CallPart {
  const Sizes sizes;
  ProblemFigures figures;

  // `problem` is kept by reference.
  CallPart(const Problem& problem, const Sizes& s) : sizes(s), figures(problem, sizes) {}
  CallPart(const CallPart&) = delete;
  CallPart& operator=(const CallPart&) = delete;
};
using CallParts = std::vector<std::unique_ptr<CallPart>>;

// The parts of a call of `sizes`. `lengths` are those of a problem with varlen; none: even_lengths.
// Many lengths become a few parts, each with the mean lengths of sequences of about the same work.
CallParts parts_of_call(const Problem& problem, const Sizes& sizes, const SequenceLengths& lengths);

}  // namespace lssar
