// The options that describe a problem, and those that say how it runs; the same in every
// subcommand. Each subcommand adds the groups it needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"
#include "runtime/engine.h"

namespace lssar::command {

// What the user wrote. A field that was not given comes from --problem, else from Problem's
// defaults.
class ProblemOptions {
 public:
  // `takes_ranges`: whether the subcommand takes the passes over ranges of keys, which only a
  // program can call.
  void add_to(CLI::App& app, bool takes_ranges = true);

  // Whether any of them was given.
  bool is_given() const;

  // The problem as described, validated. Lengths that were not given are run-time lengths (0).
  Result<Problem> problem() const;

  // For `run`: sizes and head dims come from the files. An option that disagrees with them is an
  // error that names both; so is a field of --problem. With varlen lengths are those stated there.
  Result<Problem> problem_of_files(const Sizes& sizes, int head_dim, int head_dim_v) const;

  // The same for sequences of their own lengths. The lengths of the longest ones are stated, unless
  // the problem has varlen and so says what is stated, or --runtime-lengths leaves them open.
  Problem of_sequences(const Problem& problem, const Sizes& longest) const;

  // The sizes one call has. Errors: a length that is needed and was not given.
  Result<Sizes> sizes() const;
  // The sizes to choose a schedule by. If the problem's lengths are given, those of one call; else
  // typical_sizes (autotune/search/tuner.h), as `lssar tune` takes them.
  Sizes sizes_to_choose_by(const Problem& problem) const;

 private:
  void open_lengths(Problem* problem) const;
  // --window L,R
  Status read_window(const std::string& text);
  // Options, then the file, then defaults; not validated. `file` gets the content of --problem.
  Result<Problem> described(nlohmann::json* file) const;

  bool takes_ranges_ = true;
  std::string problem_file_;
  std::optional<std::string> pass_, dtype_, score_;
  std::optional<int> head_dim_, head_dim_v_, p_, alignment_, rotary_dim_;
  std::optional<int64_t> seq_q_, seq_k_, batch_, heads_, kv_heads_;
  std::optional<int64_t> window_left_, window_right_, window_sinks_, prefix_, chunk_;
  std::optional<double> offset_;
  bool causal_ = false, no_causal_ = false;  // at most one of them
  bool rotary_interleaved_ = false;
  bool varlen_ = false;
  bool invariant_ = false;
  // "q", "k", "both"; "": the lengths decide.
  std::string runtime_lengths_;
};

// --device, --compiler, -q. LSSAR_DEVICE is the device if --device is not given.
class ExecutionOptions {
 public:
  void add_to(CLI::App& app);

  Result<EngineOptions> engine_options(const std::string& target) const;
  bool quiet() const { return quiet_; }

 private:
  std::string device_ = "auto";
  CLI::Option* device_option_ = nullptr;
  std::string compiler_ = "auto";
  bool quiet_ = false;
};

}  // namespace lssar::command
