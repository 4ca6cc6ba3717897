// lssar run: tensors from .npy files, results to .npy files.
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "base/output_file.h"
#include "device/counters_text.h"
#include "tools/lssar/call/attention_run.h"
#include "tools/lssar/call/data_options.h"
#include "tools/lssar/call/input_files.h"
#include "tools/lssar/call/open_engine.h"
#include "tools/lssar/call/sequence_lengths.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/problem_options.h"
#include "tools/lssar/options/schedule_options.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/print_text.h"
#include "virtual/run/virtual_device.h"

namespace lssar::command {
namespace {

struct RunOptions {
  ProblemOptions problem;
  ScheduleOptions schedule;
  ExecutionOptions execution;
  InputFiles files;
  CuSeqlensFiles cu_seqlens;
  DataOptions data;
  bool random = false;
  std::string output_dir;  // "": the results are dropped
  bool counters = false, json = false;
};

Status check_pass(const Problem& problem, const RunOptions& options) {
  if (problem.pass == Pass::kForwardTrain) {
    return invalid_argument(
        "pass = forward-train: run writes no saved tensors; allowed are "
        "forward and backward");
  }
  if (options.random) return {};
  if (problem.pass == Pass::kBackward && !options.files.has_grad_o()) {
    return invalid_argument("--do: not given; pass = backward needs the gradient of o");
  }
  if (problem.pass == Pass::kForward && options.files.has_grad_o()) {
    return invalid_argument("--do: given, but pass = forward; only backward reads it");
  }
  return {};
}

// Checked before the work, so that a folder or file that cannot be written costs no compile and no
// run.
Status prepare_output_dir(const std::string& path, Pass pass) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return io_error(fmt::format("--out {}: {}", path, error.message()));
  for (const char* name : pass == Pass::kForward
                              ? std::vector<const char*>{"o.npy"}
                              : std::vector<const char*>{"dq.npy", "dk.npy", "dv.npy"})
    LSSAR_RETURN_IF_ERROR(check_output_file(path + "/" + name));
  return {};
}

// One of the results, [batch, heads, length, dim].
struct Output {
  const char* name;
  int64_t heads, length, dim;
  const std::vector<float>& values;
};

Result<std::string> npy_bytes(const std::string& path, int64_t batch, const Output& output) {
  const Shape shape = {batch, output.heads, output.length, output.dim};
  return npy_float32_bytes(path, shape, output.values);
}

// As [rows, heads, dim]: what the files of a packed call have.
Result<std::string> packed_npy_bytes(const std::string& path, const Output& output) {
  const std::vector<int64_t> shape = {output.length, output.heads, output.dim};
  return npy_float32_bytes(path, shape,
                           swap_outer_dims(output.values, output.heads, output.length, output.dim));
}

// Writes all of them or none.
Status write_outputs(const RunOptions& options, const Sizes& sizes, const Problem& problem,
                     const AttentionOutputs& outputs) {
  const int64_t d = problem.head_dim, dv = problem.head_dim_v;
  const std::vector<Output> files =
      problem.pass == Pass::kForward
          ? std::vector<Output>{{"o.npy", sizes.heads, sizes.seq_q, dv, outputs.o}}
          : std::vector<Output>{{"dq.npy", sizes.heads, sizes.seq_q, d, outputs.grad_q},
                                {"dk.npy", sizes.kv_heads, sizes.seq_k, d, outputs.grad_k},
                                {"dv.npy", sizes.kv_heads, sizes.seq_k, dv, outputs.grad_v}};
  std::vector<OutputFile> written;
  for (const Output& file : files) {
    const std::string path = options.output_dir + "/" + file.name;
    LSSAR_ASSIGN_OR_RETURN(const std::string bytes, problem.varlen
                                                        ? packed_npy_bytes(path, file)
                                                        : npy_bytes(path, sizes.batch, file));
    LSSAR_ASSIGN_OR_RETURN(OutputFile opened, OutputFile::open(path));
    LSSAR_RETURN_IF_ERROR(opened.append(bytes));
    written.push_back(std::move(opened));
  }
  return commit_all(std::move(written));
}

// With --counters the virtual device is opened again as one that counts.
Result<std::unique_ptr<Engine>> open_engine(const RunOptions& options, const Problem& problem,
                                            const EngineOptions& engine_options) {
  const bool is_cpu = engine_options.device == DeviceChoice::kCpu;
  if (options.counters && (is_cpu || engine_options.device == DeviceChoice::kCuda)) {
    return invalid_argument(fmt::format(
        "--counters: --device {} does not count; allowed is virtual", is_cpu ? "cpu" : "cuda"));
  }
  if (!options.counters)
    return open_engine_for(problem, engine_options, options.schedule.has_schedule());
  LSSAR_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::open(engine_options));
  const DeviceInfo& device = engine->device().info();
  if (device.kind != "virtual") {
    return invalid_argument(
        fmt::format("--counters: the device taken, {} ({}), does not count; add --device virtual",
                    device.kind, device.name));
  }
  VirtualOptions counting;
  counting.target = device.target;
  counting.count = true;
  return Engine::create(engine_options, make_virtual_device(counting), nullptr,
                        engine->shared_store());
}

void print_passes_json(const RunOptions& options, const Engine& engine,
                       const std::vector<PassReport>& passes) {
  const DeviceInfo& device = engine.device().info();
  nlohmann::json result = {
      {"device", device.name}, {"target", device.target.name()}, {"passes", report_json(passes)}};
  if (options.counters) result["counters"] = counters_json(engine.device().kernel_counters());
  print_json(result);
}

