#include "tools/lssar/call/attention_run.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "reference/numerics.h"
#include "reference/rotary.h"
#include "runtime/capture.h"
#include "runtime/replay.h"
#include "tools/lssar/options/schedule_options.h"
#include "tools/lssar/terminal/work_progress.h"

namespace lssar::command {

void log_prepared(const PreparedKernel& kernel, Engine& engine, const ScheduleChoice& choice) {
  if (!log_enabled(LogLevel::kInfo)) return;
  log(LogLevel::kInfo, "prepare: " + prepare_line(kernel, engine, choice.reason));
}

namespace {

// A GPU's first launch includes loading. On the virtual device all runs take equally long, and are
// slow.
constexpr int kGpuRuns = 6;

std::string packed(DType dtype, const std::vector<float>& values) {
  const std::vector<std::byte> bytes = pack(dtype, values);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::array<std::pair<const char*, const std::vector<float>*>, 4> float32_inputs(
    const AttentionInputs& inputs) {
  return {{{"sink", &inputs.sink},
           {"rotary_cos", &inputs.rotary_cos},
           {"rotary_sin", &inputs.rotary_sin},
           {"alibi_slopes", &inputs.alibi_slopes}}};
}

class AttentionRun {
 public:
  AttentionRun(Engine& engine, const Problem& problem, const Sizes& sizes,
               const SequencesOfCall* sequences, std::vector<ScheduleChooser::PassChoice> passes,
               CallMemory& memory)
      : engine_(engine),
        device_(engine.shared_device()),
        problem_(problem),
        sizes_(sizes),
        sequences_(sequences),
        passes_(std::move(passes)),
        memory_(memory) {}

  Status upload(const AttentionInputs& inputs) {
    for (const ScheduleChooser::PassChoice& pass : passes_) {
      Problem problem = pass.problem;
      if (sequences_ != nullptr) problem.seq_q = problem.seq_k = 0;  // tensors have all sequences
      LSSAR_ASSIGN_OR_RETURN(
          const Operands operands,
          call_operands(problem, pass.choice.schedule, sizes_, contiguous_layout(problem, sizes_)));
      LSSAR_RETURN_IF_ERROR(memory_.add(operands));
    }
    const auto upload_one = [&](const char* name, const std::vector<float>& values) {
      return memory_.upload(name, packed(problem_.dtype, values));
    };
    LSSAR_RETURN_IF_ERROR(upload_one("q", inputs.q));
    LSSAR_RETURN_IF_ERROR(upload_one("k", inputs.k));
    LSSAR_RETURN_IF_ERROR(upload_one("v", inputs.v));
    for (const auto& [name, values] : float32_inputs(inputs)) {
      if (memory_.has(name))
        LSSAR_RETURN_IF_ERROR(memory_.upload(name, packed(DType::kFp32, *values)));
    }
    return memory_.has("grad_o") ? upload_one("grad_o", inputs.grad_o) : Status();
  }

  // Prepares every pass of the call, without running it.
  Result<std::vector<PassReport>> prepare() {
    std::vector<PassReport> reports;
    for (const ScheduleChooser::PassChoice& pass : passes_) {
      PassReport report;
      report.choice = pass.choice;
      LSSAR_ASSIGN_OR_RETURN(report.kernel, engine_.prepare(pass.problem, pass.choice.schedule));
      log_prepared(*report.kernel, engine_, report.choice);
      reports.push_back(std::move(report));
    }
    return reports;
  }

  // Runs the pass of `report` and sets its times.
  Status run_pass(PassReport& report, bool quiet) {
    const Problem& problem = report.kernel->problem;
    const WorkProgress progress(report.kernel->source.name, quiet, [this] {
      const LaunchProgress now = device_->progress();
      return WorkProgress::Now{static_cast<double>(now.done), static_cast<double>(now.blocks)};
    });
    LSSAR_ASSIGN_OR_RETURN(const size_t workspace_bytes,
                           workspace_bytes_of(problem, report.kernel->schedule));
    DeviceBuffer workspace;
    LSSAR_ASSIGN_OR_RETURN(workspace, DeviceBuffer::allocate(device_, workspace_bytes));
    report.num_runs = device_->info().kind == "cuda" ? kGpuRuns : 1;
    for (int i = 0; i < report.num_runs; ++i) {
      LSSAR_RETURN_IF_ERROR(device_->timer_begin(nullptr));
      LSSAR_RETURN_IF_ERROR(execute(*report.kernel, {workspace.ptr(), workspace.bytes()}));
      LSSAR_RETURN_IF_ERROR(device_->synchronize(nullptr));
      LSSAR_ASSIGN_OR_RETURN(const double ms, device_->timer_end_ms(nullptr));
      report.run_ms = i == 0 ? ms : std::min(report.run_ms, ms);
    }
    return {};
  }

  Status download(AttentionOutputs* outputs) const {
    const auto download_one = [&](const char* name, DType dtype, std::vector<float>* values) {
      if (!memory_.has(name)) return Status();
      LSSAR_ASSIGN_OR_RETURN(const std::string bytes, memory_.download(name));
      *values = unpack(dtype, std::as_bytes(std::span(bytes)));
      return Status();
    };
    LSSAR_RETURN_IF_ERROR(download_one("o", problem_.dtype, &outputs->o));
    LSSAR_RETURN_IF_ERROR(download_one("saved_o", DType::kBf16, &outputs->saved_o));
    LSSAR_RETURN_IF_ERROR(download_one("grad_q", problem_.dtype, &outputs->grad_q));
    LSSAR_RETURN_IF_ERROR(download_one("grad_k", problem_.dtype, &outputs->grad_k));
    LSSAR_RETURN_IF_ERROR(download_one("grad_sink", DType::kFp32, &outputs->grad_sink));
    return download_one("grad_v", problem_.dtype, &outputs->grad_v);
  }

 private:
  Result<size_t> workspace_bytes_of(const Problem& problem, const Schedule& schedule) const {
    if (sequences_ != nullptr)
      return sequences_workspace_bytes(problem, schedule, sequences_->sizes, sizes_.seq_q,
                                       sizes_.seq_k);
    LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                           workspace_layout(problem, schedule, sizes_));
    return layout.total_bytes;
  }

  Status execute(const PreparedKernel& kernel, const Workspace& workspace) const {
    if (sequences_ == nullptr)
      return engine_.execute(kernel, sizes_, memory_.tensors(), workspace, nullptr);
    return engine_.execute_sequences(kernel, sequences_->sizes, sequences_->sequences,
                                     memory_.tensors(), workspace, nullptr);
  }

  Engine& engine_;
  const std::shared_ptr<Device> device_;
  const Problem problem_;
  const Sizes sizes_;
  const SequencesOfCall* const sequences_;  // null: none
  const std::vector<ScheduleChooser::PassChoice> passes_;
  CallMemory& memory_;
};

Result<AttentionOutputs> run_passes(Engine& engine, const Problem& problem, const Sizes& sizes,
                                    const SequencesOfCall* sequences,
                                    const ScheduleChooser& chooser, const AttentionInputs& inputs,
                                    bool quiet, CallMemory& memory) {
  if (is_of_range(problem.pass)) {
    return invalid_argument(
        fmt::format("pass = {}: its results are merged by a program, through the C API; allowed "
                    "are forward, forward-train and backward",
                    pass_name(problem.pass)));
  }
  if (engine.device().info().kind == "record") {
    return invalid_argument(
        "--device record: it notes calls and computes nothing, so there would be no results; "
        "allowed are auto, cpu, cuda and virtual");
  }
  LSSAR_ASSIGN_OR_RETURN(
      std::vector<ScheduleChooser::PassChoice> passes,
      chooser.choose_passes(problem, sequences == nullptr ? sizes : sequences->sizes));
  AttentionRun run(engine, problem, sizes, sequences, std::move(passes), memory);
  LSSAR_RETURN_IF_ERROR(run.upload(inputs));
  AttentionOutputs outputs;
  LSSAR_ASSIGN_OR_RETURN(outputs.passes, run.prepare());
  LSSAR_RETURN_IF_ERROR(check_overridden(kernels_of(outputs.passes)));
  for (PassReport& report : outputs.passes) LSSAR_RETURN_IF_ERROR(run.run_pass(report, quiet));
  LSSAR_RETURN_IF_ERROR(run.download(&outputs));
  return outputs;
}

}  // namespace

Status complete_inputs(const Problem& problem, const Sizes& sizes, AttentionInputs* inputs) {
  const ScoreFunction& score = problem.score;
  for (const auto& [field, is_given] : {std::pair{"sink", score.sink != Sink::kNone},
                                        std::pair{"alibi", score.alibi != Alibi::kNone}}) {
    if (is_given)
      return invalid_argument(fmt::format(
          "score.{} = per_head: no option gives its values from a file; allowed with random inputs",
          field));
  }
  RotaryTables tables = rotary_tables(sizes.seq_k, problem.rotary_dim);
  inputs->rotary_cos = std::move(tables.cos);
  inputs->rotary_sin = std::move(tables.sin);
  return {};
}

std::vector<float> unrounded_o(const AttentionOutputs& outputs) {
  std::vector<float> sum = outputs.o;
  std::transform(sum.begin(), sum.end(), outputs.saved_o.begin(), sum.begin(), std::plus<>());
  return sum;
}

Result<AttentionOutputs> run_attention(Engine& engine, const Problem& problem, const Sizes& sizes,
                                       const ScheduleChooser& chooser,
                                       const AttentionInputs& inputs, bool quiet,
                                       CallMemory& memory) {
  return run_passes(engine, problem, sizes, nullptr, chooser, inputs, quiet, memory);
}

Result<AttentionOutputs> run_attention(Engine& engine, const Problem& problem, const Sizes& sizes,
                                       const ScheduleChooser& chooser,
                                       const AttentionInputs& inputs, bool quiet) {
  CallMemory memory(engine.shared_device());
  return run_attention(engine, problem, sizes, chooser, inputs, quiet, memory);
}

Result<AttentionOutputs> run_sequences(Engine& engine, const Problem& problem, const Sizes& sizes,
                                       const SequencesOfCall& sequences,
                                       const ScheduleChooser& chooser,
                                       const AttentionInputs& inputs, bool quiet) {
  CallMemory memory(engine.shared_device());
  SequencesOfCall on_device = sequences;
  std::vector<DeviceBuffer> lengths;
  const auto upload = [&](const int32_t*& numbers, int64_t count) -> Status {
    if (numbers == nullptr) return {};
    const size_t bytes = static_cast<size_t>(count) * sizeof(int32_t);
    LSSAR_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                           DeviceBuffer::allocate(engine.shared_device(), bytes));
    LSSAR_RETURN_IF_ERROR(engine.device().copy_to_device(buffer.ptr(), numbers, bytes));
    numbers = reinterpret_cast<const int32_t*>(buffer.ptr());
    lengths.push_back(std::move(buffer));
    return {};
  };
  const int64_t count = sequences.sizes.batch;
  LSSAR_RETURN_IF_ERROR(upload(on_device.sequences.cu_seqlens_q, count + 1));
  LSSAR_RETURN_IF_ERROR(upload(on_device.sequences.cu_seqlens_k, count + 1));
  LSSAR_RETURN_IF_ERROR(upload(on_device.sequences.seqused_q, count));
  LSSAR_RETURN_IF_ERROR(upload(on_device.sequences.seqused_k, count));
  return run_passes(engine, problem, sizes, &on_device, chooser, inputs, quiet, memory);
}

