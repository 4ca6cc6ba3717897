// lssar verify: random inputs, every output against the float64 reference.
#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/reference.h"
#include "tools/lssar/call/attention_run.h"
#include "tools/lssar/call/comparison.h"
#include "tools/lssar/call/data_options.h"
#include "tools/lssar/call/open_engine.h"
#include "tools/lssar/call/sequence_lengths.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/overrides.h"
#include "tools/lssar/options/problem_options.h"
#include "tools/lssar/options/schedule_options.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

struct VerifyOptions {
  ProblemOptions problem;
  ScheduleOptions schedule;
  ExecutionOptions execution;
  DataOptions data;
  LengthsOption lengths;
  bool json = false;
};

// The outputs of the pass that are compared with the reference.
std::vector<CheckedTensor> checked_tensors(const Problem& problem, const AttentionOutputs& actual) {
  std::vector<CheckedTensor> tensors = {{OutputTensor::kO, "o", actual.o}};
  if (!actual.saved_o.empty())
    tensors.push_back({OutputTensor::kO, "saved_o", unrounded_o(actual)});
  if (problem.pass != Pass::kBackward) return tensors;
  tensors.push_back({OutputTensor::kDq, "dq", actual.grad_q});
  tensors.push_back({OutputTensor::kDk, "dk", actual.grad_k});
  tensors.push_back({OutputTensor::kDv, "dv", actual.grad_v});
  if (!actual.grad_sink.empty())
    tensors.push_back({OutputTensor::kDsink, "dsink", actual.grad_sink});
  return tensors;
}

void print_verdict(const VerifyOptions& options, const Problem& problem,
                   const AttentionOutputs& actual, const std::vector<Comparison>& all) {
  print_comparisons(all);
  print_overrides(kernels_of(actual.passes));
  print_text("{}: {}, {} data, seed {}\n", verdict_on(problem, all), to_string(problem),
             input_kind_name(*options.data.kind()), options.data.seed());
}

void print_verdict_json(const VerifyOptions& options, const Problem& problem, Engine& engine,
                        const AttentionOutputs& actual, const std::vector<Comparison>& all) {
  const nlohmann::json json = {{"problem", to_json(problem)},
                               {"data", input_kind_name(*options.data.kind())},
                               {"seed", options.data.seed()},
                               {"device", engine.device().info().name},
                               {"target", engine.device().info().target.name()},
                               {"passes", report_json(actual.passes)},
                               {"tensors", to_json(all)},
                               {"verdict", verdict_on(problem, all)},
                               {"passed", all_passed(all)}};
  print_json(json);
}

// Adds what a sequence adds to the gradient of sinks.
void add_sinks(const ReferenceOutputs& one, ReferenceOutputs* all) {
  all->dsink.resize(std::max(all->dsink.size(), one.dsink.size()));
  for (size_t head = 0; head < one.dsink.size(); ++head) all->dsink[head] += one.dsink[head];
  all->floor_norm_dsink = std::hypot(all->floor_norm_dsink, one.floor_norm_dsink);
  all->row_norm_dsink = std::hypot(all->row_norm_dsink, one.row_norm_dsink);
  all->rotation_error_dsink = std::hypot(all->rotation_error_dsink, one.rotation_error_dsink);
}

// Compares every sequence with the reference of it alone, and the gradient of sinks with their sum.
Result<std::vector<Comparison>> compare_sequences(const VerifyOptions& options,
                                                  const Problem& problem,
                                                  const PackedSequences& packed,
                                                  const AttentionInputs& inputs,
                                                  const AttentionOutputs& actual) {
  std::vector<Comparison> all;
  ReferenceOutputs sinks;
  for (int64_t b = 0; b < packed.count(); ++b) {
    const Sizes sizes = packed.of_sequence(b);
    const AttentionOutputs part = packed.outputs(b, problem, actual);
    LSSAR_ASSIGN_OR_RETURN(ReferenceOutputs reference,
                           checked_reference(problem, sizes, packed.inputs(b, problem, inputs),
                                             options.execution.quiet()));
    // Keys that no query sees have gradients of 0.
    reference.dk.resize(part.grad_k.size());
    reference.dv.resize(part.grad_v.size());
    add_sinks(reference, &sinks);
    for (Comparison& one : compare_all(problem, sizes, checked_tensors(problem, part), reference)) {
      one.name += fmt::format("[{}]", b);
      all.push_back(std::move(one));
    }
  }
  if (actual.grad_sink.empty()) return all;
  const CheckedTensor dsink = {OutputTensor::kDsink, "dsink", actual.grad_sink};
  all.push_back(compare_all(problem, packed.tensors(), {dsink}, sinks).front());
  return all;
}

