#include "device/tensor_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lssar {
namespace {

constexpr uint64_t kAlignment = 16;  // of the tensor's address, strides and box rows
constexpr uint64_t kMaxDim = uint64_t{1} << 32;
constexpr uint32_t kMaxBoxDim = 256;
constexpr uint32_t kMaxElementStride = 8;

struct TypeTraits {
  const char* name;
  uint32_t bytes;
  bool is_float;
};
constexpr TypeTraits kTypes[kNumTensorDataTypes] = {
    {"uint8", 1, false},       {"uint16", 2, false},     {"uint32", 4, false},
    {"int32", 4, false},       {"uint64", 8, false},     {"int64", 8, false},
    {"float16", 2, true},      {"float32", 4, true},     {"float64", 8, true},
    {"bfloat16", 2, true},     {"float32_ftz", 4, true}, {"tfloat32", 4, true},
    {"tfloat32_ftz", 4, true},
};

const TypeTraits& traits(TensorDataType type) { return kTypes[static_cast<uint32_t>(type)]; }

bool is_known(TensorDataType type) { return static_cast<uint32_t>(type) < kNumTensorDataTypes; }

template <typename Value>
Status bad(const std::string& field, Value value, const std::string& allowed) {
  return invalid_argument(fmt::format("tensor map: {} = {}: {}", field, value, allowed));
}

// Checks an enum whose values are 0 to `last`.
template <typename Enum>
Status check_enum(const char* field, Enum value, Enum last) {
  const auto number = static_cast<uint32_t>(value);
  const auto highest = static_cast<uint32_t>(last);
  if (number <= highest) return {};
  return bad(field, number, fmt::format("allowed are 0 to {}", highest));
}

Status check_enums(const TensorMapRequest& r) {
  LSSAR_RETURN_IF_ERROR(check_enum("type", r.type, TensorDataType::kTfloat32Ftz));
  LSSAR_RETURN_IF_ERROR(check_enum("interleave", r.interleave, TensorInterleave::k32Bytes));
  LSSAR_RETURN_IF_ERROR(check_enum("swizzle", r.swizzle, TensorSwizzle::k128Bytes));
  LSSAR_RETURN_IF_ERROR(check_enum("l2_promotion", r.l2_promotion, TensorL2Promotion::k256Bytes));
  LSSAR_RETURN_IF_ERROR(check_enum("fill", r.fill, TensorFill::kNan));
  if (r.interleave != TensorInterleave::kNone) {
    return unsupported(fmt::format("tensor map: interleave = {} bytes: allowed is none",
                                   r.interleave == TensorInterleave::k16Bytes ? 16 : 32));
  }
  if (r.fill == TensorFill::kNan && !is_floating_point(r.type)) {
    return bad("fill", "NaN",
               fmt::format("type {} has no NaN; allowed are zeros", tensor_data_type_name(r.type)));
  }
  return {};
}

// NOTE: strides need not grow. A tensor whose heads lie within its rows is legal, and so is one
// that repeats (stride 0).
Status check_tensor(const TensorMapRequest& r) {
  if (r.global_address % kAlignment != 0) {
    return bad("global_address", fmt::format("{:#x}", r.global_address),
               "allowed are multiples of 16");
  }
  for (uint32_t i = 0; i < r.rank; ++i) {
    if (r.global_dims[i] < 1 || r.global_dims[i] > kMaxDim) {
      return bad(fmt::format("global_dims[{}]", i), r.global_dims[i], "allowed are 1 to 2^32");
    }
  }
  for (uint32_t i = 0; i + 1 < r.rank; ++i) {
    if (r.global_strides[i] % kAlignment != 0 ||
        r.global_strides[i] >= uint64_t{kMaxTensorStride}) {
      return bad(fmt::format("global_strides[{}]", i), r.global_strides[i],
                 "allowed are multiples of 16 bytes below 2^40");
    }
  }
  return {};
}

Status check_box(const TensorMapRequest& r) {
  for (uint32_t i = 0; i < r.rank; ++i) {
    if (r.box_dims[i] < 1 || r.box_dims[i] > kMaxBoxDim) {
      return bad(fmt::format("box_dims[{}]", i), r.box_dims[i], "allowed are 1 to 256");
    }
    if (r.element_strides[i] < 1 || r.element_strides[i] > kMaxElementStride) {
      return bad(fmt::format("element_strides[{}]", i), r.element_strides[i], "allowed are 1 to 8");
    }
  }
  const uint32_t row_bytes = r.box_dims[0] * tensor_element_bytes(r.type);
  if (row_bytes % kAlignment != 0) {
    return bad("box_dims[0]", r.box_dims[0],
               fmt::format("{} bytes of {}; allowed are multiples of 16 bytes", row_bytes,
                           tensor_data_type_name(r.type)));
  }
  const uint32_t span = swizzle_span_bytes(r.swizzle);
  if (span != 0 && row_bytes > span) {
    return bad("box_dims[0]", r.box_dims[0],
               fmt::format("{} bytes of {}; a swizzle of {} bytes allows at most {}", row_bytes,
                           tensor_data_type_name(r.type), span, span));
  }
  return {};
}

}  // namespace

const char* tensor_data_type_name(TensorDataType type) {
  return is_known(type) ? traits(type).name : "?";
}

uint32_t tensor_element_bytes(TensorDataType type) { return traits(type).bytes; }

bool is_floating_point(TensorDataType type) { return traits(type).is_float; }

uint32_t swizzle_span_bytes(TensorSwizzle swizzle) {
  return swizzle == TensorSwizzle::kNone ? 0 : 16u << static_cast<uint32_t>(swizzle);
}

Status validate_tensor_map(const TensorMapRequest& r) {
  LSSAR_RETURN_IF_ERROR(check_enums(r));
  if (r.rank < 1 || r.rank > kMaxTensorRank) return bad("rank", r.rank, "allowed are 1 to 5");
  LSSAR_RETURN_IF_ERROR(check_tensor(r));
  return check_box(r);
}

std::string describe_tensor_map(const TensorMapRequest& r) {
  const uint32_t rank = r.rank < kMaxTensorRank ? r.rank : kMaxTensorRank;
  return fmt::format(
      "tensor map of {} at {:#x}, dims ({}), strides ({}), box ({}), element strides ({}), "
      "swizzle {} bytes, fill {}",
      tensor_data_type_name(r.type), r.global_address,
      fmt::join(r.global_dims, r.global_dims + rank, ", "),
      fmt::join(r.global_strides, r.global_strides + (rank > 0 ? rank - 1 : 0), ", "),
      fmt::join(r.box_dims, r.box_dims + rank, ", "),
      fmt::join(r.element_strides, r.element_strides + rank, ", "), swizzle_span_bytes(r.swizzle),
      r.fill == TensorFill::kNan ? "NaN" : "zeros");
}

}  // namespace lssar
