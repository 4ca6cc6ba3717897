#include "runtime/virtual/tensor_box.h"

#include <algorithm>
#include <cstring>

namespace lssar::vdev {
namespace {

constexpr uint32_t kChunkBytes = 16;

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

// The bytes of a row that lie in one chunk, cut where the row enters or leaves the tensor.
BoxPiece* append_cut_chunk(const BoxRow& row, uint32_t offset, uint32_t shared, BoxPiece* out) {
  uint32_t at = offset;
  const uint32_t end = offset + kChunkBytes;
  while (at < end) {
    const bool inside = at >= row.begin && at < row.end;
    uint32_t next = end;
    if (inside) {
      next = std::min(end, row.end);
    } else if (at < row.begin && row.begin < row.end) {
      next = std::min(end, row.begin);
    }
    *out++ = {row.global + at, shared + (at - offset), static_cast<uint16_t>(next - at), !inside};
    at = next;
  }
  return out;
}

BoxPiece* append_row(const BoxRow& row, TensorSwizzle swizzle, BoxPiece* out) {
  for (uint32_t offset = 0; offset < row.bytes; offset += kChunkBytes) {
    const uint32_t shared = swizzle_address(swizzle, row.shared + offset);
    if (offset >= row.begin && offset + kChunkBytes <= row.end) {
      *out++ = {row.global + offset, shared, kChunkBytes, false};
    } else {
      out = append_cut_chunk(row, offset, shared, out);
    }
  }
  return out;
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

// Addresses wrap: those outside the tensor are not used.
template <typename Visit>
void TensorBox::for_each_row(Visit visit) const {
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
    visit(row);
    row.shared += row_bytes_;
    for (uint32_t i = 1; i < map_.rank && ++index[i] == count_[i]; ++i) index[i] = 0;
  }
}

void TensorBox::rows(std::vector<BoxRow>& rows) const {
  rows.clear();
  rows.reserve(num_rows_);
  for_each_row([&](const BoxRow& row) { rows.push_back(row); });
}

void TensorBox::pieces(std::vector<BoxPiece>& pieces) const {
  // A row enters and leaves the tensor once at most.
  const size_t most = size_t{num_rows_} * (row_bytes_ / kChunkBytes + 2);
  pieces.resize(most);
  BoxPiece* out = pieces.data();
  for_each_row([&](const BoxRow& row) { out = append_row(row, map_.swizzle, out); });
  pieces.resize(static_cast<size_t>(out - pieces.data()));
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
