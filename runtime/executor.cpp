#include "runtime/executor.h"

#include <fmt/format.h>

#include <limits>

namespace lssar {
namespace {

lssar_device::TensorRef tensor_ref(const Tensor& tensor) {
  return {reinterpret_cast<void*>(tensor.data), tensor.batch_stride, tensor.head_stride,
          tensor.row_stride};
}

}  // namespace

lssar_device::AttentionParams attention_params(const Problem& problem, const Sizes& sizes,
                                               const Tensors& tensors, DevicePtr workspace,
                                               const WorkspaceLayout& layout) {
  const auto floats_at = [](DevicePtr ptr) { return reinterpret_cast<float*>(ptr); };
  lssar_device::AttentionParams params{};
  params.q = tensor_ref(tensors.q);
  params.k = tensor_ref(tensors.k);
  params.v = tensor_ref(tensors.v);
  if (problem.pass == Pass::kBackward) {
    params.grad_o = tensor_ref(tensors.grad_o);
    params.grad_q = tensor_ref(tensors.grad_q);
    params.grad_k = tensor_ref(tensors.grad_k);
    params.grad_v = tensor_ref(tensors.grad_v);
  } else {
    params.o = tensor_ref(tensors.o);
  }
  if (problem.pass != Pass::kForward) {
    params.saved_o = floats_at(tensors.saved_o);
    params.saved_stats = floats_at(tensors.saved_stats);
    params.saved_x = reinterpret_cast<void*>(tensors.saved_x);
  }
  params.q_inv_norm = floats_at(workspace + layout.q_inv_norm);
  params.k_inv_norm = floats_at(workspace + layout.k_inv_norm);
  params.row_constants = floats_at(workspace + layout.row_constants);
  params.grad_q_sum = floats_at(workspace + layout.grad_q_sum);
  params.seq_q = sizes.seq_q;
  params.seq_k = sizes.seq_k;
  params.batch = static_cast<int>(sizes.batch);
  params.heads = static_cast<int>(sizes.heads);
  params.kv_heads = static_cast<int>(sizes.kv_heads);
  return params;
}

Result<uint32_t> grid_blocks(const LaunchStep& step, const Sizes& sizes) {
  const bool is_queries = step.grid_rows == GridRows::kQueries;
  const int64_t rows = is_queries ? sizes.seq_q : sizes.seq_k;
  const int64_t heads = is_queries ? sizes.heads : sizes.kv_heads;
  const int64_t row_blocks = (rows + step.rows_per_block - 1) / step.rows_per_block;
  // Each factor is below 2^31, so that the product of three fits in 128 bits.
  const __int128 blocks = static_cast<__int128>(row_blocks) * heads * sizes.batch;
  if (blocks > std::numeric_limits<int32_t>::max()) {
    return invalid_argument(fmt::format(
        "sizes: batch {} x heads {} x {} blocks of {} rows: allowed are 2^31 - 1 blocks in all",
        sizes.batch, heads, row_blocks, step.rows_per_block));
  }
  return static_cast<uint32_t>(blocks);
}

Status launch_steps(Device& device, const std::vector<LaunchStep>& steps,
                    const std::vector<const DeviceFunction*>& functions, const Sizes& sizes,
                    const lssar_device::AttentionParams& params, Stream stream) {
  // Every grid first: an error of the sizes must leave nothing half launched.
  for (const LaunchStep& step : steps) LSSAR_RETURN_IF_ERROR(grid_blocks(step, sizes).status());
  for (size_t i = 0; i < steps.size(); ++i) {
    const uint32_t blocks = *grid_blocks(steps[i], sizes);
    if (blocks == 0) continue;
    LaunchConfig config;
    config.grid[0] = blocks;
    config.block[0] = static_cast<uint32_t>(steps[i].threads);
    config.shared_bytes = static_cast<uint32_t>(steps[i].shared_bytes);
    LSSAR_RETURN_IF_ERROR(device.launch(*functions[i], config, &params, sizeof(params), stream));
  }
  return {};
}

}  // namespace lssar
