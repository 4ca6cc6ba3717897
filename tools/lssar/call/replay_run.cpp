#include "tools/lssar/call/replay_run.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cache/sha256.h"
#include "reference/numerics.h"
#include "runtime/params_layout.h"
#include "runtime/replay.h"
#include "runtime/tensor_copy.h"
#include "tools/lssar/call/call_memory.h"
#include "tools/lssar/options/overrides.h"

namespace lssar::command {
namespace {

constexpr int kGpuWarmUps = 3;
constexpr int kGpuRuns = 20;
constexpr int kSlowRuns = 1;  // the virtual device's runs are all alike, and slow
// Limit for one tensor with its gaps, because sizes and strides come from a file.
constexpr int64_t kMaxExtentBytes = int64_t{8} << 30;

std::vector<float> decoded(DType dtype, const std::string& packed) {
  return unpack(dtype, std::as_bytes(std::span(packed)));
}

Status check_layout(const Capture& capture) {
  if (capture.params_layout == params_layout()) return {};
  return unsupported(fmt::format(
      "its kernels were made by lssar {} and take other parameters than this one gives; allowed "
      "are --regenerate, and a replay by that version",
      capture.version));
}

bool image_fits(const Image& image, const DeviceInfo& device) {
  if (image.target != device.target.name()) return false;
  return device.kind != "virtual" || image.kind == ImageKind::kPtx;
}

Result<ReplayedKernel> regenerated(Engine& engine, const Problem& problem, const Schedule& schedule,
                                   bool was_captured) {
  ReplayedKernel replayed;
  LSSAR_ASSIGN_OR_RETURN(replayed.kernel, engine.prepare(problem, schedule));
  const std::string& file = replayed.kernel->override_path;
  replayed.origin = (file.empty() ? "what is generated today" : file) +
                    (was_captured ? ", " : " with the default schedule, ") +
                    image_origin_text(*replayed.kernel);
  replayed.was_captured = was_captured;
  return replayed;
}

Result<ReplayedKernel> prepare_captured(Engine& engine, const CapturedKernel& captured,
                                        const ReplayRequest& request) {
  const DeviceInfo& device = engine.device().info();
  LSSAR_RETURN_IF_ERROR(
      validate(captured.schedule, captured.problem, device.target)
          .with_context(fmt::format("{}, captured for {}, here on {}", captured.source.name,
                                    captured.target, device.target.name())));
  if (request.regenerate) return regenerated(engine, captured.problem, captured.schedule, true);
  ReplayedKernel replayed;
  if (!request.recompile && image_fits(captured.image, device)) {
    const std::string key = "captured " + to_hex(sha256(captured.image.bytes));
    LSSAR_ASSIGN_OR_RETURN(
        replayed.kernel, engine.prepare_image(captured.problem, captured.schedule, captured.source,
                                              captured.image, key));
    replayed.origin = fmt::format("the captured image ({} by {})",
                                  image_kind_name(captured.image.kind), captured.compiler);
    return replayed;
  }
  LSSAR_ASSIGN_OR_RETURN(
      replayed.kernel, engine.prepare_source(captured.problem, captured.schedule, captured.source));
  LSSAR_ASSIGN_OR_RETURN(const auto compiler, engine.compiler());
  replayed.origin = fmt::format(
      "the captured source for {} by {} {}, {}{}", device.target.name(), compiler->name(),
      compiler->version(), image_origin_text(*replayed.kernel),
      request.recompile ? ""
                        : fmt::format(", since the captured image is a {} for {}",
                                      image_kind_name(captured.image.kind), captured.image.target));
  return replayed;
}

// Whether this generator still emits the captured source for the captured target.
Result<bool> generator_agrees(const CapturedKernel& captured) {
  LSSAR_ASSIGN_OR_RETURN(const Target target, target_from_name(captured.target));
  LSSAR_ASSIGN_OR_RETURN(const KernelSource now,
                         emit_kernel(captured.problem, captured.schedule, target));
  return source_without_header(now.source) == source_without_header(captured.source.source) &&
         now.steps == captured.source.steps;
}

class ReplayRun {
 public:
  ReplayRun(Engine& engine, const Capture& capture, const ReplayRequest& request)
      : engine_(engine),
        capture_(capture),
        request_(request),
        problem_(capture.kernel().problem),
        schedule_(capture.kernel().schedule),
        memory_(engine.shared_device()) {}

