#include "runtime/sequences.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "codegen/cpu/cpu_shapes.h"
#include "codegen/pass_needs.h"
#include "codegen/shapes.h"
#include "device/thread_value.h"
#include "runtime/device_sequences.h"
#include "runtime/executor.h"
#include "runtime/multiply_adds.h"
#include "templates/kernels/params.cuh"
#include "templates/kernels/rotary_params.cuh"

namespace lssar {
namespace {

// The rows of one sequence in tensors that hold all of them.
struct Rows {
  int64_t batch = 0;
  int64_t first = 0;
  int64_t length = 0;
};

Rows rows_of(int64_t b, const int32_t* cu_seqlens, const int32_t* used, int64_t most) {
  const Rows all = cu_seqlens == nullptr
                       ? Rows{b, 0, most}
                       : Rows{0, cu_seqlens[b], int64_t{cu_seqlens[b + 1]} - cu_seqlens[b]};
  return used == nullptr ? all : Rows{all.batch, all.first, used[b]};
}

// What check_sequences checks of queries, keys or new keys; `which` is "q", "k" or "new".
Status check_lengths(const char* which, int64_t batch, int64_t most, int64_t total,
                     const int32_t* cu_seqlens, const int32_t* used) {
  const auto refuse = [&](const char* name, int64_t b, int64_t value, int64_t low, int64_t high,
                          const std::string& why) {
    return invalid_argument(fmt::format("{}_{}[{}] = {}: allowed are {} to {}{}", name, which, b,
                                        value, low, high, why));
  };
  if (cu_seqlens != nullptr) {
    if (cu_seqlens[0] < 0 || cu_seqlens[0] > total)
      return refuse("cu_seqlens", 0, cu_seqlens[0], 0, total, "");
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t low = cu_seqlens[b], high = std::min(low + most, total);
      const int64_t end = cu_seqlens[b + 1];
      if (end < low || end > high) {
        return refuse("cu_seqlens", b + 1, end, low, high,
                      fmt::format(", because the sequence begins at {}, {}seq_{} is {} and "
                                  "total_{} is {}",
                                  low, which == std::string_view("new") ? "" : "sizes.", which,
                                  most, which, total));
      }
    }
  }
  for (int64_t b = 0; used != nullptr && b < batch; ++b) {
    const int64_t length = rows_of(b, cu_seqlens, nullptr, most).length;
    if (used[b] < 0 || used[b] > length)
      return refuse("seqused", b, used[b], 0, length, ", the sequence's length");
  }
  return {};
}

// Query i stands at position i + keys - queries, which must not be below 0.
Status check_positions(const Sizes& sizes, const Sequences& sequences) {
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const int64_t queries =
        rows_of(b, sequences.cu_seqlens_q, sequences.seqused_q, sizes.seq_q).length;
    const int64_t keys =
        rows_of(b, sequences.cu_seqlens_k, sequences.seqused_k, sizes.seq_k).length;
    if (queries > keys) {
      return invalid_argument(fmt::format(
          "sequence {} has {} queries and {} keys: allowed with rotary_dim are 0 to {} queries, "
          "because query i stands at position i + keys - queries",
          b, queries, keys, keys));
    }
  }
  return {};
}

Status check_room(const Sizes& sizes, const Sequences& sequences) {
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const int64_t added = rows_of(b, sequences.cu_seqlens_new, nullptr, sequences.seq_new).length;
    const int64_t keys =
        rows_of(b, sequences.cu_seqlens_k, sequences.seqused_k, sizes.seq_k).length;
    if (added > keys) {
      return invalid_argument(
          fmt::format("sequence {} has {} new keys and {} keys: allowed are 0 to {} new keys, "
                      "because they are among its keys, the last ones",
                      b, added, keys, keys));
    }
  }
  return {};
}

Tensor part_of(const Tensor& tensor, const Rows& rows, int elem_bytes) {
  if (tensor.data == 0) return tensor;
  Tensor part = tensor;
  part.data += static_cast<DevicePtr>(
      (rows.batch * tensor.batch_stride + rows.first * tensor.row_stride) * elem_bytes);
  return part;
}