Result<int> verify(const VerifyOptions& options) {
  LSSAR_RETURN_IF_ERROR(options.data.kind().status());
  LSSAR_ASSIGN_OR_RETURN(Problem problem, options.problem.problem());
  PackedSequences packed;
  Sizes sizes;
  if (options.lengths.is_given()) {
    LSSAR_ASSIGN_OR_RETURN(packed, options.lengths.sequences(problem));
    problem = options.problem.of_sequences(problem, packed.call().sizes);
    sizes = packed.tensors();
  } else if (problem.varlen) {
    return invalid_argument(
        "--lengths: not given, but the problem has varlen; it has the lengths of the sequences");
  } else {
    LSSAR_ASSIGN_OR_RETURN(sizes, options.problem.sizes());
  }
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions engine_options,
                         options.execution.engine_options(options.schedule.target_name()));
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                         open_engine_for(problem, engine_options, options.schedule.has_schedule()));

  LSSAR_ASSIGN_OR_RETURN(const ScheduleChooser chooser, options.schedule.chooser(*engine));

  LSSAR_ASSIGN_OR_RETURN(const AttentionInputs inputs, options.data.inputs(problem, sizes));
  const bool quiet = options.execution.quiet();
  LSSAR_ASSIGN_OR_RETURN(
      const AttentionOutputs actual,
      options.lengths.is_given()
          ? run_sequences(*engine, problem, sizes, packed.call(), chooser, inputs, quiet)
          : run_attention(*engine, problem, sizes, chooser, inputs, quiet));
  if (!quiet && !options.json) print_report(*engine, actual.passes);

  std::vector<Comparison> all;
  if (options.lengths.is_given()) {
    LSSAR_ASSIGN_OR_RETURN(all, compare_sequences(options, problem, packed, inputs, actual));
  } else {
    LSSAR_ASSIGN_OR_RETURN(const ReferenceOutputs reference,
                           checked_reference(problem, sizes, inputs, quiet));
    all = compare_all(problem, sizes, checked_tensors(problem, actual), reference);
  }
  options.json ? print_verdict_json(options, problem, *engine, actual, all)
               : print_verdict(options, problem, actual, all);
  return static_cast<int>(all_passed(all) ? kDone : kWrongNumbers);
}

}  // namespace

void add_verify(CLI::App& app, Action* action) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* sub = app.add_subcommand("verify", "Compare a kernel's results with the reference");
  options->problem.add_to(*sub, false);
  options->schedule.add_to(*sub, "architecture to make it for (default: the device's own)");
  options->execution.add_to(*sub);
  options->data.add_to(*sub);
  options->lengths.add_to(*sub);
  sub->add_flag("--json", options->json, "print one JSON object instead of text")->group("Output");
  sub->footer(
      "\nRandom inputs, rounded to the dtype, go through the kernels and through the definition "
      "in\n"
      "float64. A tensor is right where |error| <= allowed * |reference|, in L2 norms\n"
      "(docs/accuracy.md). Results that the dtype cannot hold are named, and exit with 1.\n"
      "backward runs the forward for training first and checks o, dq, dk and dv.\n\n"
      "Example:\n"
      "  lssar verify --pass backward --seq 512 --heads 4 --p 15 --causal --dtype bf16\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return verify(*options); }; });
}

}  // namespace lssar::command
