// lssar replay: repeats a captured call here, checks it, compares it with what was captured, times
// it.
#include <cstdlib>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/lssar/call/capture_files.h"
#include "tools/lssar/call/data_options.h"
#include "tools/lssar/call/replay_run.h"
#include "tools/lssar/call/replay_text.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/number_option.h"
#include "tools/lssar/options/problem_options.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/print_text.h"
#include "tools/lssar/terminal/standard_streams.h"
#include "virtual/run/virtual_device.h"

namespace lssar::command {
namespace {

struct ReplayOptions {
  std::string file;
  ExecutionOptions execution;
  std::string target;
  std::string extract;
  DataOptions data;
  ReplayRequest request;
  bool no_reference = false;
  bool json = false;
};

// Uses the device's own target; if it has none (the virtual device), the capture's. The virtual
// device is opened again as one that counts. What was captured on a CPU runs on no other device.
Result<std::unique_ptr<Engine>> open_engine(const ReplayOptions& options, const Capture& capture) {
  LSSAR_ASSIGN_OR_RETURN(EngineOptions engine_options,
                         options.execution.engine_options(options.target));
  LSSAR_ASSIGN_OR_RETURN(const Target captured, target_from_name(capture.kernel().target));
  if (captured.is_cpu() && engine_options.device == DeviceChoice::kAuto)
    engine_options.device = DeviceChoice::kCpu;
  LSSAR_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::open(engine_options));
  const std::string& kind = engine->device().info().kind;
  if (captured.is_cpu() && kind != "cpu")
    return invalid_argument(
        fmt::format("--device {}: the capture is of a kernel for {}; allowed are auto and cpu",
                    kind, captured.name()));
  if (kind == "cuda" || kind == "cpu") return engine;
  if (kind == "record")
    return invalid_argument(
        "--device record computes nothing: allowed are auto, cpu, cuda, virtual");
  VirtualOptions counting;
  LSSAR_ASSIGN_OR_RETURN(
      counting.target,
      target_from_name(options.target.empty() ? capture.kernel().target : options.target));
  counting.count = true;
  return Engine::create(engine_options, make_virtual_device(counting), nullptr,
                        engine->shared_store());
}

// The capture does not say which kind of numbers its inputs are.
Result<ReplayRequest> make_request(const ReplayOptions& options, const Capture& capture) {
  ReplayRequest request = options.request;
  if (capture.has_inputs() && options.data.is_given()) {
    return invalid_argument(
        "--seed, --data: the capture has inputs of its own; allowed for captures without");
  }
  const bool is_given = capture.data == "given" && !options.data.has_kind();
  LSSAR_ASSIGN_OR_RETURN(request.data, options.data.kind(is_given ? "gauss" : capture.data));
  request.seed = options.data.seed(is_given ? 1 : capture.seed);
  return request;
}

Result<ReplayVerdict> check(const Capture& capture, const Replay& replay, bool quiet) {
  const Problem& problem = capture.kernel().problem;
  LSSAR_ASSIGN_OR_RETURN(const ReferenceOutputs reference,
                         checked_reference(problem, capture.sizes, replay.inputs, quiet));
  const auto compared = [&](const AttentionOutputs& outputs) {
    std::vector<CheckedTensor> tensors;
    const auto add = [&](OutputTensor tensor, const char* name, const std::vector<float>& values) {
      if (!values.empty()) tensors.push_back({tensor, name, values});
    };
    add(OutputTensor::kO, "o", outputs.o);
    if (!outputs.saved_o.empty()) add(OutputTensor::kO, "saved_o", unrounded_o(outputs));
    add(OutputTensor::kDq, "dq", outputs.grad_q);
    add(OutputTensor::kDk, "dk", outputs.grad_k);
    add(OutputTensor::kDv, "dv", outputs.grad_v);
    if (!outputs.grad_sink.empty()) add(OutputTensor::kDsink, "dsink", outputs.grad_sink);
    return compare_all(problem, capture.sizes, tensors, reference);
  };
  ReplayVerdict verdict;
  verdict.was_checked = true;
  verdict.here = compared(replay.outputs);
  verdict.captured = compared(replay.captured);
  return verdict;
}

Result<int> extract(const Capture& capture, const ReplayOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<std::string> written,
                         write_capture_files(options.extract, capture));
  for (const std::string& path : written) print_text("{}\n", path);
  return static_cast<int>(kDone);
}

