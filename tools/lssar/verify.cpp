// lssar verify: random inputs, every output against the float64 reference.
#include <memory>

#include <fmt/format.h>

#include "codegen/random_inputs.h"
#include "codegen/reference.h"
#include "tools/lssar/attention_run.h"
#include "tools/lssar/comparison.h"
#include "tools/lssar/exit_code.h"
#include "tools/lssar/problem_options.h"
#include "tools/lssar/subcommands.h"

namespace lssar::command {
namespace {

struct VerifyOptions {
  ProblemOptions problem;
  ScheduleOptions schedule;
  ExecutionOptions execution;
  uint64_t seed = 1;
  std::string data = "gauss";
};

// What the pass computes.
std::vector<CheckedTensor> checked_tensors(const Problem& problem, const AttentionOutputs& actual) {
  std::vector<CheckedTensor> tensors = {{OutputTensor::kO, "o", actual.o}};
  if (!actual.saved_o.empty()) tensors.push_back({OutputTensor::kO, "saved_o", actual.saved_o});
  if (problem.pass != Pass::kBackward) return tensors;
  tensors.push_back({OutputTensor::kDq, "dq", actual.grad_q});
  tensors.push_back({OutputTensor::kDk, "dk", actual.grad_k});
  tensors.push_back({OutputTensor::kDv, "dv", actual.grad_v});
  return tensors;
}

Result<int> verify(const VerifyOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const InputKind kind, parse_input_kind(options.data));
  LSSAR_ASSIGN_OR_RETURN(const Problem problem, options.problem.problem());
  LSSAR_ASSIGN_OR_RETURN(const Sizes sizes, options.problem.sizes());
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions engine_options,
                         options.execution.engine_options(options.schedule.target_name()));
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::open(engine_options));

  RandomInputs random = random_inputs(problem, sizes, kind, options.seed);
  const AttentionInputs inputs = {std::move(random.q), std::move(random.k), std::move(random.v),
                                  std::move(random.grad_o)};
  LSSAR_ASSIGN_OR_RETURN(const AttentionOutputs actual,
                         run_attention(*engine, problem, sizes, options.schedule, inputs));
  if (!options.execution.quiet()) print_report(*engine, actual.passes);

  LSSAR_ASSIGN_OR_RETURN(const ReferenceOutputs reference,
                         reference_attention(problem, sizes, reference_inputs(problem, inputs)));
  const std::vector<Comparison> all =
      compare_all(problem, sizes, kind, checked_tensors(problem, actual), reference);
  print_comparisons(all);
  const bool passed = all_passed(all);
  for (const PassReport& pass : actual.passes) {
    if (const std::string& path = pass.kernel->override_path; !path.empty())
      fmt::print("{} is {}, instead of what is generated\n", pass.kernel->source.name, path);
  }
  fmt::print("{}: {}, {} data, seed {}\n", passed ? "correct" : "WRONG NUMBERS", to_string(problem),
             input_kind_name(kind), options.seed);
  return static_cast<int>(passed ? kDone : kWrongNumbers);
}

}  // namespace

void add_verify(CLI::App& app, Action* action) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* sub = app.add_subcommand("verify", "Compare a kernel's results with the reference");
  options->problem.add_to(*sub);
  options->schedule.add_to(*sub, "architecture to make it for (default: the device's own)");
  options->execution.add_to(*sub);
  sub->add_option("--seed", options->seed, "of the random inputs")
      ->group("Data")
      ->capture_default_str();
  sub->add_option(
         "--data", options->data,
         "gauss, peaky, clustered, opposed, ties, near_ties, zeros, huge, local or shifted")
      ->group("Data")
      ->capture_default_str();
  sub->footer(
      "\nRandom inputs, rounded to the dtype, go through the kernels and through the definition "
      "in\n"
      "float64. A tensor is right where |error| <= allowed * |reference| + floor, in L2 norms.\n"
      "backward runs the forward for training first and checks o, dq, dk and dv.\n\n"
      "Example:\n"
      "  lssar verify --pass backward --seq 512 --heads 4 --p 15 --causal --dtype bf16\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return verify(*options); }; });
}

}  // namespace lssar::command
