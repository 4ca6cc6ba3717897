#include "runtime/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen/pass_needs.h"

namespace lssar {
namespace {

constexpr int kNumStrided = 3;

Operand strided(const char* name, const Tensor& tensor, int64_t batch, int64_t heads,
                int64_t length, int64_t dim, const Problem& problem, bool written) {
  Operand operand;
  operand.name = name;
  operand.data = tensor.data;
  operand.sizes[0] = batch;
  operand.sizes[1] = heads;
  operand.sizes[2] = length;
  operand.strides[0] = tensor.batch_stride;
  operand.strides[1] = tensor.head_stride;
  operand.strides[2] = tensor.row_stride;
  operand.dim = dim;
  operand.elem_bytes = dtype_bytes(problem.dtype);
  operand.alignment = problem.alignment;
  operand.written = written;
  return operand;
}

// Saved tensors and the workspace count as bytes here. Kernels move them 16 bytes at a time.
Operand bytes_at(const char* name, DevicePtr data, size_t bytes, bool written) {
  Operand operand;
  operand.name = name;
  operand.data = data;
  std::fill(operand.sizes, operand.sizes + kNumStrided, 1);
  operand.dim = static_cast<int64_t>(bytes);
  operand.alignment = 16;
  operand.written = written;
  operand.is_fixed = true;
  return operand;
}

// One float32 number for each head.
Operand of_heads(const char* name, DevicePtr data, int64_t heads, bool written) {
  Operand operand = bytes_at(name, data, static_cast<size_t>(heads), written);
  operand.elem_bytes = operand.alignment = 4;
  return operand;
}

// One float32 number for each row of k.
Operand of_key_rows(const char* name, DevicePtr data, const TensorShapes& shapes, bool written) {
  Operand operand = of_heads(name, data, shapes.rows_k, written);
  operand.sizes[0] = shapes.batch_k;
  operand.sizes[1] = shapes.kv_heads;
  operand.strides[0] = shapes.kv_heads * shapes.rows_k;
  operand.strides[1] = shapes.rows_k;
  return operand;
}

// What a call reads of a table of angles.
Operand of_positions(const char* name, DevicePtr data, int64_t rows, int64_t pairs) {
  Operand operand = bytes_at(name, data, static_cast<size_t>(pairs), false);
  operand.sizes[2] = rows;
  operand.strides[2] = pairs;
  operand.elem_bytes = operand.alignment = 4;
  return operand;
}

// One dimension of either tensor: contributes n * stride_bytes, where low <= n <= high.
struct Step {
  int64_t stride_bytes;
  int64_t low, high;
};

// Searches for multiples of the steps that bring `distance` into (-bytes_b, bytes_a). A row of a
// and a row of b then share a byte. The longest steps come first, so that the reach of the
// remaining ones leaves few multiples to try.
class OverlapSearch {
 public:
  OverlapSearch(const Step* steps, int count, int64_t bytes_a, int64_t bytes_b)
      : steps_(steps), count_(count), bytes_a_(bytes_a), bytes_b_(bytes_b) {}

  bool found(int64_t distance) { return visit(0, distance); }

 private:
  static constexpr int kMaxVisits = 512;

  static int64_t floor_div(__int128 a, int64_t b) {
    __int128 quotient = a / b;
    if (a % b != 0 && (a < 0) != (b < 0)) --quotient;
    return static_cast<int64_t>(quotient);
  }