Result<int> replay_file(const ReplayOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const Capture capture, read_capture(options.file));
  if (!options.extract.empty()) return extract(capture, options);
  LSSAR_ASSIGN_OR_RETURN(const ReplayRequest request, make_request(options, capture));
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, open_engine(options, capture));
  if (!request.regenerate && std::getenv("LSSAR_OVERRIDE_DIR") != nullptr)
    tell("lssar: LSSAR_OVERRIDE_DIR is not used: the captured kernels run; --regenerate uses it\n");
  const Result<Replay> replay = run_replay(*engine, capture, request);
  if (!replay.ok()) return replay.status().with_context("'" + options.file + "'");
  ReplayVerdict verdict;
  if (!options.no_reference) {
    LSSAR_ASSIGN_OR_RETURN(verdict, check(capture, *replay, options.execution.quiet()));
  }
  verdict.data = capture.has_inputs()
                     ? "captured inputs"
                     : fmt::format("{} data, seed {}", input_kind_name(request.data), request.seed);
  const DeviceInfo& device = engine->device().info();
  if (options.json) {
    print_json(replay_json(options.file, capture, *replay, verdict, device));
  } else {
    print_replay(options.file, capture, *replay, verdict, device, options.execution.quiet());
  }
  return static_cast<int>(verdict.passed() ? kDone : kWrongNumbers);
}

}  // namespace

void add_replay(CLI::App& app, Action* action) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App* sub = app.add_subcommand("replay", "A captured call done again, checked and timed");
  sub->add_option("file", options->file, "what lssar capture or LSSAR_CAPTURE_DIR wrote")
      ->type_name("FILE")
      ->required();
  options->execution.add_to(*sub);
  const auto flag = [&](const char* name, bool& value, const char* help) {
    return sub->add_flag(name, value, help)->group("Replay");
  };
  sub->add_option("--target", options->target,
                  "architecture to make it for (default: the device's own; virtual: as captured)")
      ->type_name("ARCH")
      ->group("Execution");
  CLI::Option* const recompile =
      flag("--recompile", options->request.recompile,
           "compile the captured source, although the captured image would do");
  flag("--regenerate", options->request.regenerate,
       "run what the generator makes today of the captured problem and schedule")
      ->excludes(recompile);
  flag("--contiguous", options->request.contiguous,
       "lay the tensors without gaps, instead of by the captured strides");
  flag("--no-reference", options->no_reference,
       "do not compare with the float64 reference, which is slow for long sequences");
  add_whole(*sub, "--times", options->request.times,
            "timed runs (default: 20 on a GPU, 1 on the virtual device)", 1, 1'000'000)
      ->group("Replay");
  options->data.add_to(*sub);
  sub->add_option(
         "--extract", options->extract,
         "write the capture's parts to DIR and run nothing: JSON, sources, images, tensors (.npy)")
      ->type_name("DIR")
      ->group("Replay");
  flag("--json", options->json, "print one JSON object instead of text");
  sub->footer(
      "\nRuns the captured image where the device has its target, else compiles the captured "
      "source;\n"
      "checks every output as lssar verify does, and compares it bit by bit with what was "
      "captured.\n"
      "NOTE: this runs the code that is in the file: take captures from people you trust.\n\n"
      "Example:\n"
      "  lssar replay case.lssar --device virtual\n\n" +
      exit_code_help());
  sub->callback([options, action] { *action = [options] { return replay_file(*options); }; });
}

}  // namespace lssar::command