// |x| of an element; infinity where it is not finite.
float magnitude(DType dtype, const std::byte* at) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  uint32_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(dtype_bytes(dtype)));
  if (dtype == DType::kFp16) {
    bits &= 0x7FFF;
    return bits >= 0x7C00 ? kInfinity : std::bit_cast<float>(bits << 13) * 0x1p112f;
  }
  if (dtype == DType::kBf16) bits <<= 16;
  bits &= 0x7FFFFFFF;
  return bits >= 0x7F800000 ? kInfinity : std::bit_cast<float>(bits);
}

// As inverse_norm of templates/tile/row_group.cuh, with about its sums.
float inverse_norm_of(DType dtype, int dim, const std::byte* row) {
  constexpr int kSums = 8;
  constexpr float kTinySquare = 1e-24f;
  float sums[kSums] = {};
  for (int col = 0; col < dim; col += kSums) {
    for (int i = 0; i < kSums; ++i) {
      const float x = magnitude(dtype, row + static_cast<ptrdiff_t>(col + i) * dtype_bytes(dtype));
      sums[i] += x * x;
    }
  }
  const float square = std::accumulate(std::begin(sums), std::end(sums), 0.0f);
  if (!(square < std::numeric_limits<float>::infinity()))
    return std::numeric_limits<float>::quiet_NaN();
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
    return {1, all.heads, all.kv_heads, rows_of(b, s.cu_seqlens_q, s.seqused_q, all.seq_q).length,
            rows_of(b, s.cu_seqlens_k, s.seqused_k, all.seq_k).length};
  }

  Tensors tensors_of(int64_t b) const {
    const Sequences& s = call_.sequences;
    const Rows q = rows_of(b, s.cu_seqlens_q, s.seqused_q, call_.sizes.seq_q);
    const Rows k = rows_of(b, s.cu_seqlens_k, s.seqused_k, call_.sizes.seq_k);
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
    const auto at = [&](const Tensor& tensor, const Rows& rows, int64_t head, int64_t row) {
      return part_of(tensor, {rows.batch, rows.first + row, 0}, bytes).data +
             static_cast<DevicePtr>(head * tensor.head_stride * bytes);
    };
    for (int64_t b = 0; b < call_.sizes.batch; ++b) {
      const Rows to = rows_of(b, s.cu_seqlens_k, s.seqused_k, call_.sizes.seq_k);
      const Rows from = rows_of(b, s.cu_seqlens_new, nullptr, s.seq_new);
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
      const Rows to = rows_of(b, s.cu_seqlens_k, s.seqused_k, call_.sizes.seq_k);
      const Rows from = rows_of(b, s.cu_seqlens_new, nullptr, s.seq_new);
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

TensorShapes shapes_of(const Sizes& sizes, const Sequences& sequences) {
  TensorShapes shapes = shapes_of(sizes);
  if (sequences.cu_seqlens_q != nullptr) {
    shapes.batch_q = 1;
    shapes.rows_q = sequences.total_q;
  }
  if (sequences.cu_seqlens_k != nullptr) {
    shapes.batch_k = 1;
    shapes.rows_k = sequences.total_k;
  }
  const bool packs_new = sequences.cu_seqlens_new != nullptr && sequences.seq_new != 0;
  shapes.batch_new = packs_new ? 1 : sizes.batch;
  shapes.rows_new = packs_new ? sequences.total_new : sequences.seq_new;
  return shapes;
}

void add_lengths(const Sizes& sizes, const Sequences& sequences, Operands& operands) {
  const Operand workspace = operands.items[--operands.count];  // stays the last one
  const auto add = [&](const char* name, const int32_t* numbers, int64_t count) {
    if (numbers == nullptr) return;
    Operand operand;
    operand.name = name;
    operand.data = reinterpret_cast<DevicePtr>(numbers);
    operand.sizes[0] = operand.sizes[1] = operand.sizes[2] = 1;
    operand.dim = count;
    operand.elem_bytes = operand.alignment = sizeof(int32_t);
    operand.is_fixed = true;
    operands.add(operand);
  };
  add("cu_seqlens_q", sequences.cu_seqlens_q, sizes.batch + 1);
  add("cu_seqlens_k", sequences.cu_seqlens_k, sizes.batch + 1);
  add("seqused_q", sequences.seqused_q, sizes.batch);
  add("seqused_k", sequences.seqused_k, sizes.batch);
  if (sequences.seq_new != 0) add("cu_seqlens_new", sequences.cu_seqlens_new, sizes.batch + 1);
  operands.add(workspace);
}

bool host_reads_lengths(const Device& device) {
  const std::string& kind = device.info().kind;
  return kind == "cpu" || kind == "virtual";
}

Status check_total(const char* which, int64_t total) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (total >= 0 && total <= kMost) return {};
  return invalid_argument(fmt::format("total_{} = {}: allowed are 0 to {}", which, total, kMost));
}

Status check_totals(const Sequences& sequences) {
  if (sequences.cu_seqlens_q != nullptr) LSSAR_RETURN_IF_ERROR(check_total("q", sequences.total_q));
  return sequences.cu_seqlens_k == nullptr ? Status() : check_total("k", sequences.total_k);
}

Status check_new_keys(const Problem& problem, const Sequences& sequences) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t most = takes_new_keys(problem) ? kMost : 0;
  if (sequences.seq_new < 0 || sequences.seq_new > most) {
    return invalid_argument(fmt::format("seq_new = {}: allowed with pass {} are 0 to {}",
                                        sequences.seq_new, pass_name(problem.pass), most));
  }
  const bool is_packed = sequences.seq_new != 0 && sequences.cu_seqlens_new != nullptr;
  return is_packed ? check_total("new", sequences.total_new) : Status();
}

