// --seed and --data: the random inputs of a call.
//
// Threads: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/status.h"
#include "codegen/problem.h"
#include "reference/random_inputs.h"
#include "tools/lssar/call/attention_run.h"

namespace lssar::command {

class DataOptions {
 public:
  void add_to(CLI::App& app);

  // Whether one of them was given.
  bool is_given() const;
  bool has_kind() const { return data_.has_value(); }
  uint64_t seed(uint64_t otherwise = 1) const { return seed_.value_or(otherwise); }
  Result<InputKind> kind(const std::string& otherwise = "gauss") const {
    return parse_input_kind(data_.value_or(otherwise));
  }

  Result<AttentionInputs> inputs(const Problem& problem, const Sizes& sizes) const;

 private:
  std::optional<uint64_t> seed_;
  std::optional<std::string> data_;
};

}  // namespace lssar::command