  bool visit(int idx, int64_t distance) {
    if (++visits_ > kMaxVisits) return false;
    if (idx == count_) return distance > -bytes_b_ && distance < bytes_a_;
    __int128 reach_low = 0, reach_high = 0;
    for (int rest = idx + 1; rest < count_; ++rest) {
      reach_low += static_cast<__int128>(steps_[rest].stride_bytes) * steps_[rest].low;
      reach_high += static_cast<__int128>(steps_[rest].stride_bytes) * steps_[rest].high;
    }
    // Bounds n by -bytes_b < distance + n * stride + rest < bytes_a for every rest within reach.
    const int64_t stride = steps_[idx].stride_bytes;
    const __int128 least = -static_cast<__int128>(bytes_b_) + 1 - reach_high - distance;
    const __int128 most = static_cast<__int128>(bytes_a_) - 1 - reach_low - distance;
    const int64_t first = std::max(steps_[idx].low, -floor_div(-least, stride));
    const int64_t last = std::min(steps_[idx].high, floor_div(most, stride));
    for (int64_t n = first; n <= last; ++n) {
      if (visits_ > kMaxVisits) return false;
      if (visit(idx + 1, distance + n * stride)) return true;
    }
    return false;
  }

  const Step* steps_;
  const int count_;
  const int64_t bytes_a_, bytes_b_;
  int visits_ = 0;
};

// The steps of two tensors, longest first. Equal strides are merged into one step of a wider range.
class Steps {
 public:
  void add(int64_t stride_bytes, int64_t low, int64_t high) {
    if (stride_bytes == 0) return;  // a broadcast dimension adds no address
    int at = 0;
    while (at < count_ && items_[at].stride_bytes > stride_bytes) ++at;
    if (at < count_ && items_[at].stride_bytes == stride_bytes) {
      items_[at].low += low;
      items_[at].high += high;
      return;
    }
    for (int i = count_; i > at; --i) items_[i] = items_[i - 1];
    items_[at] = {stride_bytes, low, high};
    ++count_;
  }
  const Step* data() const { return items_.data(); }
  int count() const { return count_; }