  Result<Replay> run() {
    if (!request_.regenerate) LSSAR_RETURN_IF_ERROR(check_layout(capture_));
    LSSAR_RETURN_IF_ERROR(lay_out());
    LSSAR_RETURN_IF_ERROR(prepare());
    LSSAR_RETURN_IF_ERROR(check_overrides());
    LSSAR_RETURN_IF_ERROR(give_inputs());
    LSSAR_RETURN_IF_ERROR(run_kernels());
    LSSAR_RETURN_IF_ERROR(collect());
    LSSAR_RETURN_IF_ERROR(repeat());
    return std::move(replay_);
  }

 private:
  // Whether the forward for training must make what a backward reads.
  bool needs_forward() const { return problem_.pass == Pass::kBackward && !capture_.has_inputs(); }

  Status lay_out() {
    LSSAR_ASSIGN_OR_RETURN(operands_, operands_of(capture_));
    if (request_.contiguous) {
      Tensors layout = contiguous_layout(problem_, capture_.sizes);
      for (const CapturedTensor& tensor : capture_.tensors)  // an operand, if it is given
        if (tensor.name == "row_stats") layout.row_stats = 256;
      LSSAR_ASSIGN_OR_RETURN(operands_, call_operands(problem_, schedule_, capture_.sizes, layout));
    }
    for (const Operand& operand : operands_) {
      LSSAR_ASSIGN_OR_RETURN(const int64_t bytes, extent_bytes(operand));
      if (bytes <= kMaxExtentBytes) continue;
      return invalid_argument(fmt::format(
          "{}: its strides {}, {}, {} reach over {} bytes, allowed are {}; --contiguous leaves the "
          "gaps out",
          operand.name, operand.strides[0], operand.strides[1], operand.strides[2], bytes,
          kMaxExtentBytes));
    }
    return memory_.add(operands_);
  }

  // Captured kernels are never overridden.
  Status check_overrides() const {
    if (!request_.regenerate) return {};
    PreparedKernels kernels;
    for (const ReplayedKernel& one : replay_.kernels) kernels.push_back(one.kernel);
    return check_overridden(kernels);
  }

  Status prepare() {
    const std::vector<CapturedKernel>& captured = capture_.kernels;
    if (needs_forward() && captured.size() == 1) {
      Problem problem = problem_;
      problem.pass = Pass::kForwardTrain;
      const Schedule schedule = default_schedule(problem, engine_.device().info().target,
                                                 DqMode::kSplit, schedule_.epsilon);
      LSSAR_ASSIGN_OR_RETURN(ReplayedKernel kernel, regenerated(engine_, problem, schedule, false));
      replay_.kernels.push_back(std::move(kernel));
    }
    for (size_t i = needs_forward() ? 0 : captured.size() - 1; i < captured.size(); ++i) {
      LSSAR_ASSIGN_OR_RETURN(ReplayedKernel kernel,
                             prepare_captured(engine_, captured[i], request_));
      LSSAR_ASSIGN_OR_RETURN(kernel.generator_agrees, generator_agrees(captured[i]));
      replay_.kernels.push_back(std::move(kernel));
    }
    return {};
  }

  Status give_inputs() {
    if (!capture_.has_inputs()) return give_random_inputs();
    for (int i = 0; i < operands_.count; ++i) {
      if (operands_.items[i].written) continue;
      const CapturedTensor& tensor = capture_.tensors[static_cast<size_t>(i)];
      if (!tensor.packed) {
        return invalid_argument(
            fmt::format("tensor/{}: missing, although other inputs were captured", tensor.name));
      }
      LSSAR_RETURN_IF_ERROR(memory_.upload(tensor.name, *tensor.packed));
      if (tensor.name == "q") replay_.inputs.q = decoded(problem_.dtype, *tensor.packed);
      if (tensor.name == "k") replay_.inputs.k = decoded(problem_.dtype, *tensor.packed);
      if (tensor.name == "v") replay_.inputs.v = decoded(problem_.dtype, *tensor.packed);
      if (tensor.name == "grad_o") replay_.inputs.grad_o = decoded(problem_.dtype, *tensor.packed);
      if (tensor.name == "sink") replay_.inputs.sink = decoded(DType::kFp32, *tensor.packed);
      if (tensor.name == "rotary_cos")
        replay_.inputs.rotary_cos = decoded(DType::kFp32, *tensor.packed);
      if (tensor.name == "rotary_sin")
        replay_.inputs.rotary_sin = decoded(DType::kFp32, *tensor.packed);
      if (tensor.name == "alibi_slopes")
        replay_.inputs.alibi_slopes = decoded(DType::kFp32, *tensor.packed);
    }
    return {};
  }

