#include "device/tensor_map_codec.h"

#include <cstddef>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

namespace lssar::vdev {
namespace {

constexpr uint32_t kMagic = 0x564d544cu;  // "LTMV" in memory
constexpr uint8_t kVersion = 1;

// The content of the 128 bytes. Sizes of at least 1 are stored minus 1, so that every value of
// their bytes is legal.
struct Layout {
  uint32_t magic;
  uint8_t version;
  uint8_t type;
  uint8_t rank;
  uint8_t swizzle;
  uint64_t global_address;
  uint64_t global_strides[kMaxTensorRank - 1];
  uint32_t global_dims[kMaxTensorRank];  // minus 1
  uint8_t box_dims[kMaxTensorRank];      // minus 1
  uint8_t element_strides[kMaxTensorRank];
  uint8_t l2_promotion;
  uint8_t fill;
  uint64_t zeros[5];
  uint64_t checksum;
};
static_assert(sizeof(Layout) == kTensorMapBytes);

// The checksum of everything before it.
uint64_t checksum_of(const Layout& layout) {
  constexpr size_t kWords = offsetof(Layout, checksum) / sizeof(uint64_t);
  uint64_t words[kWords];
  std::memcpy(words, &layout, sizeof(words));
  uint64_t sum = 0x243f6a8885a308d3u;
  for (const uint64_t word : words) {
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
  }
  return sum;
}

bool is_map(const Layout& layout) {
  return layout.magic == kMagic && layout.version == kVersion &&
         layout.checksum == checksum_of(layout);
}

Status check_range(const char* field, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return {};
  return device_error(
      fmt::format("tensor map: {} = {}: allowed are {} to {}", field, value, least, most));
}

constexpr TensorDataType kPtxTypes[] = {
    TensorDataType::kUint8,       TensorDataType::kUint16,   TensorDataType::kUint32,
    TensorDataType::kInt32,       TensorDataType::kUint64,   TensorDataType::kInt64,
    TensorDataType::kFloat16,     TensorDataType::kFloat32,  TensorDataType::kFloat32Ftz,
    TensorDataType::kFloat64,     TensorDataType::kBfloat16, TensorDataType::kTfloat32,
    TensorDataType::kTfloat32Ftz,
};
static_assert(std::size(kPtxTypes) == kNumTensorDataTypes);

}  // namespace

TensorMap encode_tensor_map(const TensorMapRequest& r) {
  Layout layout = {};
  layout.magic = kMagic;
  layout.version = kVersion;
  layout.type = static_cast<uint8_t>(r.type);
  layout.rank = static_cast<uint8_t>(r.rank);
  layout.swizzle = static_cast<uint8_t>(r.swizzle);
  layout.global_address = r.global_address;
  for (uint32_t i = 0; i < r.rank; ++i) {
    layout.global_dims[i] = static_cast<uint32_t>(r.global_dims[i] - 1);
    layout.box_dims[i] = static_cast<uint8_t>(r.box_dims[i] - 1);
    layout.element_strides[i] = static_cast<uint8_t>(r.element_strides[i]);
    if (i > 0) layout.global_strides[i - 1] = r.global_strides[i - 1];
  }
  layout.l2_promotion = static_cast<uint8_t>(r.l2_promotion);
  layout.fill = static_cast<uint8_t>(r.fill);
  layout.checksum = checksum_of(layout);
  TensorMap map;
  std::memcpy(map.bytes, &layout, sizeof(layout));
  return map;
}

bool decode_tensor_map(const uint8_t* bytes, TensorMapRequest& r, std::string* why) {
  Layout layout;
  std::memcpy(&layout, bytes, sizeof(layout));
  if (!is_map(layout) || layout.rank < 1 || layout.rank > kMaxTensorRank) {
    if (why != nullptr) *why = "no tensor map of this device";
    return false;
  }
  r = {};
  r.type = static_cast<TensorDataType>(layout.type);
  r.rank = layout.rank;
  r.swizzle = static_cast<TensorSwizzle>(layout.swizzle);
  r.global_address = layout.global_address;
  for (uint32_t i = 0; i < r.rank; ++i) {
    r.global_dims[i] = uint64_t{layout.global_dims[i]} + 1;
    r.box_dims[i] = uint32_t{layout.box_dims[i]} + 1;
    r.element_strides[i] = layout.element_strides[i];
    if (i > 0) r.global_strides[i - 1] = layout.global_strides[i - 1];
  }
  r.l2_promotion = static_cast<TensorL2Promotion>(layout.l2_promotion);
  r.fill = static_cast<TensorFill>(layout.fill);
  // A kernel may have replaced fields, or written bytes with a right checksum.
  const Status status = validate_tensor_map(r);
  if (!status.ok() && why != nullptr) *why = "an invalid " + status.message();
  return status.ok();
}

Status replace_in_tensor_map(uint8_t* bytes, TensorMapField field, uint32_t dimension,
                             uint64_t value) {
  constexpr uint64_t kMostElements = 0xffffffffu, kMostInBox = 256, kMostStep = 8;
  Layout layout;
  std::memcpy(&layout, bytes, sizeof(layout));
  if (!is_map(layout)) return device_error("no tensor map of this device");
  LSSAR_RETURN_IF_ERROR(check_range("dimension", dimension, 0, kMaxTensorRank - 1));
  switch (field) {
    case TensorMapField::kGlobalAddress:
      layout.global_address = value;
      break;
    case TensorMapField::kRank:
      LSSAR_RETURN_IF_ERROR(check_range("rank - 1", value, 0, kMaxTensorRank - 1));
      layout.rank = static_cast<uint8_t>(value + 1);
      break;
    case TensorMapField::kBoxDim:
      LSSAR_RETURN_IF_ERROR(check_range("box_dim", value, 1, kMostInBox));
      layout.box_dims[dimension] = static_cast<uint8_t>(value - 1);
      break;
    case TensorMapField::kGlobalDim:
      LSSAR_RETURN_IF_ERROR(check_range("global_dim", value, 1, kMostElements));
      layout.global_dims[dimension] = static_cast<uint32_t>(value - 1);
      break;
    case TensorMapField::kGlobalStride:
      LSSAR_RETURN_IF_ERROR(
          check_range("dimension of a global_stride", dimension, 0, kMaxTensorRank - 2));
      layout.global_strides[dimension] = value;
      break;
    case TensorMapField::kElementStride:
      LSSAR_RETURN_IF_ERROR(check_range("element_stride", value, 1, kMostStep));
      layout.element_strides[dimension] = static_cast<uint8_t>(value);
      break;
    case TensorMapField::kType:
      LSSAR_RETURN_IF_ERROR(check_range("elemtype", value, 0, kNumTensorDataTypes - 1));
      layout.type = static_cast<uint8_t>(kPtxTypes[value]);
      break;
    case TensorMapField::kInterleave:
      LSSAR_RETURN_IF_ERROR(check_range("interleave_layout", value, 0, 0));
      break;
    case TensorMapField::kSwizzle:
      LSSAR_RETURN_IF_ERROR(check_range("swizzle_mode", value, 0, 3));
      layout.swizzle = static_cast<uint8_t>(value);
      break;
    case TensorMapField::kFill:
      LSSAR_RETURN_IF_ERROR(check_range("fill_mode", value, 0, 1));
      layout.fill = static_cast<uint8_t>(value);
      break;
  }
  layout.checksum = checksum_of(layout);
  std::memcpy(bytes, &layout, sizeof(layout));
  return {};
}

}  // namespace lssar::vdev
