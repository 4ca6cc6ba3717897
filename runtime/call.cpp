#include "runtime/call.h"

#include <fmt/format.h>

#include <limits>

#include "runtime/operands.h"

namespace lssar {
namespace {

constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

Status check_size(const char* name, int64_t value, int64_t least) {
  if (value >= least && value <= kMaxSize) return {};
  return invalid_argument(
      fmt::format("sizes.{} = {}: allowed are {} to {}", name, value, least, kMaxSize));
}

Status check_fixed(const char* name, int64_t value, int64_t fixed) {
  if (fixed == 0 || value == fixed) return {};
  return invalid_argument(fmt::format(
      "sizes.{0} = {1}: the problem was made for {0} = {2} only (0 there leaves it open)", name,
      value, fixed));
}

// As check_fixed, of the longest sequence.
Status check_longest(const char* name, int64_t value, int64_t most) {
  if (most == 0 || value <= most) return {};
  return invalid_argument(fmt::format(
      "sizes.{0} = {1}: allowed are 0 to {2}, because the problem has varlen and {0} = {2} (0 "
      "there leaves it open)",
      name, value, most));
}

// Checks that `length` rows from `first` lie within `all` rows (0: unlimited).
Status check_range(const char* first_name, int64_t first, const char* all_name, int64_t all,
                   const char* length_name, int64_t length) {
  if (first < 0 || first > kMaxSize - length) {
    return invalid_argument(fmt::format("range.{} = {}: allowed are 0 to {} with {} = {}",
                                        first_name, first, kMaxSize - length, length_name, length));
  }
  if (all == 0 || (all >= first + length && all <= kMaxSize)) return {};
  return invalid_argument(
      fmt::format("range.{} = {}: allowed are {} ({} + {}) to {}, and 0 for the least of them",
                  all_name, all, first + length, first_name, length_name, kMaxSize));
}

Status check_alignment(const Operand& operand) {
  const auto refuse = [&](const char* what, auto value, const char* unit) {
    return invalid_argument(fmt::format("{}.{} = {}{}: must be a multiple of {} bytes",
                                        operand.name, what, value, unit, operand.alignment));
  };
  if (operand.data % operand.alignment != 0) {
    return refuse("data", fmt::format("{:#x}", operand.data), "");
  }
  static constexpr const char* kNames[3] = {"batch stride", "head stride", "row stride"};
  for (int i = 0; i < 3; ++i) {
    if (operand.sizes[i] <= 1) continue;
    // Take the remainder first, because the product may overflow for a stride that is refused
    // later.
    if ((operand.strides[i] % operand.alignment) * operand.elem_bytes % operand.alignment != 0) {
      return refuse(kNames[i], operand.strides[i], " elements");
    }
  }
  return {};
}

Status check_operand(const Operand& operand) {
  if (operand.empty()) return {};
  if (operand.data == 0) {
    if (operand.elem_bytes == 1)  // the workspace, and saved tensors
      return invalid_argument(fmt::format("{} = NULL: it has {} bytes", operand.name, operand.dim));
    return invalid_argument(fmt::format("{} = NULL: it has {} x {} x {} x {} elements",
                                        operand.name, operand.sizes[0], operand.sizes[1],
                                        operand.sizes[2], operand.dim));
  }
  static constexpr const char* kNames[3] = {"batch", "head", "row"};
  for (int i = 0; i < 3; ++i) {
    if (operand.sizes[i] > 1 && operand.strides[i] < 0) {
      return invalid_argument(fmt::format("{}.{} stride = {}: allowed are 0 and more elements",
                                          operand.name, kNames[i], operand.strides[i]));
    }
  }
  const Result<int64_t> extent = extent_bytes(operand);
  LSSAR_RETURN_IF_ERROR(extent.status());
  LSSAR_RETURN_IF_ERROR(check_alignment(operand));
  if (operand.written && overlaps_itself(operand)) {
    return invalid_argument(fmt::format(
        "{}: strides {}, {}, {} put several of its {} x {} x {} x {} elements at one address, or "
        "do not nest; a tensor that is written needs each stride to be at least the extent of "
        "what is inside it",
        operand.name, operand.strides[0], operand.strides[1], operand.strides[2], operand.sizes[0],
        operand.sizes[1], operand.sizes[2], operand.dim));
  }
  return {};
}

Status check_overlaps(const Operands& operands) {
  for (const Operand* a = operands.begin(); a != operands.end(); ++a) {
    for (const Operand* b = operands.begin(); b != a; ++b) {
      if (!(a->written || b->written) || a->empty() || b->empty()) continue;
      if (certainly_overlap(*a, *b)) {
        const bool a_written = a->written;
        return invalid_argument(
            fmt::format("{} overlaps {}: what is written must not share memory "
                        "with another tensor of the call",
                        a_written ? a->name : b->name, a_written ? b->name : a->name));
      }
    }
  }
  return {};
}

}  // namespace

Tensor contiguous_tensor(DevicePtr data, int64_t heads, int64_t length, int64_t dim) {
  return {data, heads * length * dim, length * dim, dim};
}

Sizes sizes_of(const Problem& problem) {
  return {problem.batch, problem.heads, problem.kv_heads, problem.seq_q, problem.seq_k};
}

Status check_sizes(const Problem& problem, const Sizes& sizes) {
  LSSAR_RETURN_IF_ERROR(check_size("batch", sizes.batch, 0));
  LSSAR_RETURN_IF_ERROR(check_size("heads", sizes.heads, 1));
  LSSAR_RETURN_IF_ERROR(check_size("kv_heads", sizes.kv_heads, 1));
  LSSAR_RETURN_IF_ERROR(check_size("seq_q", sizes.seq_q, 0));
  LSSAR_RETURN_IF_ERROR(check_size("seq_k", sizes.seq_k, 0));
  const auto check_length = problem.varlen ? check_longest : check_fixed;
  LSSAR_RETURN_IF_ERROR(check_length("seq_q", sizes.seq_q, problem.seq_q));
  LSSAR_RETURN_IF_ERROR(check_length("seq_k", sizes.seq_k, problem.seq_k));
  if (sizes.heads % sizes.kv_heads != 0) {
    return invalid_argument(fmt::format("sizes.kv_heads = {}: must divide sizes.heads = {}",
                                        sizes.kv_heads, sizes.heads));
  }
  // Sequences of their own lengths are checked one by one.
  if (problem.rotary_dim != 0 && !problem.varlen && sizes.seq_q > sizes.seq_k) {
    return invalid_argument(fmt::format(
        "sizes.seq_q = {}: allowed with rotary_dim are 0 to seq_k = {}, because query i stands at "
        "position i + seq_k - seq_q",
        sizes.seq_q, sizes.seq_k));
  }
  if (!is_of_range(problem.pass)) return {};
  const KeyRange& range = sizes.range;
  LSSAR_RETURN_IF_ERROR(
      check_range("first_key", range.first_key, "num_keys", range.num_keys, "seq_k", sizes.seq_k));
  return check_range("first_query", range.first_query, "num_queries", range.num_queries, "seq_q",
                     sizes.seq_q);
}

Status check_rotary_positions(const Problem& problem, const Sizes& sizes, const Tensors& tensors) {
  if (problem.rotary_dim == 0 ||
      (tensors.rotary_positions >= sizes.seq_k && tensors.rotary_positions <= kMaxSize))
    return {};
  return invalid_argument(fmt::format("rotary_positions = {}: allowed are seq_k = {} to {}",
                                      tensors.rotary_positions, sizes.seq_k, kMaxSize));
}

Status check_tensors(const Problem& problem, const Schedule& schedule, const Sizes& sizes,
                     const Tensors& tensors, const Workspace& workspace, size_t workspace_needed) {
  LSSAR_RETURN_IF_ERROR(check_rotary_positions(problem, sizes, tensors));
  const Result<SavedBytes> saved = saved_bytes(problem, schedule, sizes);
  LSSAR_RETURN_IF_ERROR(saved.status());
  return check_operands(
      list_operands(problem, shapes_of(sizes), *saved, tensors, workspace.data, workspace_needed),
      workspace);
}

Status check_operands(const Operands& operands, const Workspace& workspace) {
  for (const Operand& operand : operands) LSSAR_RETURN_IF_ERROR(check_operand(operand));
  const auto needed = static_cast<size_t>(operands.items[operands.count - 1].dim);
  if (workspace.bytes < needed) {
    return invalid_argument(
        fmt::format("workspace_bytes = {}: this call needs {} or more", workspace.bytes, needed));
  }
  return check_overlaps(operands);
}

int common_alignment(const Problem& problem, const TensorShapes& shapes, const Tensors& tensors) {
  // Saved tensors, sinks and the workspace have a fixed alignment of their own, so they are left
  // out.
  const Operands operands = list_operands(problem, shapes, SavedBytes{}, tensors, 0, 0);
  uint64_t bits = 16;
  for (const Operand& operand : operands) {
    if (operand.empty() || operand.is_fixed) continue;
    bits |= operand.data;
    for (int i = 0; i < 3; ++i) {
      if (operand.sizes[i] > 1)
        bits |= static_cast<uint64_t>(operand.strides[i]) * operand.elem_bytes;
    }
  }
  const auto alignment = static_cast<int>(bits & (~bits + 1));
  return alignment < dtype_bytes(problem.dtype) ? 0 : alignment;
}

}  // namespace lssar
