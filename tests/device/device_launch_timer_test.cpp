// Queued fills and launch timers of the cuda device, and of those that have none.
#include <gtest/gtest.h>

#include "device/record_device.h"
#include "tests/device/cuda_device_fixture.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {
namespace {

class LaunchTimerTest : public CudaDeviceTest {
 protected:
  void make(size_t samples) {
    open();
    auto timer = device_->make_launch_timer(samples);
    ASSERT_TRUE(timer.ok()) << timer.status().to_string();
    timer_ = std::move(*timer);
  }
  std::unique_ptr<LaunchTimer> timer_;
};

TEST_F(LaunchTimerTest, TakesTheTimeOfEachSampleAfterAllAreQueued) {
  make(2);
  const Stream stream = reinterpret_cast<Stream>(uintptr_t{0x5000});
  driver_.elapsed_ms = 2.5f;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(timer_->begin(i, stream).ok());
    ASSERT_TRUE(timer_->end(i, stream).ok());
  }
  EXPECT_EQ(driver_.order, "EEEE");
  EXPECT_EQ(driver_.recorded_streams, std::vector<CuStream>(4, stream));
  EXPECT_EQ(*timer_->ms(1), 2.5);
  EXPECT_EQ(driver_.order, "EEEES");
}

TEST_F(LaunchTimerTest, HasNoMoreSamplesThanItWasMadeFor) {
  make(2);
  EXPECT_EQ(timer_->begin(2, nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(timer_->end(2, nullptr).code(), StatusCode::kInvalidArgument);
  expect_status(timer_->ms(2).status(), StatusCode::kInvalidArgument,
                "launch timer: sample 2: it was made for 2");
}

TEST_F(LaunchTimerTest, GivesItsEventsBack) {
  make(3);
  EXPECT_EQ(driver_.open().events, 6);
  timer_.reset();
  EXPECT_EQ(driver_.open().events, 0);
}

TEST_F(LaunchTimerTest, GivesItsEventsBackWhereThereAreTooFew) {
  open();
  driver_.fail("cuEventCreate", kCuOutOfMemory);
  EXPECT_EQ(device_->make_launch_timer(3).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(driver_.open().events, 0);
}

TEST_F(LaunchTimerTest, ReportsTheErrorOfALaunch) {
  make(1);
  driver_.fail("cuEventSynchronize", kCuIllegalAddress);
  expect_status(timer_->ms(0).status(), StatusCode::kDeviceError, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(LaunchTimerTest, AFillIsQueuedAndNotWaitedFor) {
  open();
  const Result<DevicePtr> ptr = device_->allocate(16);
  ASSERT_TRUE(ptr.ok());
  ASSERT_TRUE(device_->enqueue_fill(*ptr, 7, 16, nullptr).ok());
  EXPECT_EQ(driver_.order, "F");
  uint8_t last = 0;
  ASSERT_TRUE(device_->copy_to_host(&last, *ptr + 15, 1).ok());
  EXPECT_EQ(last, 7);
  ASSERT_TRUE(device_->free(*ptr).ok());
}

TEST_F(LaunchTimerTest, TheSizeOfTheL2IsKnown) {
  open();
  EXPECT_EQ(device_->info().l2_bytes, 50 << 20);
}

TEST_F(LaunchTimerTest, ADriverThatDoesNotTellTheSizeOfTheL2IsNoError) {
  driver_.gpus[0].attributes.erase(kCuAttributeL2Bytes);
  open();
  EXPECT_EQ(device_->info().l2_bytes, 0);
}

TEST(LaunchTimerOfDevicesWithoutAQueue, IsUnsupported) {
  const auto virtual_device = make_virtual_device();
  expect_status(virtual_device->make_launch_timer(1).status(), StatusCode::kUnsupported,
                "kind virtual has no queue");
  RecordDevice record(*target_from_name("sm_80"));
  expect_status(record.enqueue_fill(0, 0, 1, nullptr), StatusCode::kUnsupported,
                "kind record has no queue");
}

}  // namespace
}  // namespace lssar::test
