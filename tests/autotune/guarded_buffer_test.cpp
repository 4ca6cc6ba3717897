// Guard zones, poison, and what a device's error says of a candidate.
#include <gtest/gtest.h>

#include "autotune/measure/fault_verdict.h"
#include "autotune/measure/guarded_buffer.h"
#include "tests/autotune/candidate_fixture.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {
namespace {

constexpr size_t kBytes = 100;

class GuardedBufferTest : public testing::Test {
 protected:
  void SetUp() override { make(0); }
  void make(size_t offset) {
    Result<GuardedBuffer> buffer = GuardedBuffer::allocate(device_, "o", kBytes, offset);
    ASSERT_TRUE(buffer.ok()) << buffer.status().to_string();
    buffer_ = std::move(*buffer);
  }
  // What a kernel would do: `count` bytes from `at` on, of the buffer's begin.
  void write(ptrdiff_t at, size_t count) {
    const std::vector<uint8_t> bytes(count, 7);
    ASSERT_TRUE(device_->copy_to_device(buffer_.ptr() + at, bytes.data(), count).ok());
  }

  std::shared_ptr<Device> device_ = make_virtual_device();
  GuardedBuffer buffer_;
};

TEST_F(GuardedBufferTest, WhatIsWrittenInsideIsNoDamage) {
  ASSERT_TRUE(buffer_.reset().ok());
  write(0, kBytes);
  ASSERT_TRUE(buffer_.read().ok());
  EXPECT_EQ(buffer_.guard_damage(), "");
  EXPECT_FALSE(buffer_.first_unwritten(2).has_value());
  EXPECT_EQ(buffer_.data().size(), kBytes);
  EXPECT_EQ(buffer_.data()[kBytes - 1], std::byte{7});
}

TEST_F(GuardedBufferTest, OneBytePastTheEndIsDamage) {
  ASSERT_TRUE(buffer_.reset().ok());
  write(kBytes, 1);
  ASSERT_TRUE(buffer_.read().ok());
  EXPECT_EQ(buffer_.guard_damage(),
            "o: 1 bytes past its end of 100 bytes were written, the first at +0");
}

TEST_F(GuardedBufferTest, TheLastByteOfTheGuardIsSeen) {
  ASSERT_TRUE(buffer_.reset().ok());
  write(kBytes + kGuardBytes - 1, 1);
  ASSERT_TRUE(buffer_.read().ok());
  expect_reason(buffer_.guard_damage(), "the first at +65535");
}

TEST_F(GuardedBufferTest, OneByteBeforeTheBeginIsDamage) {
  ASSERT_TRUE(buffer_.reset().ok());
  write(-1, 1);
  ASSERT_TRUE(buffer_.read().ok());
  EXPECT_EQ(buffer_.guard_damage(), "o: 1 bytes before its begin were written, the first at -1");
}

TEST_F(GuardedBufferTest, AnInputThatIsWrittenIsDamage) {
  ASSERT_TRUE(buffer_.reset(std::vector<std::byte>(kBytes)).ok());
  write(60, 2);
  ASSERT_TRUE(buffer_.read().ok());
  EXPECT_EQ(buffer_.guard_damage(), "");
  EXPECT_EQ(buffer_.data_damage(), "o: an input, and 2 of its bytes were written, the first at 60");
}

TEST_F(GuardedBufferTest, TheFirstElementThatIsNotWrittenIsFound) {
  for (const size_t offset : {0, 2}) {
    make(offset);
    ASSERT_TRUE(buffer_.reset().ok());
    write(0, 40);
    write(44, kBytes - 44);
    ASSERT_TRUE(buffer_.read().ok());
    EXPECT_EQ(buffer_.first_unwritten(2), std::optional<size_t>(20));
    EXPECT_EQ(buffer_.first_unwritten(4), std::optional<size_t>(10));
  }
}

TEST_F(GuardedBufferTest, OfNoBytesIsNull) {
  Result<GuardedBuffer> empty = GuardedBuffer::allocate(device_, "x", 0);
  ASSERT_TRUE(empty.ok());
  ASSERT_TRUE(empty->reset().ok());
  ASSERT_TRUE(empty->read().ok());
  EXPECT_EQ(empty->ptr(), 0u);
  EXPECT_EQ(empty->guard_damage(), "");
  EXPECT_FALSE(empty->first_unwritten(2).has_value());
}

// --- Verdicts of errors ---

TEST(FaultVerdict, TellsWhoseFaultAFailedRunIs) {
  const auto of = [](const std::string& text) { return verdict_of_run(device_error(text)); };
  EXPECT_EQ(of("race: kernel k, block (0, 0, 0)"), Verdict::kRace);
  EXPECT_EQ(of("uninitialised global memory: kernel k"), Verdict::kRace);
  EXPECT_EQ(of("kernel k, block (0, 0, 0): deadlock:\n  warp 0"), Verdict::kTimeout);
  EXPECT_EQ(of("kernel k: the block executed more than 5 warp instructions"), Verdict::kTimeout);
  EXPECT_EQ(of("kernel k: lane 0, global write of 4 bytes at address 0x1: out of bounds: it lies"),
            Verdict::kOutOfBounds);
  EXPECT_EQ(of("kernel k: lane 0, global read of 4 bytes at address 0x1: out of bounds: it lies"),
            Verdict::kDeviceError);
  EXPECT_EQ(of("cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)"), Verdict::kDeviceError);
  EXPECT_EQ(verdict_of_run(invalid_argument("shared memory")), Verdict::kDeviceError);
  EXPECT_FALSE(verdict_of_run(out_of_memory("")).has_value());
  EXPECT_FALSE(verdict_of_run(internal_error("")).has_value());
}

TEST(FaultVerdict, TellsWhoseFaultAFailedCompileIs) {
  EXPECT_EQ(verdict_of_prepare(compile_error("")), Verdict::kCompileError);
  EXPECT_EQ(verdict_of_prepare(invalid_argument("schedule")), Verdict::kCompileError);
  EXPECT_EQ(verdict_of_prepare(device_error("cuModuleLoadDataEx")), Verdict::kDeviceError);
  EXPECT_FALSE(verdict_of_prepare(missing("no compiler")).has_value());
  EXPECT_FALSE(verdict_of_prepare(io_error("")).has_value());
}

}  // namespace
}  // namespace lssar::test
