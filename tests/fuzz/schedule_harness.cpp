// Properties: what was read is written as JSON that reads as the same; a valid problem has legal
// default schedules for every known target; what passes the rules is emitted, with launches that
// the target can run.
#include <nlohmann/json.hpp>

#include "codegen/emit.h"
#include "codegen/launch_step.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/sizes.h"
#include "codegen/target.h"
#include "runtime/call.h"
#include "runtime/executor.h"
#include "tests/fuzz/complain.h"
#include "tests/fuzz/readers.h"

namespace lssar::test {
namespace {

using nlohmann::json;

constexpr size_t kMaxInput = 16 << 10;
constexpr int kMaxThreads = 1024;

template <typename T>
json through_text(const T& value) {
  return json::parse(to_json(value).dump());
}

void check_emitted(const Problem& problem, const Schedule& schedule, const Target& target) {
  const Result<KernelSource> source = emit_kernel(problem, schedule, target);
  if (!source.ok()) complain("legal and not emitted", source.status());
  const Sizes sizes = sizes_of(problem);
  for (const LaunchStep& step : source->steps) {
    check_that(step.threads > 0 && step.threads <= kMaxThreads, "threads", step.entry);
    check_that(step.shared_bytes <= target.shared_bytes_per_block, "shared memory", step.entry);
    const Result<LaunchConfig> config = launch_config(step, sizes, 132);
    if (!config.ok()) check_error(config.status());
  }
  const Result<WorkspaceLayout> layout = workspace_layout(problem, schedule, sizes);
  if (!layout.ok()) check_error(layout.status());
  const Result<SavedBytes> saved = saved_bytes(problem, schedule, sizes);
  if (!saved.ok()) check_error(saved.status());
}

void check_defaults(const Problem& problem) {
  for (const std::string& name : known_target_names()) {
    const Target target = *target_from_name(name);
    for (const DqMode mode : {DqMode::kSplit, DqMode::kAtomic}) {
      const Schedule schedule = default_schedule(problem, target, mode);
      const Status legal = validate(schedule, problem, target);
      if (!legal.ok()) complain("an illegal default", legal);
    }
  }
}

Problem read_problem(const json& document) {
  if (!document.contains("problem")) return {};
  const Result<Problem> problem = problem_from_json(document["problem"]);
  if (!problem.ok()) {
    check_error(problem.status());
    return {};
  }
  const Result<Problem> again = problem_from_json(through_text(*problem));
  check_that(again.ok() && *again == *problem, "another problem", to_string(*problem));
  check_that(!to_string(*problem).empty(), "a problem without a text");
  check_defaults(*problem);
  return *problem;
}

// Limits of a target of the input's own need not suit every default.
Target read_target(const json& document, bool& is_known) {
  is_known = true;
  if (document.contains("target")) {
    const Result<Target> target = target_from_json(document["target"]);
    is_known = document["target"].is_string();
    if (target.ok()) return *target;
    check_error(target.status());
    is_known = true;
  }
  return *target_from_name("sm_90a");
}

}  // namespace

void run_schedule_input(std::string_view input) {
  if (input.size() > kMaxInput) return;
  const json document = json::parse(input, nullptr, false);
  if (!document.is_object()) return;
  bool is_known = true;
  const Target target = read_target(document, is_known);
  const Problem problem = read_problem(document);
  const json given = document.contains("schedule") ? document["schedule"] : json::object();
  const Result<Schedule> alone = schedule_from_json(given, Schedule{});
  if (alone.ok()) {
    const Result<Schedule> again = schedule_from_json(through_text(*alone), Schedule{});
    check_that(again.ok() && *again == *alone, "another schedule", to_string(*alone));
  }
  const Result<Schedule> schedule = schedule_for(problem, target, given);
  if (!schedule.ok()) return check_error(schedule.status());
  const Status legal = validate(*schedule, problem, target);
  if (!legal.ok()) return check_error(legal);
  if (is_known) check_emitted(problem, *schedule, target);
}

}  // namespace lssar::test
