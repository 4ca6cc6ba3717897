#include "runtime/call_maps.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/tensor_map.h"
#include "templates/kernels/params.cuh"
#include "templates/ptx/sizes.cuh"

namespace lssar {
namespace {

constexpr int kAlignment = 16;
// Coordinates have 32 bits, and a tile's rows may reach beyond the last one.
constexpr int64_t kMaxTensorSize = (int64_t{1} << 31) - 4096;
constexpr int kRowConstants = 8;  // floats per row
constexpr int kSumCols = lssar_constants::kGradQSumCols;

TensorDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::kFp16:
      return TensorDataType::kFloat16;
    case DType::kBf16:
      return TensorDataType::kBfloat16;
    case DType::kFp32:
      return TensorDataType::kFloat32;
  }
  return TensorDataType::kFloat32;
}

// A tensor as a map sees it: sizes and strides, innermost dimension first. Strides are in elements.
struct View {
  DevicePtr data = 0;
  TensorDataType type = TensorDataType::kFloat32;
  uint32_t rank = 0;
  int64_t sizes[kMaxTensorRank] = {};
  int64_t strides[kMaxTensorRank] = {};    // [0] is 1 and not read
  const char* names[kMaxTensorRank] = {};  // of the strides, for messages
  int box[kMaxTensorRank] = {1, 1, 1, 1, 1};

  bool empty() const {
    for (uint32_t i = 0; i < rank; ++i) {
      if (sizes[i] == 0) return true;
    }
    return false;
  }
};

View attention_view(const Tensor& tensor, TensorDataType type, int64_t batch, int64_t heads,
                    int64_t length, int64_t dim) {
  View view;
  view.data = tensor.data;
  view.type = type;
  view.rank = 4;
  const int64_t sizes[4] = {dim, length, heads, batch};
  const int64_t strides[4] = {1, tensor.row_stride, tensor.head_stride, tensor.batch_stride};
  const char* const names[4] = {"", "row stride", "head stride", "batch stride"};
  for (int i = 0; i < 4; ++i) {
    view.sizes[i] = sizes[i];
    view.strides[i] = strides[i];
    view.names[i] = names[i];
  }
  return view;
}

// A call, and the shapes of its tensors.
struct ShapedCall : CheckedCall {
  TensorShapes shapes;
};

View of_queries(const ShapedCall& call, const Tensor& tensor, int64_t dim) {
  const TensorShapes& s = call.shapes;
  return attention_view(tensor, type_of(call.problem.dtype), s.batch_q, s.heads, s.rows_q, dim);
}

// The same, with the heads that share keys as the dimension next to the rows.
View of_packed_queries(const ShapedCall& call, const Tensor& tensor, int64_t dim) {
  const Sizes& s = call.sizes;
  const int64_t group = s.heads / s.kv_heads;
  View view;
  view.data = tensor.data;
  view.type = type_of(call.problem.dtype);
  view.rank = 5;
  const int64_t sizes[5] = {dim, group, s.seq_q, s.kv_heads, s.batch};
  const int64_t strides[5] = {1, tensor.head_stride, tensor.row_stride, group * tensor.head_stride,
                              tensor.batch_stride};
  const char* const names[5] = {"", "head stride", "row stride", "stride of kv heads",
                                "batch stride"};
  std::copy_n(sizes, 5, view.sizes);
  std::copy_n(strides, 5, view.strides);
  std::copy_n(names, 5, view.names);
  return view;
}

View of_keys(const ShapedCall& call, const Tensor& tensor, int64_t dim) {
  const TensorShapes& s = call.shapes;
  return attention_view(tensor, type_of(call.problem.dtype), s.batch_k, s.kv_heads, s.rows_k, dim);
}

