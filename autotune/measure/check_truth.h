// The truth for checks: inputs, the expected outputs, and the errors of the plain kernel (default
// tiles; on a GPU the portable variant).
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
  ReferenceOutputs expected;  // with gradients, except for a plain forward
  // The lengths are too large for the float64 reference: `expected` is the plain kernel's output.
  bool is_plain = false;
  SavedTensors saved;  // by the plain forward for training; for a backward only
  // The plain kernels' error_beyond_floor; 0 with is_plain.
  std::map<OutputTensor, double> baseline;
  // With problem.invariant: the outputs of the default schedule. No schedule may change their bits.
  std::map<std::string, std::vector<std::byte>> by_default;
};

// The relative L2 error without the floor of the error rule. Gradients that cancel have a floor far
// above their own size. Infinities and NaN become the largest number, because a record's text
// cannot hold them.
double error_beyond_floor(const TensorError& error);

// The plain kernel's variant: "portable", or "cpu".
const char* plain_variant(const Target& target);

// Makes each truth once. The engine's device runs the plain kernels.
class TruthSource {
 public:
  explicit TruthSource(Engine& engine) : engine_(engine) {}

  // An error is not the candidate's fault. `problem` is the one that the candidate's kernel was
  // made for.
  Result<std::shared_ptr<const CheckTruth>> truth(const Problem& problem, const CheckCase& one);

  // What the plain forward for training saves.
  Result<SavedTensors> saved(const Problem& problem, const Sizes& sizes, const RandomInputs& inputs,
                             const SequenceLengths& lengths = {});

  // Gradients of q, k and v, which the plain backward makes from what a forward for training saved.
  Result<std::vector<std::vector<float>>> gradients(const Problem& problem, const Sizes& sizes,
                                                    const RandomInputs& inputs,
                                                    const SavedTensors& saved,
                                                    const SequenceLengths& lengths = {});

 private:
  Result<CheckCall> plain_call(const Problem& problem, Pass pass, const Sizes& sizes,
                               const SequenceLengths& lengths,
                               EpsilonFrom epsilon = EpsilonFrom::kX);
  Status add_by_default(const Problem& problem, const CheckCase& one, CheckTruth& truth);
  Result<std::shared_ptr<const CheckTruth>> make(const Problem& problem, const CheckCase& one);

  Engine& engine_;
  std::map<std::string, std::shared_ptr<const CheckTruth>> truths_;
};

// With more pairs of a query and a key in one head the reference takes too long.
inline constexpr double kMaxReferencePairs = double{1 << 20};

}  // namespace lssar
