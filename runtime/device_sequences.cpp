#include "runtime/device_sequences.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "runtime/call_maps.h"
#include "runtime/executor.h"
#include "templates/kernels/params.cuh"
#include "templates/kernels/rotary_params.cuh"

namespace lssar {
namespace {

using lssar_device::RotarySequencesParams;
using lssar_device::SequenceLaunch;
using lssar_device::SequencesParams;

// Byte offsets in the workspace of what the first launch writes. The parts of all sequences follow.
struct Tables {
  size_t num_sequences = 0, buckets = 0, order = 0, first_tiles = 0, total_bytes = 0;
};

Tables tables_of(const Sizes& sizes) {
  const auto numbers = [](int64_t count) {
    return aligned_part(static_cast<size_t>(count) * sizeof(int32_t));
  };
  Tables tables;
  tables.buckets = tables.num_sequences + numbers(1);
  tables.order = tables.buckets + numbers(sizes.batch);
  tables.first_tiles = tables.order + numbers(sizes.batch);
  tables.total_bytes =
      tables.first_tiles + numbers(lssar_device::kMaxSequenceLaunches * (sizes.batch + 1));
  return tables;
}

// The sizes of a call with the workspace of all sequences, as set_sequence
// (templates/tile/sequences.cuh) divides it: every sequence may round its keys, and its tiles of
// queries, up.
Sizes workspace_sizes(const Problem& problem, const Schedule& schedule, const Sizes& sizes,
                      int64_t total_q, int64_t total_k) {
  // Every row of few queries has room for the keys of the longest sequence.
  if (divides_keys(problem, schedule))
    return {1, sizes.heads, sizes.kv_heads, total_q, sizes.seq_k};
  const int64_t tile_q = schedule.dkdv.block_cols;
  return {1, sizes.heads, sizes.kv_heads, total_q + sizes.batch * tile_q,
          total_k + sizes.batch * key_norm_pitch(1)};
}

Result<WorkspaceLayout> layout_of(const Problem& problem, const Schedule& schedule,
                                  const Sizes& sizes, int64_t total_q, int64_t total_k) {
  return workspace_layout(problem, schedule,
                          workspace_sizes(problem, schedule, sizes, total_q, total_k));
}

SequenceLaunch sequence_launch(const LaunchStep& step, const Sizes& sizes) {
  const auto heads = static_cast<int>(sizes.heads), kv_heads = static_cast<int>(sizes.kv_heads);
  switch (step.grid_rows) {
    case GridRows::kQueries:
      return {heads, step.rows_per_block, 1, lssar_device::kQueryRows};
    case GridRows::kKeys:
      return {kv_heads, step.rows_per_block, 1, lssar_device::kKeyRows};
    case GridRows::kPackedQueries: {
      const int group = heads / kv_heads;
      return {kv_heads, std::max(step.packed_rows / group, 1),
              static_cast<int>(packed_tiles(1, group, step.packed_rows)), lssar_device::kQueryRows};
    }
    case GridRows::kNewKeys:
      return {kv_heads, step.rows_per_block, 1, lssar_device::kNewRows};
    case GridRows::kHeads:
    case GridRows::kOnce:
      break;
  }
  return {};
}

// At least the blocks that the launch needs, whatever the lengths are.
__int128 most_blocks(const SequenceLaunch& launch, const Sizes& sizes, const TensorShapes& shapes,
                     int64_t seq_new) {
  // By SequenceLaunch::rows_are.
  const int64_t lengths[] = {sizes.seq_q, sizes.seq_k, seq_new};
  const int64_t batches[] = {shapes.batch_q, shapes.batch_k, shapes.batch_new};
  const int64_t rows[] = {shapes.rows_q, shapes.rows_k, shapes.rows_new};
  const int64_t most = lengths[launch.rows_are];
  const __int128 total = static_cast<__int128>(batches[launch.rows_are]) * rows[launch.rows_are];
  const __int128 of_longest =
      static_cast<__int128>(sizes.batch) * ((most + launch.rows - 1) / launch.rows);
  // Every sequence may have a tile that is not full.
  const __int128 of_total = total / launch.rows + sizes.batch;
  return std::min(of_longest, of_total) * launch.parts * launch.heads;
}

class DeviceSequences {
 public:
  DeviceSequences(const std::vector<LaunchStep>& steps, const SequencesCall& call)
      : steps_(steps), call_(call), shapes_(shapes_of(call.sizes, call.sequences)) {}

