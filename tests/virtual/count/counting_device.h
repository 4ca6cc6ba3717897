// What the tests of counters share: a device that counts, and memory aligned like a GPU's.
#pragma once

#include <gtest/gtest.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {

inline std::shared_ptr<Device> counting_device(int num_threads = 1, bool count = true) {
  VirtualOptions options;
  options.num_threads = num_threads;
  options.count = count;
  options.target.major = 9;
  options.target.shared_bytes_per_block = 48 << 10;
  return make_virtual_device(options);
}

// Device memory, aligned so that sectors are what the kernel's own offsets make them.
class Memory {
 public:
  Memory(std::shared_ptr<Device> device, size_t bytes) : device_(std::move(device)) {
    const Result<DevicePtr> ptr = device_->allocate(bytes);
    EXPECT_TRUE(ptr.ok());
    if (!ptr.ok()) return;
    address_ = *ptr;
    EXPECT_TRUE(device_->fill(address_, 0, bytes).ok());
  }
  ~Memory() { EXPECT_TRUE(device_->free(address_).ok()); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  DevicePtr address() const { return address_; }

 private:
  std::shared_ptr<Device> device_;
  DevicePtr address_ = 0;
};

inline void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.to_string(); }

inline constexpr const char* kPointers = ".param .u64 p0, .param .u64 p1";
inline constexpr const char* kRegisters =
    ".reg .b64 %p, %q, %o, %x<8>; .reg .b32 %t, %r<12>; .reg .f32 %f<8>; .reg .pred %g;\n";

}  // namespace lssar::test
