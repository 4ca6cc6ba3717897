// lssar capture: a problem's kernels, and optionally one call's tensors, as one file.
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "runtime/capture.h"
#include "tools/lssar/call/attention_run.h"
#include "tools/lssar/call/data_options.h"
#include "tools/lssar/call/input_files.h"
#include "tools/lssar/call/open_engine.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/problem_options.h"
#include "tools/lssar/options/schedule_options.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/message_stream.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

struct CaptureOptions {
  ProblemOptions problem;
  ScheduleOptions schedule;
  ExecutionOptions execution;
  InputFiles files;
  DataOptions data;
  bool inputs = false;
  std::string output;
};

// The call to capture, and its values.
struct Call {
  Problem problem;
  Sizes sizes;
  AttentionInputs inputs;
  bool has_inputs = false;
  std::string data = "given";
  uint64_t seed = 0;
};

Result<Call> call_of_files(const CaptureOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(InputFiles::Content content, options.files.read());
  Call call;
  LSSAR_ASSIGN_OR_RETURN(call.problem, options.problem.problem_of_files(
                                           content.sizes, content.head_dim, content.head_dim_v));
  if (call.problem.pass == Pass::kBackward && !options.files.has_grad_o())
    return invalid_argument("--do: not given; pass = backward needs the gradient of o");
  call.sizes = content.sizes;
  call.inputs = std::move(content.tensors);
  LSSAR_RETURN_IF_ERROR(complete_inputs(call.problem, call.sizes, &call.inputs));
  call.has_inputs = true;
  return call;
}

Result<Call> call_of(const CaptureOptions& options) {
  if (options.files.given()) return call_of_files(options);
  Call call;
  LSSAR_ASSIGN_OR_RETURN(const InputKind kind, options.data.kind());
  LSSAR_ASSIGN_OR_RETURN(call.problem, options.problem.problem());
  LSSAR_ASSIGN_OR_RETURN(call.sizes, options.problem.sizes());
  call.data = input_kind_name(kind);
  call.seed = options.data.seed();
  call.has_inputs = options.inputs;
  if (!options.inputs) return call;
  LSSAR_ASSIGN_OR_RETURN(call.inputs, options.data.inputs(call.problem, call.sizes));
  return call;
}

Status capture_kernels(Engine& engine, const Call& call, const ScheduleChooser& chooser,
                       Capture* capture, std::vector<ScheduleChoice>* choices) {
  PreparedKernels kernels;
  LSSAR_ASSIGN_OR_RETURN(const std::vector<ScheduleChooser::PassChoice> passes,
                         chooser.choose_passes(call.problem, call.sizes));
  for (const auto& [problem, choice] : passes) {
    LSSAR_ASSIGN_OR_RETURN(const auto kernel, engine.prepare(problem, choice.schedule));
    log_prepared(*kernel, engine, choice);
    kernels.push_back(kernel);
    LSSAR_ASSIGN_OR_RETURN(CapturedKernel captured, capture_kernel(engine, *kernel, call.sizes));
    capture->kernels.push_back(std::move(captured));
    LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                           workspace_layout(problem, choice.schedule, call.sizes));
    capture->workspace_bytes = layout.total_bytes;
    choices->push_back(choice);
  }
  return check_overridden(kernels);
}

Status capture_tensors(const Call& call, const CallMemory& memory, Capture* capture) {
  LSSAR_ASSIGN_OR_RETURN(const Operands operands,
                         call_operands(call.problem, capture->kernel().schedule, call.sizes,
                                       contiguous_layout(call.problem, call.sizes)));
  for (const Operand& operand : operands) {
    CapturedTensor tensor = layout_of(operand);
    if (call.has_inputs) {
      LSSAR_ASSIGN_OR_RETURN(tensor.packed, memory.download(tensor.name));
    }
    capture->tensors.push_back(std::move(tensor));
  }
  return {};
}

