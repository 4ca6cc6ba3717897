// Global memory in strict mode: memory that nobody wrote, and memory that was freed. Also how the
// environment asks for the strict mode.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// Each thread reads a word of p0 and writes it to p1.
const char* const kCopy =
    ".reg .b64 %p, %q, %o; .reg .b32 %t, %r;\n"
    "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1]; mov.u32 %t, %tid.x;\n"
    "mul.wide.u32 %o, %t, 4; add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n"
    "ld.global.u32 %r, [%p];\n"
    "st.global.u32 [%q], %r; ret;";

std::string copy_text() {
  return kernel_text(".param .u64 p0, .param .u64 p1", kCopy, "", "sm_80");
}

class GlobalMemoryTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 128;

  static std::shared_ptr<Device> make(bool strict) {
    VirtualOptions options;
    options.strict = strict;
    options.num_threads = 1;
    return make_virtual_device(options);
  }
  Status copy(DevicePtr from, DevicePtr to) { return run(*device_, copy_text(), {}, {from, to}); }

  std::shared_ptr<Device> device_ = make(true);
  DevicePtr a_ = *device_->allocate(kBytes);
  DevicePtr b_ = *device_->allocate(kBytes);
};

TEST_F(GlobalMemoryTest, ReadOfWhatNobodyWroteIsReported) {
  const Status status = copy(a_, b_);
  ASSERT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_NE(status.message().find("uninitialised global memory"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("byte 0 of an allocation"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("ld.global.u32"), std::string::npos) << status.message();
}

TEST_F(GlobalMemoryTest, OneWordThatIsMissingIsSeen) {
  ASSERT_TRUE(device_->fill(a_, 1, kBytes - 4).ok());
  const Status status = copy(a_, b_);
  EXPECT_NE(status.message().find("byte 124 of an allocation"), std::string::npos)
      << status.message();
}

TEST_F(GlobalMemoryTest, WhatTheHostWroteMayBeRead) {
  const std::vector<uint32_t> values(kBytes / 4, 7);
  ASSERT_TRUE(device_->copy_to_device(a_, values.data(), kBytes).ok());
  const Status status = copy(a_, b_);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(GlobalMemoryTest, WhatAKernelWroteMayBeRead) {
  ASSERT_TRUE(device_->fill(a_, 1, kBytes).ok());
  const DevicePtr c = *device_->allocate(kBytes);
  ASSERT_TRUE(copy(a_, b_).ok());
  const Status status = copy(b_, c);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(GlobalMemoryTest, UseOfFreedMemoryIsAFaultThatSaysSo) {
  ASSERT_TRUE(device_->fill(a_, 1, kBytes).ok());
  ASSERT_TRUE(device_->free(a_).ok());
  const DevicePtr c = *device_->allocate(kBytes);  // not the same memory
  EXPECT_NE(c, a_);
  const Status status = copy(a_, b_);
  ASSERT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_NE(status.message().find("the memory there was freed"), std::string::npos)
      << status.message();
}

TEST_F(GlobalMemoryTest, FastModeReadsWhatIsThere) {
  const std::shared_ptr<Device> fast = make(false);
  const DevicePtr a = *fast->allocate(kBytes);
  const DevicePtr b = *fast->allocate(kBytes);
  EXPECT_TRUE(run(*fast, copy_text(), {}, {a, b}).ok());
}

class EnvironmentTest : public GlobalMemoryTest {
 protected:
  void TearDown() override {
    unsetenv("LSSAR_VIRTUAL_CHECKS");
    unsetenv("LSSAR_VIRTUAL_SEED");
    unsetenv("LSSAR_VIRTUAL_ELECT");
  }
  void reopen(bool strict) {
    device_ = make(strict);
    a_ = *device_->allocate(kBytes);
    b_ = *device_->allocate(kBytes);
  }
};

TEST_F(EnvironmentTest, ChecksAreTurnedOnAndOff) {
  setenv("LSSAR_VIRTUAL_CHECKS", "strict", 1);
  reopen(false);
  EXPECT_FALSE(copy(a_, b_).ok());
  setenv("LSSAR_VIRTUAL_CHECKS", "fast", 1);
  reopen(true);
  EXPECT_TRUE(copy(a_, b_).ok());
}

TEST_F(EnvironmentTest, WrongValuesAreErrorsThatNameWhatIsAllowed) {
  setenv("LSSAR_VIRTUAL_CHECKS", "lax", 1);
  reopen(false);
  const Status checks = copy(a_, b_);
  EXPECT_EQ(checks.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(checks.message().find("'lax': allowed are fast, strict and letter"), std::string::npos)
      << checks.message();
  setenv("LSSAR_VIRTUAL_CHECKS", "", 1);
  setenv("LSSAR_VIRTUAL_SEED", "-1", 1);
  reopen(false);
  const Status seed = copy(a_, b_);
  EXPECT_EQ(seed.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(seed.message().find("LSSAR_VIRTUAL_SEED '-1'"), std::string::npos) << seed.message();
  setenv("LSSAR_VIRTUAL_SEED", "", 1);
  setenv("LSSAR_VIRTUAL_ELECT", "random", 1);
  reopen(false);
  const Status elect = copy(a_, b_);
  EXPECT_EQ(elect.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(elect.message().find("LSSAR_VIRTUAL_ELECT 'random': allowed are lowest and drawn"),
            std::string::npos)
      << elect.message();
}

}  // namespace
}  // namespace lssar::test
