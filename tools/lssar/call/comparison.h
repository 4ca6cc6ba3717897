// Results against the float64 reference, and how that is shown: what `lssar verify` and `lssar
// replay` share.
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

// A result, and what of the reference it should be.
struct CheckedTensor {
  OutputTensor tensor;
  std::string name;  // for people: "o", "saved_o"
  const std::vector<float>& values;
};

// One line of the table: a result, what it should be, and what it may be off by.
struct Comparison {
  std::string name;
  std::vector<int64_t> shape;
  TensorError error;
};

// For the reference; grad_o for a backward only.
ReferenceInputs reference_inputs(const Problem& problem, const AttentionInputs& inputs);

// reference_attention, which says before that it takes long where it does, and shows how far it is;
// nothing where `quiet`.
Result<ReferenceOutputs> checked_reference(const Problem& problem, const Sizes& sizes,
                                           const AttentionInputs& inputs, bool quiet);

std::vector<Comparison> compare_all(const Problem& problem, const Sizes& sizes,
                                    const std::vector<CheckedTensor>& tensors,
                                    const ReferenceOutputs& reference);

bool all_passed(const std::vector<Comparison>& all);

// "correct", "WRONG NUMBERS", or which results the dtype cannot hold, where the rest is correct.
std::string verdict_on(const Problem& problem, const std::vector<Comparison>& all);

void print_comparisons(const std::vector<Comparison>& all);
nlohmann::json to_json(const std::vector<Comparison>& all);

}  // namespace lssar::command