  // Sets the parameters, every grid and every map. Errors: as launch_sequences.
  Status prepare(Device& device) {
    const int64_t total_q = shapes_.batch_q * shapes_.rows_q;
    const int64_t total_k = shapes_.batch_k * shapes_.rows_k;
    LSSAR_ASSIGN_OR_RETURN(layout_,
                           layout_of(call_.problem, call_.schedule, call_.sizes, total_q, total_k));
    const Tables tables = tables_of(call_.sizes);
    const size_t needed = tables.total_bytes + layout_.total_bytes;
    if (call_.workspace.bytes < needed) {
      return invalid_argument(fmt::format("workspace_bytes = {}: this call needs {} or more",
                                          call_.workspace.bytes, needed));
    }
    set_params(tables);
    assert(steps_.size() <= lssar_device::kMaxSequenceLaunches &&
           "more launches than kernels know");
    for (size_t i = 0; i < steps_.size(); ++i) {
      params_.launches[i] = sequence_launch(steps_[i], call_.sizes);
      // A copy of norms takes little time, so its blocks get many.
      if (params_.key_norms != nullptr && steps_[i].entry == kKeyNormsEntry)
        params_.launches[i].rows = lssar_device::kKeptNormsOfBlock;
      LSSAR_ASSIGN_OR_RETURN(blocks_[i], blocks_of(steps_[i], params_.launches[i]));
      if (blocks_[i] != 0) LSSAR_RETURN_IF_ERROR(encode_maps(device, i));
    }
    return {};
  }

  Status launch(Device& device, const std::vector<StepFunction>& functions, Stream stream) const {
    RotarySequencesParams rotary = {params_, {}};
    lssar_device::SequencesTmaParams tma = {};
    tma.sequences = params_;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (blocks_[i] == 0) continue;
      LaunchConfig config;
      config.grid[0] = blocks_[i];
      config.block[0] = static_cast<uint32_t>(steps_[i].threads);
      config.shared_bytes = static_cast<uint32_t>(steps_[i].shared_bytes);
      const void* params = &params_;
      size_t params_bytes = sizeof(params_);
      if (steps_[i].rotation != Rotation::kNone) {
        rotary.rotary = rotary_params(steps_[i].rotation, call_of(call_.tensors), shapes_);
        params = &rotary;
        params_bytes = sizeof(rotary);
      } else if (!steps_[i].maps.empty()) {
        std::copy(std::begin(maps_[i]), std::end(maps_[i]), std::begin(tma.tma.maps));
        params = &tma;
        params_bytes = sizeof(tma);
      }
      LSSAR_RETURN_IF_ERROR(
          device.launch(*functions[i].function, config, params, params_bytes, stream));
    }
    return {};
  }

 private:
  // The call with `tensors`; its workspace is the part behind the tables.
  CheckedCall call_of(const Tensors& tensors) const {
    return {call_.problem, call_.sizes, tensors,
            call_.workspace.data + tables_of(call_.sizes).total_bytes, layout_};
  }

  // What kernels read: with rotary positions the turned q and k.
  Tensors read_tensors() const { return rotated_tensors(call_of(call_.tensors), shapes_); }