PreparedKernels kernels_of(const std::vector<PassReport>& passes) {
  PreparedKernels kernels;
  for (const PassReport& pass : passes) kernels.push_back(pass.kernel);
  return kernels;
}

nlohmann::json report_json(const std::vector<PassReport>& passes) {
  nlohmann::json list = nlohmann::json::array();
  for (const PassReport& pass : passes) {
    nlohmann::json one = {{"kernel", pass.kernel->source.name},
                          {"key", pass.kernel->key},
                          {"override", pass.kernel->override_path},
                          {"image", image_origin_text(*pass.kernel)},
                          {"run_ms", pass.run_ms},
                          {"runs", pass.num_runs}};
    describe_choice(pass.choice, &one);
    list.push_back(std::move(one));
  }
  return list;
}

void print_report(Engine& engine, const std::vector<PassReport>& passes) {
  const DeviceInfo& device = engine.device().info();
  const Result<std::shared_ptr<const Compiler>> compiler = engine.compiler();
  const std::string compiler_name =
      compiler.ok() ? (*compiler)->name() + " " + (*compiler)->version() : "no compiler";
  for (const PassReport& pass : passes) {
    const PreparedKernel& kernel = *pass.kernel;
    fmt::print("{}: {} for {}, {} | {} | ran in {:.3f} ms{}\n", kernel.source.name, device.name,
               device.target.name(), compiler_name, image_origin_text(kernel), pass.run_ms,
               pass.num_runs > 1 ? fmt::format(" (least of {})", pass.num_runs) : "");
    print_choice(stdout, pass.choice);
  }
}

}  // namespace lssar::command
