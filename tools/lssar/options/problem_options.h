// The options that describe a problem, the same in every subcommand, and those that say how it is
// run: each subcommand adds the groups it needs.
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

// What the user wrote; what is not given comes from --problem, else from Problem's defaults.
class ProblemOptions {
 public:
  void add_to(CLI::App& app);

  // Whether any of them was given.
  bool is_given() const;

  // The problem as described, validated. Lengths that were not given are run-time lengths (0).
  Result<Problem> problem() const;

  // For `run`: sizes and head dims are those of the files. An option (or a field of --problem that
  // leaves nothing open) that disagrees with them is an error naming both.
  Result<Problem> problem_of_files(const Sizes& sizes, int head_dim, int head_dim_v) const;

  // The sizes one call has. Errors: a length that is needed and was not given.
  Result<Sizes> sizes() const;
  // The sizes to choose a schedule by, for a problem of these options: those of one call where its
  // lengths are given, else typical_sizes (autotune/search/tuner.h), as `lssar tune` takes them.
  Sizes sizes_to_choose_by(const Problem& problem) const;

 private:
  void open_lengths(Problem* problem) const;
  // Options over file over defaults; not validated. `file` is what --problem held.
  Result<Problem> described(nlohmann::json* file) const;

  std::string problem_file_;
  std::optional<std::string> pass_, dtype_;
  std::optional<int> head_dim_, head_dim_v_, p_, alignment_;
  std::optional<int64_t> seq_q_, seq_k_, batch_, heads_, kv_heads_;
  std::optional<double> offset_;
  bool causal_ = false, no_causal_ = false;  // at most one of them
  // "q", "k", "both"; "": as the lengths say.
  std::string runtime_lengths_;
};

// --device, --compiler, -q.
class ExecutionOptions {
 public:
  void add_to(CLI::App& app);

  Result<EngineOptions> engine_options(const std::string& target) const;
  bool quiet() const { return quiet_; }

 private:
  std::string device_ = "auto";
  std::string compiler_ = "auto";
  bool quiet_ = false;
};

}  // namespace lssar::command
