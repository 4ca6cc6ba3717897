#include "runtime/tensor_copy.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace lssar {
namespace {

// Calls visit(offset in memory, offset in the packed tensor) for every row; offsets are in bytes.
// REQUIRES: extent_bytes(operand) is ok.
template <typename Visit>
void for_each_row(const Operand& operand, const Visit& visit) {
  const int64_t row_bytes = operand.dim * operand.elem_bytes;
  int64_t packed = 0;
  for (int64_t b = 0; b < operand.sizes[0]; ++b) {
    for (int64_t h = 0; h < operand.sizes[1]; ++h) {
      for (int64_t r = 0; r < operand.sizes[2]; ++r, packed += row_bytes) {
        const int64_t at = b * operand.strides[0] + h * operand.strides[1] + r * operand.strides[2];
        visit(at * operand.elem_bytes, packed);
      }
    }
  }
}

// Lets the device access the operand's memory while it lives.
class ImportedRange {
 public:
  ImportedRange(Device& device, DevicePtr ptr, size_t bytes)
      : device_(device), ptr_(ptr), bytes_(bytes), status_(device.import_range(ptr, bytes)) {}
  ~ImportedRange() {
    if (status_.ok()) device_.release_range(ptr_, bytes_);
  }
  ImportedRange(const ImportedRange&) = delete;
  ImportedRange& operator=(const ImportedRange&) = delete;
  const Status& status() const { return status_; }

 private:
  Device& device_;
  const DevicePtr ptr_;
  const size_t bytes_;
  const Status status_;
};

Status too_large(const Operand& operand) {
  return out_of_memory(
      fmt::format("{}: its bytes are more than there is host memory", operand.name));
}

}  // namespace

Result<size_t> packed_bytes(const Operand& operand) {
  if (operand.empty()) return size_t{0};
  int64_t bytes = operand.elem_bytes;
  for (const int64_t factor : {operand.sizes[0], operand.sizes[1], operand.sizes[2], operand.dim}) {
    if (__builtin_mul_overflow(bytes, factor, &bytes)) {
      return invalid_argument(fmt::format("{}: {} x {} x {} x {} elements are beyond 2^63 bytes",
                                          operand.name, operand.sizes[0], operand.sizes[1],
                                          operand.sizes[2], operand.dim));
    }
  }
  return static_cast<size_t>(bytes);
}

Result<std::string> read_operand(Device& device, const Operand& operand) {
  LSSAR_ASSIGN_OR_RETURN(const size_t bytes, packed_bytes(operand));
  if (bytes == 0) return std::string();
  LSSAR_ASSIGN_OR_RETURN(const int64_t extent, extent_bytes(operand));
  const ImportedRange range(device, operand.data, static_cast<size_t>(extent));
  LSSAR_RETURN_IF_ERROR(range.status());
  try {
    std::string memory(static_cast<size_t>(extent), '\0');
    LSSAR_RETURN_IF_ERROR(device.copy_to_host(memory.data(), operand.data, memory.size()));
    if (memory.size() == bytes) {
      bool is_packed = true;
      for_each_row(operand, [&](int64_t at, int64_t packed) { is_packed &= at == packed; });
      if (is_packed) return memory;
    }
    std::string packed(bytes, '\0');
    const auto row_bytes = static_cast<size_t>(operand.dim * operand.elem_bytes);
    for_each_row(operand, [&](int64_t at, int64_t to) {
      std::memcpy(packed.data() + to, memory.data() + at, row_bytes);
    });
    return packed;
  } catch (const std::bad_alloc&) {
    return too_large(operand);
  }
}

Status write_operand(Device& device, const Operand& operand, const std::string& packed) {
  LSSAR_ASSIGN_OR_RETURN(const size_t bytes, packed_bytes(operand));
  if (packed.size() != bytes) {
    return invalid_argument(
        fmt::format("{}: {} bytes, its sizes need {}", operand.name, packed.size(), bytes));
  }
  if (bytes == 0) return {};
  LSSAR_ASSIGN_OR_RETURN(const int64_t extent, extent_bytes(operand));
  const ImportedRange range(device, operand.data, static_cast<size_t>(extent));
  LSSAR_RETURN_IF_ERROR(range.status());
  try {
    std::string memory(static_cast<size_t>(extent), '\0');
    const auto row_bytes = static_cast<size_t>(operand.dim * operand.elem_bytes);
    for_each_row(operand, [&](int64_t at, int64_t from) {
      std::memcpy(memory.data() + at, packed.data() + from, row_bytes);
    });
    return device.copy_to_device(operand.data, memory.data(), memory.size());
  } catch (const std::bad_alloc&) {
    return too_large(operand);
  }
}

}  // namespace lssar
