// lssar tune: searches for a problem's best schedule and keeps it.
#include <unistd.h>

#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/search/search_report.h"
#include "autotune/search/tuner.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/output_file.h"
#include "cache/location.h"
#include "inspect/timing/loop_timer.h"
#include "tools/lssar/call/sequence_lengths.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/commands/table_files.h"
#include "tools/lssar/options/number_option.h"
#include "tools/lssar/options/problem_options.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/interrupt.h"
#include "tools/lssar/terminal/print_text.h"
#include "tools/lssar/terminal/standard_streams.h"
#include "tools/lssar/terminal/terminal.h"
#include "tools/lssar/terminal/tune_progress.h"

namespace lssar::command {
namespace {

constexpr uint64_t kMaxProblemsBytes = 1 << 20;
constexpr int kShownCandidates = 5;

struct TuneCommand {
  ProblemOptions problem;
  LengthsOption lengths;
  ExecutionOptions execution;
  std::string target;
  std::string budget = "normal";
  std::string determinism = "repeatable";
  std::string table;
  std::string json_file;
  std::string problems_file;
  int jobs = 0;
  bool all_passes = false;
  bool again = false;
  bool list = false;
};

// One problem, or each of --problems, in one pass or in all of them.
Result<std::vector<TuneProblem>> list_problems(const TuneCommand& options) {
  LSSAR_ASSIGN_OR_RETURN(const Determinism determinism, parse_determinism(options.determinism));
  if (options.lengths.is_given() && !options.problems_file.empty()) {
    return invalid_argument(
        "--lengths: given with --problems; allowed is one of them, because the sequences are those "
        "of one problem");
  }
  std::vector<TuneProblem> listed;
  if (options.problems_file.empty()) {
    LSSAR_ASSIGN_OR_RETURN(Problem problem, options.problem.problem());
    if (options.lengths.is_given()) {
      LSSAR_ASSIGN_OR_RETURN(const PackedSequences packed, options.lengths.sequences(problem));
      problem.varlen = true;
      listed.push_back({problem, packed.call().sizes, determinism, packed.lengths()});
    } else {
      listed.push_back({problem, options.problem.sizes_to_choose_by(problem), determinism});
    }
  } else {
    LSSAR_ASSIGN_OR_RETURN(const std::string text,
                           read_file(options.problems_file, {.max_bytes = kMaxProblemsBytes}));
    LSSAR_ASSIGN_OR_RETURN(const nlohmann::json json, parse_json(text, options.problems_file));
    if (!json.is_array() || json.empty()) {
      return invalid_argument(fmt::format("{}: allowed is a JSON array of at least one problem",
                                          options.problems_file));
    }
    for (size_t i = 0; i < json.size(); ++i) {
      Result<Problem> problem = problem_from_json(json[i]);
      if (!problem.ok()) {
        return problem.status().with_context(fmt::format("{}[{}]", options.problems_file, i));
      }
      listed.push_back({*problem, typical_sizes(*problem), determinism});
    }
  }
  if (!options.all_passes) return listed;
  std::vector<TuneProblem> all;
  for (const TuneProblem& one : listed) {
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      all.push_back(one);
      all.back().problem.pass = pass;
    }
  }
  return all;
}

// A CPU's target asks for the cpu device.
Result<EngineOptions> engine_options(const TuneCommand& options) {
  LSSAR_ASSIGN_OR_RETURN(EngineOptions engine, options.execution.engine_options(options.target));
  if (engine.device != DeviceChoice::kAuto || options.target.empty()) return engine;
  LSSAR_ASSIGN_OR_RETURN(const Target target, target_from_name(options.target));
  if (target.is_cpu()) engine.device = DeviceChoice::kCpu;
  return engine;
}

Result<TuneOptions> tune_options(const TuneCommand& options) {
  TuneOptions tuning;
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions engine, engine_options(options));
  tuning.device = engine.device;
  tuning.compiler = engine.compiler;
  tuning.target = options.target;
  LSSAR_ASSIGN_OR_RETURN(tuning.budget, budget_named(options.budget));
  tuning.parallel_compiles = options.jobs;
  tuning.search_again = options.again;
  const std::string cache = find_cache_location("").directory;
  tuning.table_path = options.table.empty() ? default_table_path(cache) : options.table;
  LSSAR_RETURN_IF_ERROR(check_table_path(options.table));
  if (tuning.table_path == "none") tuning.table_path.clear();
  if (tuning.table_path.empty() && options.table.empty()) {
    return invalid_argument(
        "--table: not given, and LSSAR_TUNING_TABLE or LSSAR_CACHE_DIR is none, so what is found "
        "would be lost; allowed are a file, and none to keep nothing");
  }
  tuning.cancelled = [] { return kept_interrupt() != 0; };
  tuning.loop_clocks = [timer = std::make_shared<LoopTimer>(engine)](
                           const Problem& problem, const Target& target,
                           const CandidateSpec& candidate) {
    return timer->clocks(problem, target, candidate);
  };
  return tuning;
}

// Prints the dimensions of the space instead of searching.
Result<int> print_space(const std::vector<TuneProblem>& problems, const TuneCommand& options) {
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions engine, engine_options(options));
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                         open_device(engine.device, options.target, engine.ordinal));
  for (const TuneProblem& one : problems) {
    const Problem problem = searched_problem(one).problem;
    print_text("{}\n{}", to_string(problem),
               describe(search_space(problem, device->info().target, one.determinism)));
  }
  return static_cast<int>(kDone);
}

