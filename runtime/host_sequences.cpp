#include "runtime/host_sequences.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/small_floats.h"
#include "codegen/cpu/cpu_shapes.h"
#include "codegen/pass_needs.h"
#include "codegen/shapes.h"
#include "device/thread_value.h"
#include "runtime/executor.h"
#include "runtime/multiply_adds.h"
#include "templates/kernels/params.cuh"
#include "templates/kernels/rotary_params.cuh"

namespace lssar {
namespace {

Tensor part_of(const Tensor& tensor, const HostRows& rows, int elem_bytes) {
  if (tensor.data == 0) return tensor;
  Tensor part = tensor;
  part.data += static_cast<DevicePtr>(
      (rows.batch * tensor.batch_stride + rows.first * tensor.row_stride) * elem_bytes);
  return part;
}

float decode(DType dtype, const std::byte* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(dtype_bytes(dtype)));
  if (dtype == DType::kFp32) return std::bit_cast<float>(bits);
  const auto half = static_cast<uint16_t>(bits);
  return dtype == DType::kFp16 ? decode_fp16(half) : decode_bf16(half);
}

// As inverse_norm of templates/tile/row_group.cuh, with about its sums.
float inverse_norm_of(DType dtype, int dim, const std::byte* row) {
  constexpr int kSums = 8;
  constexpr float kTinySquare = 1e-24f;
  float sums[kSums] = {};
  for (int col = 0; col < dim; ++col) {
    const float x = decode(dtype, row + static_cast<ptrdiff_t>(col) * dtype_bytes(dtype));
    sums[col % kSums] += x * x;
  }
  const float square = std::accumulate(std::begin(sums), std::end(sums), 0.0f);
  if (!std::isfinite(square)) return std::numeric_limits<float>::quiet_NaN();
  return square <= kTinySquare ? 0.0f : 1.0f / std::sqrt(square);
}

// What the launches of a call need of one sequence.
struct SequenceEntry {
  lssar_device::AttentionParams params;
  Sizes sizes;
  SliceTurns turns;
  double work;
};

// The arguments of a sequence's rotations, in the order of Rotation.
constexpr int kNumRotations = 4;
using RotationsOfSequence = std::array<lssar_device::RotaryParams, kNumRotations>;
constexpr std::array<Rotation, kNumRotations> kRotations = {Rotation::kQ, Rotation::kK,
                                                            Rotation::kGradQ, Rotation::kGradK};

// Offsets in a call's workspace of what all sequences share. Their own parts follow.
struct TableLayout {
  size_t entries = 0, rotations = 0, order = 0, parts = 0, sink_sums = 0, total_bytes = 0;
};

TableLayout table_layout(const Problem& problem, const Sizes& sizes) {
  const auto batch = static_cast<size_t>(sizes.batch);
  TableLayout layout;
  layout.rotations = layout.entries + aligned_part(batch * sizeof(SequenceEntry));
  const size_t rotations = problem.rotary_dim == 0 ? 0 : batch * sizeof(RotationsOfSequence);
  layout.order = layout.rotations + aligned_part(rotations);
  layout.parts = layout.order + aligned_part(batch * sizeof(int32_t));
  layout.sink_sums = layout.parts + aligned_part(batch * sizeof(LaunchPart));
  const bool has_sink = reads_sink(problem) && problem.pass == Pass::kBackward;
  const size_t sums = has_sink ? batch * static_cast<size_t>(sizes.heads) * sizeof(float) : 0;
  layout.total_bytes = layout.sink_sums + aligned_part(sums);
  return layout;
}

// The launches of a call on the cpu device.
class HostSequences {
 public:
  HostSequences(Device& device, const std::vector<LaunchStep>& steps,
                const std::vector<StepFunction>& functions, const SequencesCall& call)
      : device_(device),
        steps_(steps),
        functions_(functions),
        call_(call),
        batch_(static_cast<size_t>(call.sizes.batch)),
        table_(table_layout(call.problem, call.sizes)) {}

  Status run() {
    LSSAR_RETURN_IF_ERROR(check_workspace());
    LSSAR_RETURN_IF_ERROR(check_blocks());
    append();
    if (batch_ != 0) LSSAR_RETURN_IF_ERROR(launch_together());
    add_sinks();
    return {};
  }

 private:
  template <class T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(call_.workspace.data + offset);
  }

  Sizes sizes_of(int64_t b) const {
    const Sequences& s = call_.sequences;
    const Sizes& all = call_.sizes;
    return {1, all.heads, all.kv_heads, host_rows(b, s.cu_seqlens_q, s.seqused_q, all.seq_q).length,
            host_rows(b, s.cu_seqlens_k, s.seqused_k, all.seq_k).length};
  }

