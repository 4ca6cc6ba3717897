#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "codegen/pass_needs.h"
#include "device/thread_value.h"
#include "runtime/multiply_adds.h"

namespace lssar {
namespace {

// The encoded maps of all steps that run, in order.
class CallMaps {
 public:
  Status encode(Device& device, const LaunchStep& step, const CheckedCall& call) {
    for (const MapSpec& spec : step.maps) {
      LSSAR_ASSIGN_OR_RETURN(const TensorMapRequest request, tensor_map_request(spec, call));
      const Result<TensorMap> map = device.encode_tensor_map(request);
      if (!map.ok()) {
        return map.status().with_context(
            fmt::format("{}, {}", step.entry, map_tensor_name(spec.tensor)));
      }
      static_assert(sizeof(*map) == sizeof(maps_[0]));
      std::memcpy(&maps_[count_++], &*map, sizeof(*map));
    }
    return {};
  }
  const lssar_device::TensorMap* begin() const { return maps_.data(); }

 private:
  // Not initialised, because most calls have few maps or none.
  std::array<lssar_device::TensorMap, kMaxKernelMaps> maps_;
  int count_ = 0;
};

void set_range(lssar_device::AttentionParams& params, const Sizes& sizes) {
  const KeyRange& range = sizes.range;
  params.first_key = range.first_key;
  params.num_keys = range.num_keys != 0 ? range.num_keys : range.first_key + sizes.seq_k;
  const int64_t num_queries =
      range.num_queries != 0 ? range.num_queries : range.first_query + sizes.seq_q;
  params.query_shift = range.first_query + params.num_keys - num_queries;
}

// The rows of one (batch, head) or (batch, kv head) that the launch divides among its blocks.
int64_t slice_rows(const LaunchStep& step, const Sizes& sizes) {
  switch (step.grid_rows) {
    case GridRows::kQueries:
      return sizes.seq_q;
    case GridRows::kKeys:
      return sizes.seq_k;
    case GridRows::kPackedQueries:
      return packed_tiles(sizes.seq_q, sizes.heads / sizes.kv_heads, step.packed_rows) *
             step.packed_rows;
    case GridRows::kNewKeys:  // only in calls of sequences
      return 0;
    case GridRows::kHeads:
    case GridRows::kOnce:
      return 1;
  }
  return 0;
}

}  // namespace

SliceTurns::SliceTurns(const Sizes& sizes, const WorkspaceLayout& layout) {
  if (layout.panel_slices == 0) return;
  slices = std::max<int64_t>(sizes.batch * sizes.kv_heads, 1);
  of_turn = layout.panel_slices;
}

LaunchConfig SliceTurns::part(const LaunchStep& step, LaunchConfig whole, int64_t first) const {
  const int64_t count = std::min(of_turn, slices - first);
  if (step.grid_rows == GridRows::kHeads) {
    if (first + count < slices) whole.grid[0] = 0;
    return whole;
  }
  const auto blocks_of_slice = static_cast<int64_t>(whole.grid[0]) / slices;
  whole.first_block = static_cast<uint32_t>(blocks_of_slice * first);
  whole.grid[0] = static_cast<uint32_t>(blocks_of_slice * count);
  return whole;
}

lssar_device::TensorRef tensor_ref(const Tensor& tensor) {
  return {reinterpret_cast<void*>(tensor.data), tensor.batch_stride, tensor.head_stride,
          tensor.row_stride};
}

lssar_device::AttentionParams attention_params(const CheckedCall& call) {
  const auto& [problem, sizes, tensors, workspace, layout] = call;
  const auto floats_at = [](DevicePtr ptr) { return reinterpret_cast<float*>(ptr); };
  lssar_device::AttentionParams params{};
  params.q = tensor_ref(tensors.q);
  params.k = tensor_ref(tensors.k);
  params.v = tensor_ref(tensors.v);
  params.o = tensor_ref(tensors.o);
  if (problem.pass == Pass::kBackward) {
    params.grad_o = tensor_ref(tensors.grad_o);
    params.grad_q = tensor_ref(tensors.grad_q);
    params.grad_k = tensor_ref(tensors.grad_k);
    params.grad_v = tensor_ref(tensors.grad_v);
  }
  if (layout.turns_tiles) {  // without strides, so that the tables are those of every sequence
    params.grad_q.data = reinterpret_cast<void*>(tensors.rotary_cos);
    params.grad_k.data = reinterpret_cast<void*>(tensors.rotary_sin);
  }
  if (problem.pass == Pass::kForward || is_of_range(problem.pass)) {
    params.partial_o = floats_at(tensors.partial_o);
    params.saved_stats = floats_at(tensors.row_stats);
  } else {
    params.saved_o = reinterpret_cast<void*>(tensors.saved_o);
    params.saved_stats = floats_at(tensors.saved_stats);
    params.saved_x = reinterpret_cast<void*>(tensors.saved_x);
  }
  params.q_inv_norm = floats_at(workspace + layout.q_inv_norm);
  params.k_inv_norm = floats_at(workspace + layout.k_inv_norm);
  params.row_constants = floats_at(workspace + layout.row_constants);
  params.grad_q_sum = floats_at(workspace + layout.grad_q_sum);
  params.dq_turns = reinterpret_cast<unsigned*>(workspace + layout.dq_turns);
  params.tickets = reinterpret_cast<unsigned*>(workspace + layout.tickets);
  if (reads_sink(problem)) {
    params.sink = floats_at(tensors.sink);
    params.grad_sink = floats_at(tensors.grad_sink);
    params.sink_terms = floats_at(workspace + layout.sink_terms);
  }
  if (reads_alibi(problem)) params.saved_x = reinterpret_cast<void*>(tensors.alibi_slopes);
  params.seq_q = sizes.seq_q;
  params.seq_k = sizes.seq_k;
  params.batch = static_cast<int>(sizes.batch);
  params.heads = static_cast<int>(sizes.heads);
  params.kv_heads = static_cast<int>(sizes.kv_heads);
  params.panel_slices = static_cast<int>(layout.panel_slices);
  set_range(params, sizes);
  return params;
}

Tensors rotated_tensors(const CheckedCall& call, const TensorShapes& shapes) {
  Tensors tensors = call.tensors;
  if (call.problem.rotary_dim == 0 || call.layout.turns_tiles) return tensors;
  const auto in_workspace = [&](size_t offset, int64_t heads, int64_t rows) {
    return contiguous_tensor(call.workspace + offset, heads, rows, call.problem.head_dim);
  };
  tensors.q = in_workspace(call.layout.rotated_q, shapes.heads, shapes.rows_q);
  tensors.k = in_workspace(call.layout.rotated_k, shapes.kv_heads, shapes.rows_k);
  return tensors;
}

lssar_device::RotaryParams rotary_params(Rotation rotation, const CheckedCall& call,
                                         const TensorShapes& shapes) {
  const Tensors rotated = rotated_tensors(call, shapes);
  const bool is_of_keys = rotation == Rotation::kK || rotation == Rotation::kGradK;
  lssar_device::RotaryParams params{};
  if (rotation == Rotation::kQ || rotation == Rotation::kK) {
    params.from = tensor_ref(is_of_keys ? call.tensors.k : call.tensors.q);
    params.to = tensor_ref(is_of_keys ? rotated.k : rotated.q);
  } else {
    params.from = params.to = tensor_ref(is_of_keys ? call.tensors.grad_k : call.tensors.grad_q);
  }
  params.cos = reinterpret_cast<const float*>(call.tensors.rotary_cos);
  params.sin = reinterpret_cast<const float*>(call.tensors.rotary_sin);
  params.rows = is_of_keys ? shapes.rows_k : shapes.rows_q;
  params.first_position = shapes.rows_k - params.rows;
  params.heads = static_cast<int>(is_of_keys ? shapes.kv_heads : shapes.heads);
  return params;
}

Result<LaunchConfig> launch_config(const LaunchStep& step, const Sizes& sizes, int num_sms,
                                   int resident_clusters) {
  const int64_t shared_rows = sizes.seq_q * (sizes.heads / std::max<int64_t>(sizes.kv_heads, 1));
  const int64_t rows = is_launched(step, shared_rows) ? slice_rows(step, sizes) : 0;
  const bool of_heads = step.grid_rows == GridRows::kHeads;
  const bool of_queries = step.grid_rows == GridRows::kQueries;
  const int64_t heads = of_heads || of_queries ? sizes.heads : sizes.kv_heads;
  // Only whole clusters: their blocks share the rows of one head.
  const int cluster = step.cluster;
  const int64_t rows_at_once = int64_t{step.rows_per_block} * cluster;
  const int64_t row_blocks = (rows + rows_at_once - 1) / rows_at_once * cluster;
  // row_blocks is below 2^62 and the other factors are below 2^31, so the product fits in 128 bits.
  __int128 blocks = static_cast<__int128>(row_blocks) * heads * (of_heads ? 1 : sizes.batch);
  if (blocks > std::numeric_limits<int32_t>::max()) {
    return invalid_argument(fmt::format(
        "sizes: batch {} x heads {} x {} blocks of {} rows: allowed are 2^31 - 1 blocks in all",
        sizes.batch, heads, row_blocks, step.rows_per_block));
  }
  if (step.is_persistent) {  // at most the blocks that run at once
    int64_t clusters = int64_t{std::max(num_sms, 1)} * step.blocks_per_sm / cluster;
    if (resident_clusters > 0) clusters = std::min<int64_t>(clusters, resident_clusters);
    blocks = std::min<__int128>(blocks, std::max<int64_t>(clusters, 1) * cluster);
  }
  LaunchConfig config;
  config.grid[0] = static_cast<uint32_t>(blocks);
  config.block[0] = static_cast<uint32_t>(step.threads);
  config.cluster[0] = static_cast<uint32_t>(cluster);
  config.shared_bytes = static_cast<uint32_t>(step.shared_bytes);
  return config;
}

Result<StepFunction> prepare_step(Device& device, const LaunchStep& step,
                                  const DeviceFunction* function) {
  LSSAR_RETURN_IF_ERROR(device.prepare(*function, static_cast<uint32_t>(step.shared_bytes)));
  if (step.cluster == 1 || !step.is_persistent) return StepFunction(function);
  LaunchConfig config;
  config.grid[0] = config.cluster[0] = static_cast<uint32_t>(step.cluster);
  config.block[0] = static_cast<uint32_t>(step.threads);
  config.shared_bytes = static_cast<uint32_t>(step.shared_bytes);
  LSSAR_ASSIGN_OR_RETURN(const int clusters, device.resident_clusters(*function, config));
  return StepFunction(function, clusters);
}

Status launch_steps(Device& device, const std::vector<LaunchStep>& steps,
                    const std::vector<StepFunction>& functions, const CheckedCall& call,
                    Stream stream) {
  const int num_sms = device.info().num_sms;
  const auto config_of = [&](size_t i) {
    return launch_config(steps[i], call.sizes, num_sms, functions[i].resident_clusters);
  };
  const CallWork work(multiply_adds(call.problem, call.sizes));
  const TensorShapes shapes = shapes_of(call.sizes);
  const Tensors tensors = rotated_tensors(call, shapes);
  const CheckedCall rotated = {call.problem, call.sizes, tensors, call.workspace, call.layout};
  // Compute every grid and map first, so that an error in sizes or strides leaves nothing half
  // launched.
  CallMaps maps;
  for (size_t i = 0; i < steps.size(); ++i) {
    LSSAR_ASSIGN_OR_RETURN(const LaunchConfig config, config_of(i));
    if (config.grid[0] != 0) LSSAR_RETURN_IF_ERROR(maps.encode(device, steps[i], rotated));
  }
  lssar_device::TmaParams params;
  params.attention = attention_params(rotated);
  const lssar_device::TensorMap* next_map = maps.begin();
  const SliceTurns turns(call.sizes, call.layout);
  for (int64_t first = 0; first < turns.slices; first += turns.of_turn) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const LaunchConfig config = turns.part(steps[i], *config_of(i), first);
      if (config.grid[0] == 0) continue;
      const DeviceFunction& function = *functions[i].function;
      if (steps[i].rotation != Rotation::kNone) {
        const lssar_device::RotaryParams rotary = rotary_params(steps[i].rotation, call, shapes);
        LSSAR_RETURN_IF_ERROR(device.launch(function, config, &rotary, sizeof(rotary), stream));
        continue;
      }
      const size_t num_maps = steps[i].maps.size();
      if (num_maps == 0) {
        LSSAR_RETURN_IF_ERROR(
            device.launch(function, config, &params.attention, sizeof(params.attention), stream));
        continue;
      }
      std::fill(std::copy(next_map, next_map + num_maps, params.maps), std::end(params.maps),
                lssar_device::TensorMap{});
      next_map += num_maps;
      LSSAR_RETURN_IF_ERROR(device.launch(function, config, &params, sizeof(params), stream));
    }
  }
  return {};
}

}  // namespace lssar
