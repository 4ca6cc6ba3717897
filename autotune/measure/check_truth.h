// The truth for checks: inputs, what they should give, and how well the plain kernel (portable,
// default tiles) does on them.
//
// Threads: one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "autotune/measure/check_call.h"
#include "autotune/measure/check_cases.h"
#include "reference/error_rule.h"
#include "reference/reference.h"

namespace lssar {

struct CheckTruth {
  RandomInputs inputs;
  ReferenceOutputs expected;  // gradients where the pass is not a plain forward
  // Lengths too large for the float64 reference: `expected` is what the plain kernel gave.
  bool is_plain = false;
  SavedTensors saved;  // by the plain forward for training; backward only
  // The plain kernels' error_beyond_floor; 0 with is_plain.
  std::map<OutputTensor, double> baseline;
};

// The relative L2 error that is left where the floor of the error rule is taken off: gradients that
// cancel have a floor far above their own size. For records, whose text knows no infinities and no
// NaN, these are the largest number there is.
double error_beyond_floor(const TensorError& error);

// Makes each truth once. The engine's device runs the plain kernels.
class TruthSource {
 public:
  explicit TruthSource(Engine& engine) : engine_(engine) {}

  // An error is not a candidate's. `problem` is as the candidate's kernel was made for.
  Result<std::shared_ptr<const CheckTruth>> truth(const Problem& problem, const CheckCase& one);

  // What the plain forward for training saves.
  Result<SavedTensors> saved(const Problem& problem, const Sizes& sizes,
                             const RandomInputs& inputs);

  // Gradients from what a forward for training saved, by the plain backward: q, k, v in order.
  Result<std::vector<std::vector<float>>> gradients(const Problem& problem, const Sizes& sizes,
                                                    const RandomInputs& inputs,
                                                    const SavedTensors& saved);

 private:
  Result<CheckCall> plain_call(const Problem& problem, Pass pass, const Sizes& sizes,
                               EpsilonFrom epsilon = EpsilonFrom::kX);
  Result<std::shared_ptr<const CheckTruth>> make(const Problem& problem, const CheckCase& one);

  Engine& engine_;
  std::map<std::string, std::shared_ptr<const CheckTruth>> truths_;
};

// Pairs of a query and a key of one head beyond which the reference takes too long.
inline constexpr double kMaxReferencePairs = double{1 << 20};

}  // namespace lssar