  Tensors tensors_of(int64_t b) const {
    const Sequences& s = call_.sequences;
    const HostRows q = host_rows(b, s.cu_seqlens_q, s.seqused_q, call_.sizes.seq_q);
    const HostRows k = host_rows(b, s.cu_seqlens_k, s.seqused_k, call_.sizes.seq_k);
    const int bytes = dtype_bytes(call_.problem.dtype);
    const Tensors& all = call_.tensors;
    Tensors part = all;
    part.q = part_of(all.q, q, bytes);
    part.o = part_of(all.o, q, bytes);
    part.grad_o = part_of(all.grad_o, q, bytes);
    part.grad_q = part_of(all.grad_q, q, bytes);
    part.k = part_of(all.k, k, bytes);
    part.v = part_of(all.v, k, bytes);
    part.grad_k = part_of(all.grad_k, k, bytes);
    part.grad_v = part_of(all.grad_v, k, bytes);
    // Saved tensors have room for every row, used or not.
    const int64_t rows_before =
        s.cu_seqlens_q == nullptr ? b * call_.sizes.seq_q : s.cu_seqlens_q[b];
    const SavedBytes of_row =
        *saved_bytes(call_.problem, call_.schedule, {1, call_.sizes.heads, 1, 1, 1});
    const auto skip = [&](DevicePtr& data, size_t row_bytes) {
      if (data != 0) data += static_cast<DevicePtr>(rows_before) * row_bytes;
    };
    skip(part.saved_o, of_row.o);
    skip(part.partial_o, of_row.partial_o);
    skip(part.saved_stats, of_row.stats);
    skip(part.row_stats, of_row.stats);
    skip(part.saved_x, of_row.x);
    if (part.grad_sink != 0)
      part.grad_sink = call_.workspace.data + table_.sink_sums +
                       static_cast<DevicePtr>(b * call_.sizes.heads) * sizeof(float);
    return part;
  }