Status check_key_norms(const Problem& problem, const Tensors& tensors) {
  if (tensors.key_norms == 0 || keeps_key_norms(problem)) return {};
  std::string where = fmt::format("rotary_dim = {}", problem.rotary_dim);
  if (!problem.score.qk_norm) where = "a score that takes no norms of keys";
  if (!takes_new_keys(problem)) where = fmt::format("pass {}", pass_name(problem.pass));
  return invalid_argument(
      fmt::format("key_norms = {:#x}: must be NULL with {}", tensors.key_norms, where));
}

Status check_sequences(const Problem& problem, const Sizes& sizes, const Sequences& sequences) {
  LSSAR_RETURN_IF_ERROR(check_lengths("q", sizes.batch, sizes.seq_q, sequences.total_q,
                                      sequences.cu_seqlens_q, sequences.seqused_q));
  LSSAR_RETURN_IF_ERROR(check_lengths("k", sizes.batch, sizes.seq_k, sequences.total_k,
                                      sequences.cu_seqlens_k, sequences.seqused_k));
  if (sequences.seq_new != 0) {
    LSSAR_RETURN_IF_ERROR(check_lengths("new", sizes.batch, sequences.seq_new, sequences.total_new,
                                        sequences.cu_seqlens_new, nullptr));
    LSSAR_RETURN_IF_ERROR(check_room(sizes, sequences));
  }
  return problem.rotary_dim == 0 ? Status() : check_positions(sizes, sequences);
}

Result<size_t> sequences_workspace_bytes(const Problem& problem, const Schedule& schedule,
                                         const Sizes& sizes, int64_t total_q, int64_t total_k) {
  if (schedule.variant != Variant::kCpu)
    return device_sequences_workspace_bytes(problem, schedule, sizes, total_q, total_k);
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

Result<SavedBytes> sequences_saved_bytes(const Problem& problem, const Schedule& schedule,
                                         const Sizes& sizes, int64_t total_q) {
  return saved_bytes(problem, schedule, {1, sizes.heads, sizes.kv_heads, total_q, 0});
}

Status launch_sequences(Device& device, const std::vector<LaunchStep>& steps,
                        const std::vector<StepFunction>& functions, const SequencesCall& call,
                        Stream stream) {
  if (call.schedule.variant != Variant::kCpu)
    return launch_device_sequences(device, steps, functions, call, stream);
  return HostSequences(device, steps, functions, call).run();
}

}  // namespace lssar