View key_norms_view(const CheckedCall& call) {
  View view;
  view.data = call.workspace + call.layout.k_inv_norm;
  view.rank = 2;
  if (call.problem.varlen) {
    view.sizes[0] = key_norm_pitch(call.sizes.seq_k) * call.sizes.kv_heads;
    view.sizes[1] = 1;
    return view;
  }
  view.sizes[0] = call.sizes.seq_k;
  view.sizes[1] = call.sizes.batch * call.sizes.kv_heads;
  view.strides[1] = key_norm_pitch(call.sizes.seq_k);
  view.names[1] = "head stride";
  return view;
}

View row_constants_view(const CheckedCall& call) {
  View view;
  view.data = call.workspace + call.layout.row_constants;
  view.rank = 3;
  view.sizes[0] = kRowConstants;
  view.sizes[1] = call.sizes.seq_q;
  view.sizes[2] = call.sizes.batch * call.sizes.heads;
  view.strides[1] = kRowConstants;
  view.strides[2] = kRowConstants * call.sizes.seq_q;
  view.names[1] = "row stride";
  view.names[2] = "head stride";
  if (call.problem.varlen) {
    view.sizes[1] *= view.sizes[2];
    view.sizes[2] = 1;
  }
  return view;
}

View grad_q_sum_view(const CheckedCall& call) {
  const Sizes& s = call.sizes;
  const int64_t dim = call.problem.head_dim;
  View view;
  view.data = call.workspace + call.layout.grad_q_sum;
  view.rank = 4;
  const int64_t sizes[4] = {s.seq_q * kSumCols, dim / kSumCols, s.heads, s.batch};
  const int64_t strides[4] = {1, s.seq_q * kSumCols, s.seq_q * dim, s.heads * s.seq_q * dim};
  const char* const names[4] = {"", "column stride", "head stride", "batch stride"};
  std::copy_n(sizes, 4, view.sizes);
  std::copy_n(strides, 4, view.strides);
  std::copy_n(names, 4, view.names);
  return view;
}

View view_of(const MapSpec& spec, const ShapedCall& call) {
  const Tensors& t = call.tensors;
  const int64_t dim = call.problem.head_dim, dim_v = call.problem.head_dim_v;
  switch (spec.tensor) {
    case MapTensor::kQ:
      return spec.packed ? of_packed_queries(call, t.q, dim) : of_queries(call, t.q, dim);
    case MapTensor::kK:
      return of_keys(call, t.k, dim);
    case MapTensor::kV:
      return of_keys(call, t.v, dim_v);
    case MapTensor::kO:
      return spec.packed ? of_packed_queries(call, t.o, dim_v) : of_queries(call, t.o, dim_v);
    case MapTensor::kGradO:
      return of_queries(call, t.grad_o, dim_v);
    case MapTensor::kGradQ:
      return of_queries(call, t.grad_q, dim);
    case MapTensor::kGradK:
      return of_keys(call, t.grad_k, dim);
    case MapTensor::kGradV:
      return of_keys(call, t.grad_v, dim_v);
    case MapTensor::kGradQSum:
      return grad_q_sum_view(call);
    case MapTensor::kKeyNorms:
      return key_norms_view(call);
    case MapTensor::kRowConstants:
      return row_constants_view(call);
  }
  return {};
}

// The stride of dimension i in bytes. REQUIRES: its size is at least 2.
Result<uint64_t> stride_bytes(const MapSpec& spec, const View& view, uint32_t i) {
  const auto bytes = static_cast<__int128>(view.strides[i]) * tensor_element_bytes(view.type);
  if (bytes < 0 || bytes >= kMaxTensorStride || bytes % kAlignment != 0) {
    return invalid_argument(fmt::format(
        "{}.{} = {} elements of {}: a tensor map allows multiples of 16 bytes below 2^40",
        map_tensor_name(spec.tensor), view.names[i], view.strides[i],
        tensor_data_type_name(view.type)));
  }
  return static_cast<uint64_t>(bytes);
}