  // Calls act(b, sizes, layout, workspace) for every sequence, in the order of the batch.
  template <class Act>
  Status for_each(const Act& act) const {
    size_t offset = table_.total_bytes;
    for (int64_t b = 0; b < call_.sizes.batch; ++b) {
      const Sizes sizes = sizes_of(b);
      LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                             workspace_layout(call_.problem, call_.schedule, sizes));
      LSSAR_RETURN_IF_ERROR(act(b, sizes, layout, call_.workspace.data + offset));
      offset += layout.total_bytes;
    }
    return {};
  }

  Status check_workspace() const {
    size_t needed = table_.total_bytes;
    LSSAR_RETURN_IF_ERROR(
        for_each([&](int64_t, const Sizes&, const WorkspaceLayout& layout, DevicePtr) -> Status {
          needed += layout.total_bytes;
          return {};
        }));
    if (call_.workspace.bytes >= needed) return {};
    return invalid_argument(fmt::format("workspace_bytes = {}: this call needs {} or more",
                                        call_.workspace.bytes, needed));
  }

  // Before the first launch, so that an error leaves nothing half done.
  Status check_blocks() const {
    for (const LaunchStep& step : steps_) {
      uint64_t blocks = 0;
      for (int64_t b = 0; b < call_.sizes.batch; ++b) {
        LSSAR_ASSIGN_OR_RETURN(const LaunchConfig config,
                               launch_config(step, sizes_of(b), device_.info().num_sms));
        blocks += config.grid[0];
      }
      if (blocks > std::numeric_limits<int32_t>::max()) {
        return invalid_argument(fmt::format(
            "sizes: {} sequences have {} blocks of {} rows in all; allowed are 2^31 - 1", batch_,
            blocks, step.rows_per_block));
      }
    }
    return {};
  }

  // Writes new keys and values over the last rows of each sequence.
  void append() const {
    if (call_.sequences.seq_new == 0) return;
    const Tensors& tensors = call_.tensors;
    append(tensors.k, tensors.k_new, call_.problem.head_dim);
    append(tensors.v, tensors.v_new, call_.problem.head_dim_v);
    if (tensors.key_norms != 0) keep_norms();
  }
  void append(const Tensor& cache, const Tensor& added, int dim) const {
    const Sequences& s = call_.sequences;
    const int bytes = dtype_bytes(call_.problem.dtype);
    const auto at = [&](const Tensor& tensor, const HostRows& rows, int64_t head, int64_t row) {
      return part_of(tensor, {rows.batch, rows.first + row, 0}, bytes).data +
             static_cast<DevicePtr>(head * tensor.head_stride * bytes);
    };
    for (int64_t b = 0; b < call_.sizes.batch; ++b) {
      const HostRows to = host_rows(b, s.cu_seqlens_k, s.seqused_k, call_.sizes.seq_k);
      const HostRows from = host_rows(b, s.cu_seqlens_new, nullptr, s.seq_new);
      for (int64_t head = 0; head < call_.sizes.kv_heads; ++head) {
        for (int64_t row = 0; row < from.length; ++row) {
          std::memcpy(reinterpret_cast<void*>(at(cache, to, head, to.length - from.length + row)),
                      reinterpret_cast<const void*>(at(added, from, head, row)),
                      static_cast<size_t>(dim) * bytes);
        }
      }
    }
  }

  // Writes the norms of new keys beside the cache. Kernels compute their own when they pack keys.
  void keep_norms() const {
    const Sequences& s = call_.sequences;
    const Tensor& k = call_.tensors.k_new;
    const DType dtype = call_.problem.dtype;
    const int64_t rows = s.cu_seqlens_k == nullptr ? call_.sizes.seq_k : s.total_k;
    auto* const norms = reinterpret_cast<float*>(call_.tensors.key_norms);
    for (int64_t b = 0; b < call_.sizes.batch; ++b) {
      const HostRows to = host_rows(b, s.cu_seqlens_k, s.seqused_k, call_.sizes.seq_k);
      const HostRows from = host_rows(b, s.cu_seqlens_new, nullptr, s.seq_new);
      for (int64_t head = 0; head < call_.sizes.kv_heads; ++head) {
        const auto* const keys = reinterpret_cast<const std::byte*>(
            part_of(k, from, dtype_bytes(dtype)).data +
            static_cast<DevicePtr>(head * k.head_stride * dtype_bytes(dtype)));
        float* const kept = norms + (to.batch * call_.sizes.kv_heads + head) * rows + to.first +
                            to.length - from.length;
        for (int64_t row = 0; row < from.length; ++row)
          kept[row] = inverse_norm_of(dtype, call_.problem.head_dim,
                                      keys + row * k.row_stride * dtype_bytes(dtype));
      }
    }
  }

  Status launch_together() const {
    auto* const entries = at<SequenceEntry>(table_.entries);
    double all_work = 0;
    int64_t num_turns = 1;
    LSSAR_RETURN_IF_ERROR(for_each([&](int64_t b, const Sizes& sizes, const WorkspaceLayout& layout,
                                       DevicePtr workspace) -> Status {
      const Tensors given = tensors_of(b);
      const CheckedCall call = {call_.problem, sizes, given, workspace, layout};
      const Tensors tensors = rotated_tensors(call, shapes_of(sizes));
      const SliceTurns turns(sizes, layout);
      entries[b] = {attention_params({call_.problem, sizes, tensors, workspace, layout}), sizes,
                    turns, multiply_adds(call_.problem, sizes)};
      if (call_.problem.rotary_dim != 0) set_rotations(b, call);
      all_work += entries[b].work;
      num_turns = std::max(num_turns, (turns.slices + turns.of_turn - 1) / turns.of_turn);
      return {};
    }));
    sort_by_work();
    const CallWork work(all_work);
    for (int64_t turn = 0; turn < num_turns; ++turn) {
      for (size_t i = 0; i < steps_.size(); ++i) {
        LSSAR_ASSIGN_OR_RETURN(const uint32_t blocks, make_parts(steps_[i], turn));
        if (blocks == 0) continue;
        LSSAR_RETURN_IF_ERROR(device_.launch_parts(*functions_[i].function, parts(), batch_,
                                                   static_cast<uint32_t>(steps_[i].shared_bytes)));
      }
    }
    return {};
  }

  void set_rotations(int64_t b, const CheckedCall& call) const {
    RotationsOfSequence& rotations = at<RotationsOfSequence>(table_.rotations)[b];
    for (size_t i = 0; i < rotations.size(); ++i)
      rotations[i] = rotary_params(kRotations[i], call, shapes_of(call.sizes));
  }

  // What the kernel of a step gets of sequence b.
  const void* params_of(const LaunchStep& step, int64_t b) const {
    if (step.rotation == Rotation::kNone) return &at<const SequenceEntry>(table_.entries)[b].params;
    const auto at_rotation = std::find(kRotations.begin(), kRotations.end(), step.rotation);
    return &at<const RotationsOfSequence>(table_.rotations)[b][at_rotation - kRotations.begin()];
  }

  // The longest sequence last, because a launch begins its last parts first. Threads then end at
  // about the same time.
  void sort_by_work() const {
    const auto* const entries = at<const SequenceEntry>(table_.entries);
    auto* const order = at<int32_t>(table_.order);
    std::iota(order, order + batch_, 0);
    std::sort(order, order + batch_, [&](int32_t a, int32_t b) {
      const double work_a = entries[a].work, work_b = entries[b].work;
      return work_a != work_b ? work_a < work_b : a < b;
    });
  }

  LaunchPart* parts() const { return at<LaunchPart>(table_.parts); }

  // The parts of a step's launch in a turn. Returns the number of blocks.
  Result<uint32_t> make_parts(const LaunchStep& step, int64_t turn) const {
    const auto* const entries = at<const SequenceEntry>(table_.entries);
    const auto* const order = at<const int32_t>(table_.order);
    uint32_t end = 0;
    for (size_t i = 0; i < batch_; ++i) {
      const SequenceEntry& entry = entries[order[i]];
      const int64_t first = turn * entry.turns.of_turn;
      LaunchConfig config;
      config.grid[0] = 0;
      if (first < entry.turns.slices) {
        LSSAR_ASSIGN_OR_RETURN(const LaunchConfig whole,
                               launch_config(step, entry.sizes, device_.info().num_sms));
        config = entry.turns.part(step, whole, first);
      }
      end += config.grid[0];
      parts()[i] = {params_of(step, order[i]), end, config.first_block};
    }
    return end;
  }

  // The gradient of a sink is the sum over all sequences, in the order of the batch.
  void add_sinks() const {
    if (call_.problem.pass != Pass::kBackward || !reads_sink(call_.problem)) return;
    const auto heads = static_cast<size_t>(call_.sizes.heads);
    const auto* const sums = at<const float>(table_.sink_sums);
    auto* const total = reinterpret_cast<float*>(call_.tensors.grad_sink);
    for (size_t head = 0; head < heads; ++head) {
      double sum = 0;
      for (size_t b = 0; b < batch_; ++b) sum += sums[b * heads + head];
      total[head] = static_cast<float>(sum);
    }
  }

  Device& device_;
  const std::vector<LaunchStep>& steps_;
  const std::vector<StepFunction>& functions_;
  const SequencesCall& call_;
  const size_t batch_;
  const TableLayout table_;
};

}  // namespace