Status write_json(const std::string& path, const nlohmann::json& json) {
  return write_output_file(path, json_text(json));
}

// Before the first problem: many expect that a machine without a GPU tunes its CPU.
void print_device(const DeviceInfo& device) {
  const bool is_virtual = device.kind == "virtual";
  print_message(stderr, fmt::format("tunes for {} on {}: times are {}", device.target.name(),
                                    is_virtual ? "the virtual device" : device.name,
                                    is_virtual ? "predicted, not measured" : "measured"));
}

Result<int> tune_all(const TuneCommand& options) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<TuneProblem> problems, list_problems(options));
  if (options.list) return print_space(problems, options);
  if (!options.json_file.empty()) LSSAR_RETURN_IF_ERROR(check_output_file(options.json_file));
  LSSAR_ASSIGN_OR_RETURN(TuneOptions tuning, tune_options(options));
  const InterruptGuard guard;
  TuneProgress progress(isatty(STDERR_FILENO) != 0, options.execution.quiet());
  tuning.progress = [&](const SearchProgress& now) { progress.show(now); };

  bool is_told = options.execution.quiet();
  tuning.opened = [&](const DeviceInfo& device) {
    if (!std::exchange(is_told, true)) print_device(device);
  };

  nlohmann::json results = nlohmann::json::array();
  for (size_t i = 0; i < problems.size(); ++i) {
    progress.begin(
        fmt::format("{} of {}: {}", i + 1, problems.size(), to_string(problems[i].problem)));
    const Result<SearchOutcome> outcome = tune(problems[i], tuning);
    progress.end();
    LSSAR_RETURN_IF_ERROR(outcome.status());
    if (outcome->cancelled) {
      print_message(stderr, "lssar: interrupted; what was measured is kept: run it again to go on");
      return static_cast<int>(kDone);  // main() ends with the signal
    }
    if (!is_standard_output(options.json_file)) {
      print_text("{}\n",
                 report_text(*outcome, problems[i].problem, outcome->target, kShownCandidates));
    }
    // Kept only if needed: each has tens of thousands of candidates, which are hundreds of
    // megabytes.
    if (!options.json_file.empty()) results.push_back(to_json(*outcome));
  }
  if (!options.json_file.empty()) LSSAR_RETURN_IF_ERROR(write_json(options.json_file, results));
  if (!tuning.table_path.empty() && !is_standard_output(options.json_file)) {
    print_text("kept in {}\n", tuning.table_path);
  }
  return static_cast<int>(kDone);
}

}  // namespace

void add_tune(CLI::App& app, Action* action) {
  auto options = std::make_shared<TuneCommand>();
  CLI::App* sub = app.add_subcommand("tune", "Search for a problem's best schedule, and keep it");
  options->problem.add_to(*sub, false);
  options->lengths.add_to(*sub);
  options->execution.add_to(*sub);
  const auto add = [&](const char* name, std::string& value, const char* values, const char* help) {
    return sub->add_option(name, value, help)->type_name(values)->group("Tuning");
  };
  sub->add_option("--target", options->target,
                  "of a CPU: its level to tune for; with --device virtual: the architecture to "
                  "predict for")
      ->type_name("ARCH")
      ->group("Execution");
  add("--budget", options->budget, "quick|normal|full", "20 s, 2 min or no limit")
      ->capture_default_str();
  add("--determinism", options->determinism, "repeatable|any",
      "repeatable: gradients have the same bits in every run; any: sums in any order are welcome")
      ->capture_default_str();
  add("--table", options->table, "FILE", "tuning table to read and append to; none: keep nothing");
  add("--problems", options->problems_file, "FILE",
      "JSON array of problems, instead of the options above");
  add_whole(*sub, "--jobs", options->jobs, "compiles at a time (default: one per core, at most 16)",
            1, 256)
      ->group("Tuning");
  add("--json", options->json_file, "FILE",
      "write what was found to this file; -: to standard output");
  sub->add_flag("--all-passes", options->all_passes, "forward, forward-train and backward")
      ->group("Tuning");
  sub->add_flag("--again", options->again, "search although the table has the answer")
      ->group("Tuning");
  sub->add_flag("--list", options->list, "print the search space, and search nothing")
      ->group("Tuning");
  sub->footer(
      "\nEvery candidate is compiled, checked against the reference and timed in processes of\n"
      "their own; the best goes into the tuning table, where plans find it. Interrupted and\n"
      "started again, a search goes on where it was. On the virtual device nothing is timed:\n"
      "counters and the cost model rank, and for sm_90a a model of the machine code. Records\n"
      "then say \"predicted\".\n\n"
      "A problem with varlen is timed with the sequences of --lengths. Without them the longest\n"
      "has 4096 tokens, and the others are evenly shorter.\n\n"
      "Example:\n"
      "  lssar tune --head-dim 128 --seq 4096 --heads 16 --batch 4 --all-passes\n"
      "  lssar tune --lengths 512,1024,2048,4096 --heads 16 --causal --all-passes\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return tune_all(*options); }; });
}

}  // namespace lssar::command
