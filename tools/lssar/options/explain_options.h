// The options of `lssar explain` and `lssar report`.
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "autotune/table/tuning_table.h"
#include "base/status.h"
#include "inspect/explanation.h"
#include "runtime/engine.h"
#include "tools/lssar/options/problem_options.h"
#include "tools/lssar/options/schedule_options.h"

namespace lssar::command {

struct ExplainOptions {
  ProblemOptions problem;
  ScheduleOptions schedule;
  ExecutionOptions execution;
  size_t shown = 0;  // candidates
  bool no_compile = false;

  void add_to(CLI::App& app, const std::string& group, size_t default_shown);
  Result<std::unique_ptr<Engine>> open_engine() const;
  // `table` comes before the shipped table, and must outlive the request.
  Result<ExplanationRequest> request(Engine& engine, const TuningTable& table) const;
};

}  // namespace lssar::command