HostRows host_rows(int64_t b, const int32_t* cu_seqlens, const int32_t* used, int64_t most) {
  const HostRows all = cu_seqlens == nullptr
                           ? HostRows{b, 0, most}
                           : HostRows{0, cu_seqlens[b], int64_t{cu_seqlens[b + 1]} - cu_seqlens[b]};
  return used == nullptr ? all : HostRows{all.batch, all.first, used[b]};
}

Result<size_t> host_sequences_workspace_bytes(const Problem& problem, const Schedule& schedule,
                                              const Sizes& sizes, int64_t total_q,
                                              int64_t total_k) {
  // Every sequence may round its lengths up to whole tiles, add a ticket, and round each part of
  // its workspace up.
  constexpr int64_t kRounding = (WorkspaceLayout::kNumParts + 1) * aligned_part(1);
  const Sizes all = {1, sizes.heads, sizes.kv_heads,
                     total_q + sizes.batch * cpu_grad_rows(schedule), total_k};
  LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout, workspace_layout(problem, schedule, all));
  __int128 bytes = static_cast<__int128>(sizes.batch) * kRounding +
                   table_layout(problem, sizes).total_bytes + layout.total_bytes;
  // Short sequences have panels of all their heads at once, and some may have few queries.
  bytes += static_cast<__int128>(sizes.kv_heads) *
               cpu_sequences_slice_bytes(problem, schedule, sizes.batch, total_k) -
           static_cast<__int128>(layout.panel_slices) * cpu_slice_bytes(problem, schedule, all);
  if (bytes > std::numeric_limits<int64_t>::max()) {
    return invalid_argument(fmt::format(
        "workspace of batch = {}, heads = {}, kv_heads = {}, total_q = {}, total_k = {}: the bytes "
        "must be at most 2^63 - 1",
        sizes.batch, sizes.heads, sizes.kv_heads, total_q, total_k));
  }
  return static_cast<size_t>(bytes);
}

Status launch_host_sequences(Device& device, const std::vector<LaunchStep>& steps,
                             const std::vector<StepFunction>& functions,
                             const SequencesCall& call) {
  return HostSequences(device, steps, functions, call).run();
}

}  // namespace lssar