void print_results(const RunOptions& options, Engine& engine,
                   const std::vector<PassReport>& passes) {
  if (options.json) {
    print_passes_json(options, engine, passes);
    return;
  }
  if (!options.execution.quiet()) print_report(engine, passes);
  print_overrides(kernels_of(passes));
  if (options.counters) fmt::print("{}", counters_table(engine.device().kernel_counters()));
}

// A call's problem, sizes and inputs, from files or from --random.
struct RunCall {
  Problem problem;
  Sizes sizes;  // of the tensors
  AttentionInputs inputs;
  PackedSequences packed;  // where problem.varlen
};

Result<RunCall> random_call(const RunOptions& options) {
  RunCall call;
  LSSAR_ASSIGN_OR_RETURN(call.problem, options.problem.problem());
  LSSAR_ASSIGN_OR_RETURN(call.sizes, options.problem.sizes());
  LSSAR_RETURN_IF_ERROR(check_pass(call.problem, options));
  LSSAR_ASSIGN_OR_RETURN(call.inputs, options.data.inputs(call.problem, call.sizes));
  return call;
}

Result<RunCall> call_of(const RunOptions& options) {
  if (options.random) return random_call(options);
  if (options.data.is_given())
    return invalid_argument("--seed, --data: inputs come from files; allowed with --random");
  if (!options.files.given())
    return invalid_argument("inputs: none; allowed are --q, --k and --v, or --random");
  if (options.output_dir.empty())
    return invalid_argument("--out: not given; it names the folder for the results");
  const bool is_packed = options.cu_seqlens.is_given();
  RunCall call;
  LSSAR_ASSIGN_OR_RETURN(InputFiles::Content files, options.files.read(is_packed));
  LSSAR_ASSIGN_OR_RETURN(call.problem, options.problem.problem_of_files(files.sizes, files.head_dim,
                                                                        files.head_dim_v));
  if (is_packed) {
    LSSAR_ASSIGN_OR_RETURN(call.packed, options.cu_seqlens.read(files.sizes));
    call.problem = options.problem.of_sequences(call.problem, call.packed.call().sizes);
    LSSAR_RETURN_IF_ERROR(validate(call.problem));
  }
  LSSAR_RETURN_IF_ERROR(check_pass(call.problem, options));
  call.sizes = files.sizes;
  call.inputs = std::move(files.tensors);
  LSSAR_RETURN_IF_ERROR(complete_inputs(call.problem, call.sizes, &call.inputs));
  return call;
}

Result<int> run(const RunOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions engine_options,
                         options.execution.engine_options(options.schedule.target_name()));
  LSSAR_ASSIGN_OR_RETURN(const RunCall call, call_of(options));
  if (call.problem.varlen && !options.cu_seqlens.is_given()) {
    return invalid_argument(
        "--cu-seqlens: not given, but the problem has varlen; it names the file of the rows where "
        "sequences begin");
  }
  if (!options.output_dir.empty())
    LSSAR_RETURN_IF_ERROR(prepare_output_dir(options.output_dir, call.problem.pass));

  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                         open_engine(options, call.problem, engine_options));
  LSSAR_ASSIGN_OR_RETURN(const ScheduleChooser chooser, options.schedule.chooser(*engine));
  const bool quiet = options.execution.quiet();
  LSSAR_ASSIGN_OR_RETURN(
      const AttentionOutputs outputs,
      call.problem.varlen
          ? run_sequences(*engine, call.problem, call.sizes, call.packed.call(), chooser,
                          call.inputs, quiet)
          : run_attention(*engine, call.problem, call.sizes, chooser, call.inputs, quiet));
  if (!options.output_dir.empty())
    LSSAR_RETURN_IF_ERROR(write_outputs(options, call.sizes, call.problem, outputs));
  print_results(options, *engine, outputs.passes);
  return static_cast<int>(kDone);
}

}  // namespace

void add_run(CLI::App& app, Action* action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* sub = app.add_subcommand("run", "Compute attention of .npy files");
  CLI::Option* const q = options->files.add_to(*sub);
  options->cu_seqlens.add_to(*sub)->needs(q);
  sub->add_flag("--random", options->random, "random inputs of the sizes given, instead of files")
      ->group("Files")
      ->excludes(q);
  sub->add_option("--out", options->output_dir,
                  "folder for o.npy, or dq.npy, dk.npy and dv.npy; with --random it may be missing")
      ->type_name("DIR")
      ->group("Files");
  options->problem.add_to(*sub, false);
  options->schedule.add_to(*sub, "architecture to make it for (default: the device's own)");
  options->execution.add_to(*sub);
  options->data.add_to(*sub);
  sub->add_flag("--counters", options->counters,
                "print instructions, memory traffic and bank conflicts (virtual device only)")
      ->group("Output");
  sub->add_flag("--json", options->json, "print one JSON object instead of text")->group("Output");
  sub->footer(
      "\nInputs are rounded to the dtype (nearest, ties to even); outputs are float32. Sizes come\n"
      "from the files; size options, where given, must agree with them.\n\n"
      "Example:\n"
      "  lssar run --pass backward --causal --p 15 --dtype bf16 --q q.npy --k k.npy --v v.npy "
      "--do do.npy --out results\n"
      "  lssar run --random --seq 512 --heads 4 --causal --device virtual --counters\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return run(*options); }; });
}

}  // namespace lssar::command
