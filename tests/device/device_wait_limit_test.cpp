// What a kernel reports of its waits on a GPU. A trap ends the context, so the report comes through
// host memory.
#include <gmock/gmock.h>

#include "runtime/debug/wait_limit.h"
#include "templates/kernels/wait_report.cuh"
#include "tests/device/cuda_device_fixture.h"

namespace lssar::test {
namespace {

using lssar_device::WaitReport;
using testing::HasSubstr;
using testing::Not;

constexpr CuResult kCuLaunchFailed = 719;

class DeviceWaitLimit : public CudaDeviceTest {
 protected:
  void SetUp() override {
    driver_.variables[kWaitReportVariable] = reinterpret_cast<uintptr_t>(&variable_);
    load();
    source_.name = "a_kernel";
    source_.source = "header\nkWaitBaseLine = __LINE__;\nx\n  mbarrier_wait(ring.full(0), 1);\n";
  }
  void make_monitor() {
    Result<std::unique_ptr<WaitMonitor>> made = WaitMonitor::create(*device_, *module_);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    monitor_ = std::move(*made);
  }
  WaitReport& report() { return *reinterpret_cast<WaitReport*>(variable_); }

  uint64_t variable_ = 0;  // of the module
  KernelSource source_;
  std::unique_ptr<WaitMonitor> monitor_;
};

TEST_F(DeviceWaitLimit, AFailedCallSaysWhatWasWaitedForAlthoughTheContextIsLost) {
  make_monitor();
  ASSERT_NE(monitor_, nullptr);
  ASSERT_TRUE(monitor_->begin(nullptr).ok());
  report().count = 1;
  report().records[0] = {lssar_device::kWaitMbarrier, 2, 7, 96, 0x400, 1};
  for (const char* const call : {"cuStreamSynchronize", "cuMemcpyDtoH", "cuMemHostAlloc"}) {
    driver_.fail(call, kCuLaunchFailed);
  }
  const Status status = monitor_->end({}, source_, nullptr);
  expect_status(status, StatusCode::kDeviceError, "cuStreamSynchronize");
  EXPECT_THAT(status.message(),
              HasSubstr("block 7, thread 96: line 4 'mbarrier_wait(ring.full(0), 1);': waits for "
                        "the mbarrier at 0x400 of shared memory, parity 1"));
}

TEST_F(DeviceWaitLimit, MoreWaitsThanThereIsRoomForAreCounted) {
  make_monitor();
  ASSERT_TRUE(monitor_->begin(nullptr).ok());
  report().count = 1000;
  const Status status = monitor_->end(device_error("x"), source_, nullptr);
  EXPECT_THAT(status.message(), HasSubstr("\n  and 968 more"));
}

TEST_F(DeviceWaitLimit, WhatAnEarlierCallSaidIsForgotten) {
  make_monitor();
  report().count = 1;
  ASSERT_TRUE(monitor_->begin(nullptr).ok());
  EXPECT_EQ(monitor_->end(device_error("x"), source_, nullptr).message(), "x");
  // A wait that was long and ended is no error.
  report().count = 1;
  EXPECT_TRUE(monitor_->end({}, source_, nullptr).ok());
}

TEST_F(DeviceWaitLimit, AStreamThatIsCapturedIsRefusedBeforeAnythingIsLaunched) {
  make_monitor();
  driver_.capture_status = 1;
  expect_status(monitor_->begin(nullptr), StatusCode::kUnsupported, "LSSAR_DEBUG_WAITS");
}

TEST_F(DeviceWaitLimit, AKernelWithoutWaitsHasNone) {
  driver_.variables.clear();
  make_monitor();
  EXPECT_EQ(monitor_, nullptr);
}

TEST_F(DeviceWaitLimit, ItsMemoryIsGivenBack) {
  make_monitor();
  EXPECT_EQ(driver_.open().host_allocations, 1);
  monitor_.reset();
  EXPECT_EQ(driver_.open().host_allocations, 0);
  driver_.fail("cuMemHostGetDevicePointer", kCuInvalidValue);
  EXPECT_FALSE(WaitMonitor::create(*device_, *module_).ok());
  EXPECT_EQ(driver_.open().host_allocations, 0);
}

}  // namespace
}  // namespace lssar::test
