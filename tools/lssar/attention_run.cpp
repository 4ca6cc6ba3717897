#include "tools/lssar/attention_run.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "codegen/numerics.h"
#include "runtime/replay.h"

namespace lssar::command {

void log_prepared(const PreparedKernel& kernel, Engine& engine, bool schedule_given) {
  if (!log_enabled(LogLevel::kInfo)) return;
  log(LogLevel::kInfo,
      "prepare: " + prepare_line(kernel, engine, schedule_given ? "given" : "built-in default"));
}

namespace {

// A GPU's first launch pays for loading; the virtual device's runs are all alike, and slow.
constexpr int kGpuRuns = 6;

// Device memory that is freed with its owner. An error of free has nobody to go to and is dropped.
class DeviceBuffer {
 public:
  static Result<DeviceBuffer> allocate(std::shared_ptr<Device> device, size_t bytes) {
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr ptr, device->allocate(bytes));
    return DeviceBuffer(std::move(device), ptr, bytes);
  }
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(ptr_, other.ptr_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() {
    if (device_) (void)device_->free(ptr_);
  }

  DevicePtr ptr() const { return ptr_; }
  size_t bytes() const { return bytes_; }

 private:
  DeviceBuffer(std::shared_ptr<Device> device, DevicePtr ptr, size_t bytes)
      : device_(std::move(device)), ptr_(ptr), bytes_(bytes) {}

  std::shared_ptr<Device> device_;
  DevicePtr ptr_ = 0;
  size_t bytes_ = 0;
};

struct DeviceTensors {
  DeviceBuffer q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  DeviceBuffer saved_o, saved_stats, saved_x;
};

class AttentionRun {
 public:
  AttentionRun(Engine& engine, const Problem& problem, const Sizes& sizes,
               const ScheduleOptions& schedules)
      : engine_(engine),
        device_(engine.shared_device()),
        problem_(problem),
        sizes_(sizes),
        schedules_(schedules) {}

  Status upload(const AttentionInputs& inputs) {
    LSSAR_RETURN_IF_ERROR(upload_one(inputs.q, &tensors_.q));
    LSSAR_RETURN_IF_ERROR(upload_one(inputs.k, &tensors_.k));
    LSSAR_RETURN_IF_ERROR(upload_one(inputs.v, &tensors_.v));
    LSSAR_RETURN_IF_ERROR(allocate(elems_q(problem_.head_dim_v), &tensors_.o));
    if (problem_.pass == Pass::kForward) return {};

    LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_by_forward());
    LSSAR_RETURN_IF_ERROR(allocate_bytes(saved.o, &tensors_.saved_o));
    LSSAR_RETURN_IF_ERROR(allocate_bytes(saved.stats, &tensors_.saved_stats));
    LSSAR_RETURN_IF_ERROR(allocate_bytes(saved.x, &tensors_.saved_x));
    if (problem_.pass == Pass::kForwardTrain) return {};

    LSSAR_RETURN_IF_ERROR(upload_one(inputs.grad_o, &tensors_.grad_o));
    LSSAR_RETURN_IF_ERROR(allocate(elems_q(problem_.head_dim), &tensors_.grad_q));
    LSSAR_RETURN_IF_ERROR(allocate(elems_k(problem_.head_dim), &tensors_.grad_k));
    return allocate(elems_k(problem_.head_dim_v), &tensors_.grad_v);
  }

  Result<PassReport> run_pass(Pass pass) {
    Problem problem = problem_;
    problem.pass = pass;
    PassReport report;
    LSSAR_ASSIGN_OR_RETURN(const std::optional<Schedule> schedule,
                           schedules_.schedule(problem, device_->info().target));
    LSSAR_ASSIGN_OR_RETURN(report.kernel, engine_.prepare(problem, schedule));
    log_prepared(*report.kernel, engine_, schedule.has_value());
    LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                           workspace_layout(problem, report.kernel->schedule, sizes_));
    DeviceBuffer workspace;
    LSSAR_RETURN_IF_ERROR(allocate_bytes(layout.total_bytes, &workspace));

    const Tensors tensors = describe();
    report.num_runs = device_->info().kind == "cuda" ? kGpuRuns : 1;
    for (int i = 0; i < report.num_runs; ++i) {
      LSSAR_RETURN_IF_ERROR(device_->timer_begin(nullptr));
      LSSAR_RETURN_IF_ERROR(engine_.execute(*report.kernel, sizes_, tensors,
                                            {workspace.ptr(), workspace.bytes()}, nullptr));
      LSSAR_RETURN_IF_ERROR(device_->synchronize(nullptr));
      LSSAR_ASSIGN_OR_RETURN(const double ms, device_->timer_end_ms(nullptr));
      report.run_ms = i == 0 ? ms : std::min(report.run_ms, ms);
    }
    return report;
  }