  Status encode_maps(Device& device, size_t i) {
    const Tensors tensors = read_tensors();
    const Sizes sizes =
        workspace_sizes(call_.problem, call_.schedule, call_.sizes,
                        shapes_.batch_q * shapes_.rows_q, shapes_.batch_k * shapes_.rows_k);
    const CheckedCall read = call_of(tensors);
    const CheckedCall call = {read.problem, sizes, tensors, read.workspace, layout_};
    if (!steps_[i].maps.empty()) maps_[i] = {};
    for (size_t n = 0; n < steps_[i].maps.size(); ++n) {
      const MapSpec& spec = steps_[i].maps[n];
      LSSAR_ASSIGN_OR_RETURN(const TensorMapRequest request,
                             tensor_map_request(spec, call, shapes_));
      const Result<TensorMap> map = device.encode_tensor_map(request);
      if (!map.ok())
        return map.status().with_context(
            fmt::format("{}, {}", steps_[i].entry, map_tensor_name(spec.tensor)));
      static_assert(sizeof(*map) == sizeof(maps_[i][n]));
      std::memcpy(&maps_[i][n], &*map, sizeof(*map));
    }
    return {};
  }

  void set_params(const Tables& tables) {
    const Sequences& sequences = call_.sequences;
    const DevicePtr workspace = call_.workspace.data;
    const auto table = [&](size_t offset) { return reinterpret_cast<int*>(workspace + offset); };
    params_.attention = attention_params(call_of(read_tensors()));
    params_.cu_seqlens_q = sequences.cu_seqlens_q;
    params_.cu_seqlens_k = sequences.cu_seqlens_k;
    params_.seqused_q = sequences.seqused_q;
    params_.seqused_k = sequences.seqused_k;
    params_.total_q = sequences.total_q;
    params_.total_k = sequences.total_k;
    if (sequences.seq_new != 0) {
      params_.k_new = tensor_ref(call_.tensors.k_new);
      params_.v_new = tensor_ref(call_.tensors.v_new);
      params_.k_cache = tensor_ref(call_.tensors.k);
      params_.cu_seqlens_new = sequences.cu_seqlens_new;
      params_.seq_new = sequences.seq_new;
      params_.total_new = sequences.total_new;
    }
    params_.key_norms = reinterpret_cast<float*>(call_.tensors.key_norms);
    params_.num_sequences = table(tables.num_sequences);
    params_.buckets = table(tables.buckets);
    params_.order = table(tables.order);
    params_.first_tiles = table(tables.first_tiles);
  }

  Result<uint32_t> blocks_of(const LaunchStep& step, const SequenceLaunch& launch) const {
    if (step.grid_rows == GridRows::kOnce) return uint32_t{1};
    if (step.grid_rows == GridRows::kHeads) return static_cast<uint32_t>(call_.sizes.heads);
    const __int128 blocks = most_blocks(launch, call_.sizes, shapes_, call_.sequences.seq_new);
    if (blocks <= std::numeric_limits<int32_t>::max()) return static_cast<uint32_t>(blocks);
    return invalid_argument(fmt::format(
        "sizes: {} sequences may have {} blocks of {} rows in all; allowed are 2^31 - 1",
        call_.sizes.batch, static_cast<int64_t>(blocks), step.rows_per_block));
  }

  const std::vector<LaunchStep>& steps_;
  const SequencesCall& call_;
  const TensorShapes shapes_;
  WorkspaceLayout layout_;
  SequencesParams params_ = {};
  std::array<uint32_t, lssar_device::kMaxSequenceLaunches> blocks_ = {};
  std::array<std::array<lssar_device::TensorMap, lssar_device::kMaxTensorMaps>,
             lssar_device::kMaxSequenceLaunches>
      maps_;  // only of steps that have maps
};

}  // namespace

Result<size_t> device_sequences_workspace_bytes(const Problem& problem, const Schedule& schedule,
                                                const Sizes& sizes, int64_t total_q,
                                                int64_t total_k) {
  LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                         layout_of(problem, schedule, sizes, total_q, total_k));
  return tables_of(sizes).total_bytes + layout.total_bytes;
}

Status launch_device_sequences(Device& device, const std::vector<LaunchStep>& steps,
                               const std::vector<StepFunction>& functions,
                               const SequencesCall& call, Stream stream) {
  DeviceSequences launches(steps, call);
  LSSAR_RETURN_IF_ERROR(launches.prepare(device));
  return launches.launch(device, functions, stream);
}

}  // namespace lssar
