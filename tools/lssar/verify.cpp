// lssar verify: random inputs, every output against the float64 reference.
#include <memory>

#include <fmt/format.h>

#include "base/npy.h"
#include "codegen/numerics.h"
#include "codegen/random_inputs.h"
#include "codegen/reference.h"
#include "tools/lssar/attention_run.h"
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

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// One line of the table: a result, what it should be, and what it may be off by.
struct Comparison {
  std::string name;
  std::vector<int64_t> shape;
  TensorError error;
};

std::vector<Comparison> compare_all(const Problem& problem, const Sizes& sizes, InputKind kind,
                                    const AttentionOutputs& actual,
                                    const ReferenceOutputs& reference) {
  std::vector<Comparison> all;
  const auto add = [&](OutputTensor tensor, int64_t heads, int64_t length, int64_t dim,
                       const std::vector<double>& wanted, const std::vector<float>& got,
                       double floor_norm) {
    const double allowed = tolerance(problem.dtype, tensor, problem.p, kind);
    all.push_back({tensor_name(tensor),
                   {sizes.batch, heads, length, dim},
                   compare(wanted, got, allowed, error_floor(floor_norm))});
  };
  add(OutputTensor::kO, sizes.heads, sizes.seq_q, problem.head_dim_v, reference.o, actual.o, 0);
  if (!actual.saved_o.empty()) {
    add(OutputTensor::kO, sizes.heads, sizes.seq_q, problem.head_dim_v, reference.o, actual.saved_o,
        0);
    all.back().name = "saved_o";
  }
  if (problem.pass != Pass::kBackward) return all;
  add(OutputTensor::kDq, sizes.heads, sizes.seq_q, problem.head_dim, reference.dq, actual.grad_q,
      reference.floor_norm_dq);
  add(OutputTensor::kDk, sizes.kv_heads, sizes.seq_k, problem.head_dim, reference.dk, actual.grad_k,
      reference.floor_norm_dk);
  add(OutputTensor::kDv, sizes.kv_heads, sizes.seq_k, problem.head_dim_v, reference.dv,
      actual.grad_v, 0);
  return all;
}

// The index in each dimension of element `index` of a contiguous tensor.
std::string position(size_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size(), 0);
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return "-";
    at[i] = static_cast<int64_t>(index) % shape[i];
    index /= static_cast<size_t>(shape[i]);
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

bool print_table(const std::vector<Comparison>& all) {
  fmt::print("{:<7} {:<22} {:>11} {:>10} {:>12}  at\n", "tensor", "shape", "relative L2", "allowed",
             "worst error");
  bool passed = true;
  for (const Comparison& one : all) {
    const TensorError& error = one.error;
    fmt::print("{:<7} {:<22} {:>11.2e} {:>10.2e} {:>12.2e}  {:<22} {}\n", one.name,
               npy_shape_string(one.shape), error.relative_l2, error.tolerance, error.worst_abs,
               position(error.worst_index, one.shape), error.passed ? "ok" : "WRONG");
    passed = passed && error.passed;
  }
  return passed;
}

Result<int> verify(const VerifyOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const InputKind kind, parse_input_kind(options.data));
  LSSAR_ASSIGN_OR_RETURN(const Problem problem, options.problem.problem());
  LSSAR_ASSIGN_OR_RETURN(const Sizes sizes, options.problem.sizes());
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions engine_options,
                         options.execution.engine_options(options.schedule.target_name()));
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::open(engine_options));

  RandomInputs random = random_inputs(problem, sizes, kind, options.seed);
  const bool is_backward = problem.pass == Pass::kBackward;
  const ReferenceInputs reference_inputs = {
      widen(random.q), widen(random.k), widen(random.v),
      is_backward ? widen(random.grad_o) : std::vector<double>()};
  const AttentionInputs inputs = {std::move(random.q), std::move(random.k), std::move(random.v),
                                  std::move(random.grad_o)};
  LSSAR_ASSIGN_OR_RETURN(const AttentionOutputs actual,
                         run_attention(*engine, problem, sizes, options.schedule, inputs));
  if (!options.execution.quiet()) print_report(*engine, actual.passes);

  LSSAR_ASSIGN_OR_RETURN(const ReferenceOutputs reference,
                         reference_attention(problem, sizes, reference_inputs));
  const bool passed = print_table(compare_all(problem, sizes, kind, actual, reference));
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
