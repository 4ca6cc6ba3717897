#include "runtime/sequences.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "codegen/pass_needs.h"
#include "runtime/device_sequences.h"
#include "runtime/host_sequences.h"

namespace lssar {
namespace {

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
    const int64_t length = host_rows(b, cu_seqlens, nullptr, most).length;
    if (used[b] < 0 || used[b] > length)
      return refuse("seqused", b, used[b], 0, length, ", the sequence's length");
  }
  return {};
}

// Query i stands at position i + keys - queries, which must not be below 0.
Status check_positions(const Sizes& sizes, const Sequences& sequences) {
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const int64_t queries =
        host_rows(b, sequences.cu_seqlens_q, sequences.seqused_q, sizes.seq_q).length;
    const int64_t keys =
        host_rows(b, sequences.cu_seqlens_k, sequences.seqused_k, sizes.seq_k).length;
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
    const int64_t added = host_rows(b, sequences.cu_seqlens_new, nullptr, sequences.seq_new).length;
    const int64_t keys =
        host_rows(b, sequences.cu_seqlens_k, sequences.seqused_k, sizes.seq_k).length;
    if (added > keys) {
      return invalid_argument(
          fmt::format("sequence {} has {} new keys and {} keys: allowed are 0 to {} new keys, "
                      "because they are among its keys, the last ones",
                      b, added, keys, keys));
    }
  }
  return {};
}

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
  const auto bytes = schedule.variant == Variant::kCpu ? host_sequences_workspace_bytes
                                                       : device_sequences_workspace_bytes;
  return bytes(problem, schedule, sizes, total_q, total_k);
}

Result<SavedBytes> sequences_saved_bytes(const Problem& problem, const Schedule& schedule,
                                         const Sizes& sizes, int64_t total_q) {
  return saved_bytes(problem, schedule, {1, sizes.heads, sizes.kv_heads, total_q, 0});
}

Status launch_sequences(Device& device, const std::vector<LaunchStep>& steps,
                        const std::vector<StepFunction>& functions, const SequencesCall& call,
                        Stream stream) {
  if (call.schedule.variant == Variant::kCpu)
    return launch_host_sequences(device, steps, functions, call);
  return launch_device_sequences(device, steps, functions, call, stream);
}

}  // namespace lssar