  Status download(AttentionOutputs* outputs) const {
    LSSAR_RETURN_IF_ERROR(download_one(tensors_.o, problem_.dtype, &outputs->o));
    if (problem_.pass == Pass::kForward) return {};
    LSSAR_RETURN_IF_ERROR(download_one(tensors_.saved_o, DType::kFp32, &outputs->saved_o));
    if (problem_.pass == Pass::kForwardTrain) return {};
    LSSAR_RETURN_IF_ERROR(download_one(tensors_.grad_q, problem_.dtype, &outputs->grad_q));
    LSSAR_RETURN_IF_ERROR(download_one(tensors_.grad_k, problem_.dtype, &outputs->grad_k));
    return download_one(tensors_.grad_v, problem_.dtype, &outputs->grad_v);
  }

 private:
  size_t elems_q(int dim) const { return size_t(sizes_.batch) * sizes_.heads * sizes_.seq_q * dim; }
  size_t elems_k(int dim) const {
    return size_t(sizes_.batch) * sizes_.kv_heads * sizes_.seq_k * dim;
  }

  // One schedule's text is for both passes of a training step.
  Result<SavedBytes> saved_by_forward() const {
    Problem problem = problem_;
    problem.pass = Pass::kForwardTrain;
    LSSAR_ASSIGN_OR_RETURN(const std::optional<Schedule> schedule,
                           schedules_.schedule(problem, device_->info().target));
    return saved_bytes(problem, schedule.value_or(Schedule{}), sizes_);
  }

  Status allocate_bytes(size_t bytes, DeviceBuffer* buffer) {
    LSSAR_ASSIGN_OR_RETURN(*buffer, DeviceBuffer::allocate(device_, bytes));
    return {};
  }
  Status allocate(size_t elems, DeviceBuffer* buffer) {
    return allocate_bytes(elems * dtype_bytes(problem_.dtype), buffer);
  }

  Status upload_one(const std::vector<float>& values, DeviceBuffer* buffer) {
    LSSAR_RETURN_IF_ERROR(allocate(values.size(), buffer));
    const std::vector<std::byte> encoded = pack(problem_.dtype, values);
    return device_->copy_to_device(buffer->ptr(), encoded.data(), encoded.size());
  }

  Status download_one(const DeviceBuffer& buffer, DType dtype, std::vector<float>* values) const {
    std::vector<std::byte> encoded(buffer.bytes());
    LSSAR_RETURN_IF_ERROR(device_->copy_to_host(encoded.data(), buffer.ptr(), encoded.size()));
    *values = unpack(dtype, encoded);
    return {};
  }

  Tensors describe() const {
    const auto query_side = [&](const DeviceBuffer& buffer, int dim) {
      return contiguous_tensor(buffer.ptr(), sizes_.heads, sizes_.seq_q, dim);
    };
    const auto key_side = [&](const DeviceBuffer& buffer, int dim) {
      return contiguous_tensor(buffer.ptr(), sizes_.kv_heads, sizes_.seq_k, dim);
    };
    Tensors tensors;
    tensors.q = query_side(tensors_.q, problem_.head_dim);
    tensors.k = key_side(tensors_.k, problem_.head_dim);
    tensors.v = key_side(tensors_.v, problem_.head_dim_v);
    tensors.o = query_side(tensors_.o, problem_.head_dim_v);
    tensors.grad_o = query_side(tensors_.grad_o, problem_.head_dim_v);
    tensors.grad_q = query_side(tensors_.grad_q, problem_.head_dim);
    tensors.grad_k = key_side(tensors_.grad_k, problem_.head_dim);
    tensors.grad_v = key_side(tensors_.grad_v, problem_.head_dim_v);
    tensors.saved_o = tensors_.saved_o.ptr();
    tensors.saved_stats = tensors_.saved_stats.ptr();
    tensors.saved_x = tensors_.saved_x.ptr();
    return tensors;
  }

  Engine& engine_;
  const std::shared_ptr<Device> device_;
  const Problem problem_;
  const Sizes sizes_;
  const ScheduleOptions& schedules_;
  DeviceTensors tensors_;
};

}  // namespace

Result<AttentionOutputs> run_attention(Engine& engine, const Problem& problem, const Sizes& sizes,
                                       const ScheduleOptions& schedules,
                                       const AttentionInputs& inputs) {
  if (is_of_range(problem.pass)) {
    return invalid_argument(
        fmt::format("pass = {}: its results are merged by a program, through the C API; allowed "
                    "are forward, forward-train and backward",
                    pass_name(problem.pass)));
  }
  AttentionRun run(engine, problem, sizes, schedules);
  LSSAR_RETURN_IF_ERROR(run.upload(inputs));

  AttentionOutputs outputs;
  const bool is_backward = problem.pass == Pass::kBackward;
  LSSAR_ASSIGN_OR_RETURN(PassReport first,
                         run.run_pass(is_backward ? Pass::kForwardTrain : problem.pass));
  outputs.passes.push_back(std::move(first));
  if (is_backward) {
    LSSAR_ASSIGN_OR_RETURN(PassReport second, run.run_pass(Pass::kBackward));
    outputs.passes.push_back(std::move(second));
  }
  LSSAR_RETURN_IF_ERROR(run.download(&outputs));
  return outputs;
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
  }
}

}  // namespace lssar::command