 private:
  std::array<Step, 2 * kNumStrided> items_{};
  int count_ = 0;
};

}  // namespace

Operands list_operands(const Problem& problem, const TensorShapes& shapes, const SavedBytes& saved,
                       const Tensors& tensors, DevicePtr workspace, size_t workspace_bytes) {
  const auto of_queries = [&](const char* name, const Tensor& t, int64_t dim, bool written) {
    return strided(name, t, shapes.batch_q, shapes.heads, shapes.rows_q, dim, problem, written);
  };
  const auto of_keys = [&](const char* name, const Tensor& t, int64_t dim, bool written) {
    return strided(name, t, shapes.batch_k, shapes.kv_heads, shapes.rows_k, dim, problem, written);
  };
  const auto of_new_keys = [&](const char* name, const Tensor& t, int64_t dim) {
    return strided(name, t, shapes.batch_new, shapes.kv_heads, shapes.rows_new, dim, problem,
                   false);
  };
  const bool appends = shapes.rows_new != 0;
  Operands list;
  list.add(of_queries("q", tensors.q, problem.head_dim, false));
  list.add(of_keys("k", tensors.k, problem.head_dim, appends));
  if (problem.pass != Pass::kRowSums)
    list.add(of_keys("v", tensors.v, problem.head_dim_v, appends));
  if (appends) {
    list.add(of_new_keys("k_new", tensors.k_new, problem.head_dim));
    list.add(of_new_keys("v_new", tensors.v_new, problem.head_dim_v));
  }
  if (tensors.key_norms != 0)
    list.add(of_key_rows("key_norms", tensors.key_norms, shapes, appends));
  if (problem.pass == Pass::kWeightedSum)
    list.add(bytes_at("partial_o", tensors.partial_o, saved.partial_o, true));
  if (is_of_range(problem.pass) || (problem.pass == Pass::kForward && tensors.row_stats != 0))
    list.add(bytes_at("row_stats", tensors.row_stats, saved.stats, true));
  const bool is_backward = problem.pass == Pass::kBackward;
  const bool is_training = problem.pass == Pass::kForwardTrain;
  if (is_training || problem.pass == Pass::kForward) {
    list.add(of_queries("o", tensors.o, problem.head_dim_v, true));
  } else if (is_backward) {
    list.add(of_queries("o", tensors.o, problem.head_dim_v, false));
    list.add(of_queries("grad_o", tensors.grad_o, problem.head_dim_v, false));
    list.add(of_queries("grad_q", tensors.grad_q, problem.head_dim, true));
    list.add(of_keys("grad_k", tensors.grad_k, problem.head_dim, true));
    list.add(of_keys("grad_v", tensors.grad_v, problem.head_dim_v, true));
  }
  if (is_training || is_backward) {
    list.add(bytes_at("saved_o", tensors.saved_o, saved.o, !is_backward));
    list.add(bytes_at("saved_stats", tensors.saved_stats, saved.stats, !is_backward));
    list.add(bytes_at("saved_x", tensors.saved_x, saved.x, !is_backward));
  }
  if (reads_sink(problem)) list.add(of_heads("sink", tensors.sink, shapes.heads, false));
  if (reads_sink(problem) && is_backward)
    list.add(of_heads("grad_sink", tensors.grad_sink, shapes.heads, true));
  if (reads_alibi(problem))
    list.add(of_heads("alibi_slopes", tensors.alibi_slopes, shapes.heads, false));
  if (problem.rotary_dim != 0) {
    const int64_t pairs = problem.rotary_dim / 2;
    list.add(of_positions("rotary_cos", tensors.rotary_cos, shapes.positions, pairs));
    list.add(of_positions("rotary_sin", tensors.rotary_sin, shapes.positions, pairs));
  }
  list.add(bytes_at("workspace", workspace, workspace_bytes, true));
  return list;
}

Result<int64_t> extent_bytes(const Operand& operand) {
  if (operand.empty()) return int64_t{0};
  __int128 elems = operand.dim;
  for (int i = 0; i < kNumStrided; ++i) {
    elems += static_cast<__int128>(operand.sizes[i] - 1) * operand.strides[i];
  }
  const __int128 bytes = elems * operand.elem_bytes;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  if (bytes > kMax || static_cast<__int128>(operand.data) + bytes > kMax) {
    return invalid_argument(fmt::format(
        "{}: sizes {} x {} x {} x {} with strides {}, {}, {} reach beyond 2^63 bytes; allowed are "
        "strides within the memory behind the pointer",
        operand.name, operand.sizes[0], operand.sizes[1], operand.sizes[2], operand.dim,
        operand.strides[0], operand.strides[1], operand.strides[2]));
  }
  return static_cast<int64_t>(bytes);
}

bool overlaps_itself(const Operand& operand) {
  int order[kNumStrided] = {0, 1, 2};
  std::sort(order, order + kNumStrided,
            [&](int a, int b) { return operand.strides[a] < operand.strides[b]; });
  int64_t extent = operand.dim;
  for (int i : order) {
    if (operand.sizes[i] <= 1) continue;
    if (operand.strides[i] < extent) return true;
    extent += (operand.sizes[i] - 1) * operand.strides[i];
  }
  return false;
}

bool certainly_overlap(const Operand& a, const Operand& b) {
  const Result<int64_t> extent_a = extent_bytes(a), extent_b = extent_bytes(b);
  if (!extent_a.ok() || !extent_b.ok()) return false;
  const auto begin_a = static_cast<int64_t>(a.data), begin_b = static_cast<int64_t>(b.data);
  if (begin_a + *extent_a <= begin_b || begin_b + *extent_b <= begin_a) return false;

  Steps steps;
  for (int i = 0; i < kNumStrided; ++i) {
    // The stride of a dimension of size 1 is never used and may be anything.
    if (a.sizes[i] > 1) steps.add(a.strides[i] * a.elem_bytes, 1 - a.sizes[i], 0);
    if (b.sizes[i] > 1) steps.add(b.strides[i] * b.elem_bytes, 0, b.sizes[i] - 1);
  }
  return OverlapSearch(steps.data(), steps.count(), a.dim * a.elem_bytes, b.dim * b.elem_bytes)
      .found(begin_b - begin_a);
}

}  // namespace lssar
