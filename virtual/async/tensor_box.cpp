#include "virtual/async/tensor_box.h"

#include <algorithm>
#include <cstring>

#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {

uint32_t load_u32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

uint32_t flush_subnormal(uint32_t bits) {
  return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
}

uint32_t round_to_tf32(uint32_t bits) {
  constexpr uint32_t kDropped = 0x1fff;  // 13 bits of the mantissa
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffffffu & ~kDropped;
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits;
  return (bits + 0x1000u) & ~kDropped;
}

// Fills bytes [begin, end) of a row outside the tensor. Rows and the pattern begin with an element.
void fill_part(const uint8_t pattern[16], uint32_t begin, uint32_t end, uint8_t* row) {
  for (uint32_t at = begin; at < end;) {
    const uint32_t in_chunk = at % kChunkBytes;
    const uint32_t bytes = std::min(end - at, kChunkBytes - in_chunk);
    std::memcpy(row + at, pattern + in_chunk, bytes);
    at += bytes;
  }
}

}  // namespace

TensorBox::TensorBox(const TensorMapRequest& map, const int32_t* coordinates, uint32_t shared)
    : map_(map),
      shared_(shared),
      row_bytes_(map.box_dims[0] * tensor_element_bytes(map.type)),
      inner_{} {
  for (uint32_t i = 0; i < map.rank; ++i) {
    const uint32_t step = i == 0 ? 1 : map.element_strides[i];
    first_[i] = coordinates[i];
    count_[i] = (map.box_dims[i] + step - 1) / step;
    if (i > 0) num_rows_ *= count_[i];
  }
  const int64_t element = tensor_element_bytes(map.type);
  const auto dim = static_cast<int64_t>(map.global_dims[0]);
  const int64_t box = map.box_dims[0];
  const int64_t begin = std::clamp<int64_t>(-first_[0], 0, box);
  const int64_t end = std::clamp<int64_t>(dim - first_[0], begin, box);
  inner_.global = map.global_address + static_cast<uint64_t>(first_[0] * element);
  inner_.bytes = row_bytes_;
  inner_.begin = static_cast<uint32_t>(begin * element);
  inner_.end = static_cast<uint32_t>(end * element);
}

// Addresses outside the tensor may wrap; they are not used.
void TensorBox::rows(std::vector<BoxRow>& rows) const {
  rows.clear();
  rows.reserve(num_rows_);
  uint32_t index[kMaxTensorRank] = {};
  BoxRow row = inner_;
  row.shared = shared_;
  for (uint32_t n = 0; n < num_rows_; ++n) {
    row.global = inner_.global;
    bool inside = true;
    for (uint32_t i = 1; i < map_.rank; ++i) {
      const int64_t at = first_[i] + int64_t{index[i]} * map_.element_strides[i];
      inside &= at >= 0 && at < static_cast<int64_t>(map_.global_dims[i]);
      row.global += static_cast<uint64_t>(at) * map_.global_strides[i - 1];
    }
    row.begin = inside ? inner_.begin : 0;
    row.end = inside ? inner_.end : 0;
    rows.push_back(row);
    row.shared += row_bytes_;
    for (uint32_t i = 1; i < map_.rank && ++index[i] == count_[i]; ++i) index[i] = 0;
  }
}

void scatter_swizzled(TensorSwizzle swizzle, const uint8_t* buffer, uint32_t bytes,
                      uint32_t address, uint8_t* memory) {
  if (bytes == 0) return;  // there may be no buffer
  if (swizzle == TensorSwizzle::kNone) {
    std::memcpy(memory + address, buffer, bytes);
    return;
  }
  for (uint32_t at = 0; at < bytes; at += kChunkBytes) {
    std::memcpy(memory + swizzle_address(swizzle, address + at), buffer + at, kChunkBytes);
  }
}

void gather_swizzled(TensorSwizzle swizzle, const uint8_t* memory, uint32_t address, uint32_t bytes,
                     uint8_t* buffer) {
  if (bytes == 0) return;
  if (swizzle == TensorSwizzle::kNone) {
    std::memcpy(buffer, memory + address, bytes);
    return;
  }
  for (uint32_t at = 0; at < bytes; at += kChunkBytes) {
    std::memcpy(buffer + at, memory + swizzle_address(swizzle, address + at), kChunkBytes);
  }
}

void read_rows(const std::vector<BoxRow>& rows, const uint8_t pattern[16], uint8_t* buffer) {
  for (const BoxRow& row : rows) {
    fill_part(pattern, 0, row.begin, buffer);
    if (row.begin < row.end) {
      std::memcpy(buffer + row.begin, reinterpret_cast<const uint8_t*>(row.global + row.begin),
                  row.end - row.begin);
    }
    fill_part(pattern, row.end, row.bytes, buffer);
    buffer += row.bytes;
  }
}

void fill_pattern(TensorDataType type, TensorFill fill, uint8_t pattern[16]) {
  std::memset(pattern, 0, 16);
  if (fill == TensorFill::kZeros) return;
  const uint32_t element = tensor_element_bytes(type);
  std::memset(pattern, 0xff, 16);
  for (uint32_t i = element - 1; i < 16; i += element) pattern[i] = 0x7f;
}

bool converts_on_load(TensorDataType type) {
  return type == TensorDataType::kFloat32Ftz || type == TensorDataType::kTfloat32 ||
         type == TensorDataType::kTfloat32Ftz;
}

void convert_on_load(TensorDataType type, uint8_t* data, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += 4) {
    uint32_t bits = load_u32(data + i);
    if (type != TensorDataType::kTfloat32) bits = flush_subnormal(bits);
    if (type != TensorDataType::kFloat32Ftz) bits = round_to_tf32(bits);
    std::memcpy(data + i, &bits, sizeof(bits));
  }
}

}  // namespace lssar::vdev