  Status give_random_inputs() {
    RandomInputs random = random_inputs(problem_, capture_.sizes, request_.data, request_.seed);
    replay_.inputs = {std::move(random.q),          std::move(random.k),
                      std::move(random.v),          std::move(random.grad_o),
                      std::move(random.sink),       std::move(random.rotary_cos),
                      std::move(random.rotary_sin), std::move(random.alibi_slopes)};
    const std::pair<const char*, const std::vector<float>*> given[] = {
        {"q", &replay_.inputs.q},
        {"k", &replay_.inputs.k},
        {"v", &replay_.inputs.v},
        {"grad_o", &replay_.inputs.grad_o},
        {"sink", &replay_.inputs.sink},
        {"rotary_cos", &replay_.inputs.rotary_cos},
        {"rotary_sin", &replay_.inputs.rotary_sin},
        {"alibi_slopes", &replay_.inputs.alibi_slopes}};
    for (const auto& [name, values] : given) {
      if (!memory_.has(name)) continue;
      const bool is_float32 = std::string_view(name) == "sink" ||
                              std::string_view(name) == "alibi_slopes" ||
                              std::string_view(name).starts_with("rotary");
      const std::vector<std::byte> bytes =
          pack(is_float32 ? DType::kFp32 : problem_.dtype, *values);
      LSSAR_RETURN_IF_ERROR(memory_.upload(
          name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
    }
    if (!needs_forward()) return {};
    Problem forward = problem_;
    forward.pass = Pass::kForwardTrain;
    LSSAR_ASSIGN_OR_RETURN(const Operands operands,
                           call_operands(forward, schedule_, capture_.sizes,
                                         contiguous_layout(forward, capture_.sizes)));
    return memory_.add(operands);  // o; the rest is there
  }

  // Milliseconds by the device's own clock.
  Result<double> execute(const PreparedKernel& kernel) {
    Device& device = engine_.device();
    LSSAR_RETURN_IF_ERROR(device.timer_begin(nullptr));
    LSSAR_RETURN_IF_ERROR(engine_.execute(kernel, capture_.sizes, memory_.tensors(),
                                          {workspace_.ptr(), workspace_.bytes()}, nullptr));
    LSSAR_RETURN_IF_ERROR(device.synchronize(nullptr));
    return device.timer_end_ms(nullptr);
  }

  Status run_kernels() {
    size_t bytes = 0;
    for (const ReplayedKernel& one : replay_.kernels) {
      LSSAR_ASSIGN_OR_RETURN(
          const WorkspaceLayout layout,
          workspace_layout(one.kernel->problem, one.kernel->schedule, capture_.sizes));
      bytes = std::max(bytes, layout.total_bytes);
      const bool is_last = &one == &replay_.kernels.back();
      if (is_last && !request_.regenerate && layout.total_bytes != capture_.workspace_bytes) {
        return unsupported(fmt::format(
            "its kernels were made by lssar {} for a workspace of {} bytes, this one gives {}; "
            "allowed are --regenerate, and a replay by that version",
            capture_.version, capture_.workspace_bytes, layout.total_bytes));
      }
    }
    LSSAR_ASSIGN_OR_RETURN(workspace_, DeviceBuffer::allocate(engine_.shared_device(), bytes));
    for (const ReplayedKernel& one : replay_.kernels) {
      LSSAR_ASSIGN_OR_RETURN(const double ms, execute(*one.kernel));
      replay_.timing.ms = {ms};
    }
    replay_.counters = engine_.device().kernel_counters();
    return {};
  }

  // Keeps the decoded `packed` of the output `name`.
  void keep(const std::string& name, const std::string& packed, AttentionOutputs* outputs) const {
    if (name == "o") outputs->o = decoded(problem_.dtype, packed);
    if (name == "saved_o") outputs->saved_o = decoded(DType::kBf16, packed);
    if (name == "grad_q") outputs->grad_q = decoded(problem_.dtype, packed);
    if (name == "grad_k") outputs->grad_k = decoded(problem_.dtype, packed);
    if (name == "grad_v") outputs->grad_v = decoded(problem_.dtype, packed);
    if (name == "grad_sink") outputs->grad_sink = decoded(DType::kFp32, packed);
  }

  // saved_x is 16-bit or float32, by the problem's type, and saved_o is 16-bit. Other tensors that
  // are given in bytes are float32.
  size_t element_bytes(const Operand& operand) const {
    const std::string name = operand.name;
    if (name == "saved_x") return problem_.dtype == DType::kFp32 ? 4 : 2;
    if (name == "saved_o") return 2;
    return operand.elem_bytes == 1 ? 4 : static_cast<size_t>(operand.elem_bytes);
  }

  BitComparison compare_bits(const Operand& operand, const std::string& wanted,
                             const std::string& found) const {
    const size_t bytes = element_bytes(operand);
    BitComparison bits;
    bits.name = operand.name;
    bits.num_elements = wanted.size() / bytes;
    for (size_t i = bits.num_elements; i-- > 0;) {
      if (std::memcmp(wanted.data() + i * bytes, found.data() + i * bytes, bytes) == 0) continue;
      ++bits.num_different;
      bits.first_different = i;
    }
    return bits;
  }

  Status collect() {
    for (int i = 0; i < operands_.count; ++i) {
      const Operand& operand = operands_.items[i];
      const CapturedTensor& tensor = capture_.tensors[static_cast<size_t>(i)];
      // What the captured forward saved is checked too, because it may be wrong.
      if (tensor.packed) keep(tensor.name, *tensor.packed, &replay_.captured);
      if (!operand.written) continue;
      LSSAR_ASSIGN_OR_RETURN(std::string found, memory_.download(tensor.name));
      keep(tensor.name, found, &replay_.outputs);
      if (tensor.packed) replay_.bits.push_back(compare_bits(operand, *tensor.packed, found));
      found_.push_back(std::move(found));
    }
    if (needs_forward()) {
      for (const char* name : {"o", "saved_o"}) {
        LSSAR_ASSIGN_OR_RETURN(const std::string found, memory_.download(name));
        keep(name, found, &replay_.outputs);
      }
    }
    return {};
  }

  Status repeat() {
    ReplayTiming& timing = replay_.timing;
    timing.is_gpu = engine_.device().info().kind == "cuda";
    const int runs = request_.times > 0 ? request_.times : timing.is_gpu ? kGpuRuns : kSlowRuns;
    const PreparedKernel& kernel = *replay_.kernels.back().kernel;
    if (timing.is_gpu) {
      for (int i = 0; i < kGpuWarmUps; ++i) LSSAR_RETURN_IF_ERROR(execute(kernel).status());
      timing.ms.clear();
    }
    while (timing.ms.size() < static_cast<size_t>(runs)) {
      LSSAR_ASSIGN_OR_RETURN(const double ms, execute(kernel));
      timing.ms.push_back(ms);
    }
    std::sort(timing.ms.begin(), timing.ms.end());
    if (!timing.is_gpu && runs == 1) return {};
    size_t next = 0;
    for (const Operand& operand : operands_) {
      if (!operand.written) continue;
      LSSAR_ASSIGN_OR_RETURN(const std::string found, memory_.download(operand.name));
      timing.repeats = timing.repeats && found == found_[next++];
    }
    return {};
  }

  Engine& engine_;
  const Capture& capture_;
  const ReplayRequest& request_;
  const Problem problem_;
  const Schedule schedule_;
  Operands operands_;
  CallMemory memory_;
  DeviceBuffer workspace_;
  std::vector<std::string> found_;  // the written operands after the first run
  Replay replay_;
};

}  // namespace

double ReplayTiming::median() const { return ms.empty() ? 0 : ms[ms.size() / 2]; }

Result<Replay> run_replay(Engine& engine, const Capture& capture, const ReplayRequest& request) {
  return ReplayRun(engine, capture, request).run();
}

}  // namespace lssar::command
