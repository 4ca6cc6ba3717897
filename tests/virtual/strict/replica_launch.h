// A launch of a test kernel with several arguments: memory, argument block, comparison. Used by
// replica.cpp and replica_forward.cpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "device/device.h"

namespace lssar::test {

// 2D: `rows` by `columns` contiguous elements, with boxes of `box_rows` by `box_columns`.
struct MapShape {
  TensorDataType type;
  TensorSwizzle swizzle;
  uint64_t rows, columns;
  uint32_t box_rows, box_columns;
};

// Errors are kept until launch(), which returns the first.
class ReplicaLaunch {
 public:
  explicit ReplicaLaunch(Device& device) : device_(device) {}

  template <class T>
  uint64_t input(const std::vector<T>& values) {
    const uint64_t address = output(values.size() * sizeof(T));
    if (failure_.ok()) {
      failure_ = device_.copy_to_device(address, values.data(), values.size() * sizeof(T));
    }
    return address;
  }
  // It is not written yet.
  uint64_t output(size_t bytes) {
    const Result<DevicePtr> address = device_.allocate(bytes);
    if (!address.ok()) failure_ = address.status();
    return address.ok() ? *address : 0;
  }

  // The kernel's arguments, in order.
  template <class T>
  void argument(const T& value) {
    const size_t at = (arguments_.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    arguments_.resize(at + sizeof(T));
    std::memcpy(arguments_.data() + at, &value, sizeof(T));
  }
  void map_argument(uint64_t address, const MapShape& shape);

  Status launch(const DeviceFunction& function, uint32_t blocks, uint32_t threads,
                uint32_t shared_bytes, uint32_t cluster = 1);

  template <class T>
  std::vector<T> read(uint64_t address, size_t count) {
    std::vector<T> values(count);
    const Status status = device_.copy_to_host(values.data(), address, count * sizeof(T));
    return status.ok() ? values : std::vector<T>();
  }

 private:
  Device& device_;
  Status failure_;
  std::vector<uint8_t> arguments_;
};

// "" if they are equal, bit by bit.
template <class T>
std::string first_difference(const std::vector<T>& got, const std::vector<T>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i >= got.size()) return "there is no output";
    if (!(got[i] == expected[i])) return fmt::format("[{}] is {}, not {}", i, got[i], expected[i]);
  }
  return {};
}

// Integers from -4 to 4, so that products and sums of a few hundred are exact in float.
std::vector<float> small_numbers(size_t count, unsigned seed);
std::vector<uint32_t> random_words(size_t count, unsigned seed);
std::vector<uint16_t> to_bf16(const std::vector<float>& values);

Result<std::string> run_forward_64(Device& device, const DeviceFunction& function);
Result<std::string> run_forward_128(Device& device, const DeviceFunction& function);

}  // namespace lssar::test