void set_box(const MapSpec& spec, View& view) {
  view.box[0] = spec.box_cols;
  if (spec.tensor == MapTensor::kGradQSum) {
    view.box[0] = spec.box_rows * kSumCols;
    view.box[1] = spec.box_cols / kSumCols;
    return;
  }
  if (spec.tensor != MapTensor::kKeyNorms) view.box[1] = spec.box_rows;
  if (spec.packed) {
    const int64_t group = std::clamp<int64_t>(view.sizes[1], 1, spec.box_rows);
    view.box[1] = static_cast<int>(group);
    view.box[2] = static_cast<int>(spec.box_rows / group);
  }
}

bool is_swizzled(const MapSpec& spec) {
  return spec.swizzled && spec.tensor != MapTensor::kGradQSum &&
         spec.tensor != MapTensor::kKeyNorms && spec.tensor != MapTensor::kRowConstants;
}

// A valid, sufficiently aligned address for the map of an empty tensor. Nothing is loaded from it.
DevicePtr stand_in_address(const CheckedCall& call) {
  if (call.problem.varlen) return call.workspace;
  const bool has_queries = call.sizes.seq_q != 0;
  return has_queries ? call.tensors.q.data : call.tensors.k.data;
}

}  // namespace

const char* map_tensor_name(MapTensor tensor) {
  switch (tensor) {
    case MapTensor::kQ:
      return "q";
    case MapTensor::kK:
      return "k";
    case MapTensor::kV:
      return "v";
    case MapTensor::kO:
      return "o";
    case MapTensor::kGradO:
      return "grad_o";
    case MapTensor::kGradQ:
      return "grad_q";
    case MapTensor::kGradK:
      return "grad_k";
    case MapTensor::kGradV:
      return "grad_v";
    case MapTensor::kGradQSum:
      return "grad_q_sum";
    case MapTensor::kKeyNorms:
      return "k_inv_norm";
    case MapTensor::kRowConstants:
      return "row_constants";
  }
  return "?";
}

Result<TensorMapRequest> tensor_map_request(const MapSpec& spec, const CheckedCall& call) {
  return tensor_map_request(spec, call, shapes_of(call.sizes));
}

Result<TensorMapRequest> tensor_map_request(const MapSpec& spec, const CheckedCall& call,
                                            const TensorShapes& shapes) {
  View view = view_of(spec, {call, shapes});
  set_box(spec, view);
  const bool is_empty = view.empty();
  TensorMapRequest request;
  request.type = view.type;
  request.rank = view.rank;
  request.global_address = is_empty ? stand_in_address(call) : view.data;
  for (uint32_t i = 0; i < view.rank; ++i) {
    if (view.sizes[i] > kMaxTensorSize) {
      return invalid_argument(
          fmt::format("{}: {} elements along dimension {} of its tensor map: allowed are 0 to {}",
                      map_tensor_name(spec.tensor), view.sizes[i], i, kMaxTensorSize));
    }
    request.global_dims[i] = is_empty ? 1 : static_cast<uint64_t>(view.sizes[i]);
    request.box_dims[i] = static_cast<uint32_t>(view.box[i]);
    if (i == 0) continue;
    request.global_strides[i - 1] = kAlignment;
    if (!is_empty && view.sizes[i] > 1) {
      LSSAR_ASSIGN_OR_RETURN(request.global_strides[i - 1], stride_bytes(spec, view, i));
    }
  }
  if (is_swizzled(spec)) request.swizzle = TensorSwizzle::k128Bytes;
  // A row of a swizzled box is 128 bytes, so a larger promotion would fetch bytes that nobody
  // needs.
  request.l2_promotion = TensorL2Promotion::k128Bytes;
  if (request.global_address % kAlignment != 0) {
    return invalid_argument(
        fmt::format("{}.data = {:#x}: a tensor map allows multiples of 16 bytes",
                    map_tensor_name(spec.tensor), request.global_address));
  }
  return request;
}

}  // namespace lssar
