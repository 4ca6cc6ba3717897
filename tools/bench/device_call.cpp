#include "tools/bench/device_call.h"

#include "reference/numerics.h"
#include "reference/random_inputs.h"

namespace lssar::bench {

Result<std::unique_ptr<DeviceCall>> DeviceCall::create(Engine& engine, const Problem& problem,
                                                       const Sizes& sizes) {
  std::unique_ptr<DeviceCall> call(new DeviceCall(engine, sizes));
  LSSAR_RETURN_IF_ERROR(call->allocate_tensors(problem));
  LSSAR_RETURN_IF_ERROR(call->upload_inputs(problem));
  if (problem.pass == Pass::kBackward) {
    Problem forward = problem;
    forward.pass = Pass::kForwardTrain;
    LSSAR_RETURN_IF_ERROR(call->prepare(forward));
    LSSAR_RETURN_IF_ERROR(call->run_ms().status());
  }
  LSSAR_RETURN_IF_ERROR(call->prepare(problem));
  return call;
}

DeviceCall::~DeviceCall() {
  // Ignores errors of free, because nobody could handle them.
  for (DevicePtr buffer : buffers_) (void)engine_.device().free(buffer);
}

Result<DevicePtr> DeviceCall::allocate(size_t bytes) {
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr buffer, engine_.device().allocate(bytes));
  buffers_.push_back(buffer);
  return buffer;
}

Status DeviceCall::allocate_tensors(const Problem& problem) {
  const auto make = [&](Tensor* tensor, int64_t heads, int64_t length, int dim) -> Status {
    const int64_t elems = sizes_.batch * heads * length * dim;
    LSSAR_ASSIGN_OR_RETURN(
        const DevicePtr data,
        allocate(static_cast<size_t>(elems) * static_cast<size_t>(dtype_bytes(problem.dtype))));
    *tensor = contiguous_tensor(data, heads, length, dim);
    return {};
  };
  const int d = problem.head_dim, dv = problem.head_dim_v;
  for (Tensor* q : {&tensors_.q, &tensors_.grad_q}) {
    LSSAR_RETURN_IF_ERROR(make(q, sizes_.heads, sizes_.seq_q, d));
  }
  for (Tensor* o : {&tensors_.o, &tensors_.grad_o}) {
    LSSAR_RETURN_IF_ERROR(make(o, sizes_.heads, sizes_.seq_q, dv));
  }
  for (Tensor* k : {&tensors_.k, &tensors_.grad_k}) {
    LSSAR_RETURN_IF_ERROR(make(k, sizes_.kv_heads, sizes_.seq_k, d));
  }
  for (Tensor* v : {&tensors_.v, &tensors_.grad_v}) {
    LSSAR_RETURN_IF_ERROR(make(v, sizes_.kv_heads, sizes_.seq_k, dv));
  }
  LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_bytes(problem, Schedule{}, sizes_));
  LSSAR_ASSIGN_OR_RETURN(tensors_.saved_o, allocate(saved.o));
  LSSAR_ASSIGN_OR_RETURN(tensors_.saved_stats, allocate(saved.stats));
  LSSAR_ASSIGN_OR_RETURN(tensors_.saved_x, allocate(saved.x));
  return {};
}

Status DeviceCall::upload_inputs(const Problem& problem) {
  const RandomInputs inputs = random_inputs(problem, sizes_, InputKind::kGauss, /*seed=*/1);
  const auto upload = [&](const Tensor& tensor, const std::vector<float>& values) {
    const std::vector<std::byte> encoded = pack(problem.dtype, values);
    return engine_.device().copy_to_device(tensor.data, encoded.data(), encoded.size());
  };
  LSSAR_RETURN_IF_ERROR(upload(tensors_.q, inputs.q));
  LSSAR_RETURN_IF_ERROR(upload(tensors_.k, inputs.k));
  LSSAR_RETURN_IF_ERROR(upload(tensors_.v, inputs.v));
  return upload(tensors_.grad_o, inputs.grad_o);
}

Status DeviceCall::prepare(const Problem& problem) {
  LSSAR_ASSIGN_OR_RETURN(kernel_, engine_.prepare(problem));
  LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                         workspace_layout(problem, kernel_->schedule, sizes_));
  LSSAR_ASSIGN_OR_RETURN(workspace_.data, allocate(layout.total_bytes));
  workspace_.bytes = layout.total_bytes;
  return {};
}

Result<double> DeviceCall::run_ms() {
  Device& device = engine_.device();
  LSSAR_RETURN_IF_ERROR(device.timer_begin(nullptr));
  LSSAR_RETURN_IF_ERROR(engine_.execute(*kernel_, sizes_, tensors_, workspace_, nullptr));
  LSSAR_RETURN_IF_ERROR(device.synchronize(nullptr));
  return device.timer_end_ms(nullptr);
}

}  // namespace lssar::bench