Status check_options(const Call& call, const Engine& engine) {
  if (is_of_range(call.problem.pass)) {
    return invalid_argument(
        fmt::format("pass = {}: allowed are forward, forward-train and backward",
                    pass_name(call.problem.pass)));
  }
  if (call.has_inputs && engine.device().info().kind == "record")
    return invalid_argument(
        "--device record computes nothing: allowed with inputs are cpu, cuda, virtual");
  return {};
}

void print_captured(const std::string& path, const Capture& capture,
                    const std::vector<ScheduleChoice>& choices) {
  std::FILE* const messages = message_stream(path);
  for (size_t i = 0; i < choices.size(); ++i) {
    const CapturedKernel& kernel = capture.kernels[i];
    print_text(messages, "{} for {}, {}, {}{}\n", kernel.source.name, kernel.target,
               kernel.compiler, image_kind_name(kernel.image.kind),
               kernel.overridden ? ", edited (LSSAR_OVERRIDE_DIR)" : "");
    print_choice(messages, choices[i]);
  }
  const char* const what =
      capture.has_inputs() ? "with inputs and outputs of one call" : "without inputs";
  std::error_code unknown;  // the size of a pipe is not known
  const auto bytes = std::filesystem::file_size(path, unknown);
  if (unknown) {
    print_text(messages, "{}: {}\n", path, what);
  } else {
    print_text(messages, "{}: {} bytes, {}; lssar replay {}\n", path, bytes, what, path);
  }
}

Result<int> capture_call(const CaptureOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const EngineOptions engine_options,
                         options.execution.engine_options(options.schedule.target_name()));
  LSSAR_RETURN_IF_ERROR(check_output_file(options.output));
  LSSAR_ASSIGN_OR_RETURN(const Call call, call_of(options));
  LSSAR_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      open_engine_for(call.problem, engine_options, options.schedule.has_schedule()));
  LSSAR_RETURN_IF_ERROR(check_options(call, *engine));

  LSSAR_ASSIGN_OR_RETURN(const ScheduleChooser chooser, options.schedule.chooser(*engine));
  Capture capture = begin_capture(*engine, call.sizes);
  capture.data = call.data;
  capture.seed = call.seed;
  CallMemory memory(engine->shared_device());
  if (call.has_inputs) {
    LSSAR_RETURN_IF_ERROR(run_attention(*engine, call.problem, call.sizes, chooser, call.inputs,
                                        options.execution.quiet(), memory)
                              .status());
  }
  std::vector<ScheduleChoice> choices;
  LSSAR_RETURN_IF_ERROR(capture_kernels(*engine, call, chooser, &capture, &choices));
  LSSAR_RETURN_IF_ERROR(capture_tensors(call, memory, &capture));
  LSSAR_RETURN_IF_ERROR(write_capture(options.output, capture));
  if (!options.execution.quiet()) print_captured(options.output, capture, choices);
  return static_cast<int>(kDone);
}

}  // namespace

void add_capture(CLI::App& app, Action* action) {
  auto options = std::make_shared<CaptureOptions>();
  CLI::App* sub = app.add_subcommand("capture", "One call as a file, for lssar replay");
  sub->add_option("-o,--output", options->output,
                  "the file, which by custom ends with .lssar; -: standard output")
      ->type_name("FILE")
      ->required();
  options->problem.add_to(*sub, false);
  options->schedule.add_to(*sub, "architecture to make it for (default: the device's own)");
  options->execution.add_to(*sub);
  options->files.add_to(*sub);
  sub->add_flag("--inputs", options->inputs,
                "run it on random inputs, and keep these and what came out")
      ->group("Data");
  options->data.add_to(*sub);
  sub->footer(
      "\nKeeps problem, schedule, sizes, sources, launches and images; with --inputs, or tensors "
      "from\n"
      "files, the call is run and its inputs and outputs are kept too. A program that uses the\n"
      "library writes the same of its own calls: LSSAR_CAPTURE_DIR=FOLDER, with\n"
      "LSSAR_CAPTURE_INPUTS=1 for their tensors.\n\n"
      "Example:\n"
      "  lssar capture --pass backward --seq 512 --heads 4 --inputs -o case.lssar\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return capture_call(*options); }; });
}

}  // namespace lssar::command
