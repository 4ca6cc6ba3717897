// Compares results with the float64 reference and shows it: what `lssar verify` and `lssar replay`
// share.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "codegen/sizes.h"
#include "reference/error_rule.h"
#include "reference/reference.h"
#include "tools/lssar/call/attention_run.h"

namespace lssar::command {

// A result, and which tensor of the reference it is compared with.
struct CheckedTensor {
  OutputTensor tensor;
  std::string name;  // as shown: "o", "saved_o"
  std::vector<float> values;
};

// One line of the table: a result, its expected value, and the error that it may have.
struct Comparison {
  std::string name;
  std::vector<int64_t> shape;
  TensorError error;
};

// For the reference; grad_o for a backward only.
ReferenceInputs reference_inputs(const Problem& problem, const AttentionInputs& inputs);

// reference_attention. Unless `quiet`, says beforehand if it will take long, and shows its
// progress.
Result<ReferenceOutputs> checked_reference(const Problem& problem, const Sizes& sizes,
                                           const AttentionInputs& inputs, bool quiet);

std::vector<Comparison> compare_all(const Problem& problem, const Sizes& sizes,
                                    const std::vector<CheckedTensor>& tensors,
                                    const ReferenceOutputs& reference);

bool all_passed(const std::vector<Comparison>& all);

// "correct", "WRONG NUMBERS", or, if the rest is correct, which results the dtype cannot hold.
std::string verdict_on(const Problem& problem, const std::vector<Comparison>& all);

void print_comparisons(const std::vector<Comparison>& all);
nlohmann::json to_json(const std::vector<Comparison>& all);

}  // namespace lssar::command
