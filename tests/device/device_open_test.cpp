// Which device is opened, and what is said where none can be.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/open_device.h"
#include "tests/device/fake_driver.h"

namespace lssar::test {
namespace {

using DriverResult = Result<std::shared_ptr<const CudaDriver>>;

DriverResult no_driver() { return missing("no CUDA driver: none here"); }

std::string kind_of(const Result<std::shared_ptr<Device>>& device) {
  return device.ok() ? (*device)->info().kind : device.status().to_string();
}

class OpenDevice : public testing::Test {
 protected:
  // As open_cuda_driver: a driver that does not start is an error.
  DriverResult start() {
    const auto table = driver_.table();
    if (const CuResult result = table->init(0); result != kCuSuccess)
      return driver_init_error(*table, result);
    return table;
  }
  Result<std::shared_ptr<Device>> open_auto(const std::string& target = "", int ordinal = 0) {
    return open_device_on(start(), DeviceChoice::kAuto, target, ordinal);
  }
  FakeDriver driver_;
};

TEST(DeviceChoiceTest, HasFourNames) {
  EXPECT_EQ(parse_device_choice("auto").value(), DeviceChoice::kAuto);
  EXPECT_EQ(parse_device_choice("cuda").value(), DeviceChoice::kCuda);
  EXPECT_EQ(parse_device_choice("virtual").value(), DeviceChoice::kVirtual);
  EXPECT_EQ(parse_device_choice("record").value(), DeviceChoice::kRecord);
}

TEST(DeviceChoiceTest, OtherNamesAreRefused) {
  for (const char* name : {"", "gpu", "CUDA", "cuda "}) {
    const Status status = parse_device_choice(name).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              std::string("device = ") + name + ": allowed are auto, cuda, cpu, virtual, record");
  }
}

TEST_F(OpenDevice, AutoTakesTheGpu) {
  EXPECT_EQ(kind_of(open_auto()), "cuda");
  EXPECT_EQ(kind_of(open_auto("sm_80")), "cuda");
}

TEST_F(OpenDevice, AutoIsVirtualWithoutADriver) {
  EXPECT_EQ(kind_of(open_device_on(no_driver(), DeviceChoice::kAuto, "", 0)), "virtual");
}

TEST_F(OpenDevice, AutoIsVirtualWithoutAGpu) {
  driver_.fail("cuInit", kCuNoDevice);
  EXPECT_EQ(kind_of(open_auto()), "virtual");
  driver_.fail("cuInit", kCuStubLibrary);
  EXPECT_EQ(kind_of(open_auto()), "virtual");
  driver_.fail("cuInit", kCuSuccess);
  driver_.gpus.clear();
  EXPECT_EQ(kind_of(open_auto()), "virtual");
}

TEST_F(OpenDevice, AutoTakesTheTargetOnTheVirtualDeviceToo) {
  driver_.gpus.clear();
  EXPECT_EQ(open_auto("sm_90").value()->info().target.name(), "sm_90");
  EXPECT_EQ(open_auto("").value()->info().target.name(), "sm_80");
}

// A thousand times slower, which must not go unsaid.
TEST_F(OpenDevice, AutoIsVirtualForAGpuThatIsTooOldWithAWarning) {
  std::vector<std::string> warnings;
  std::mutex mutex;
  set_log_callback(
      [&](LogLevel, std::string_view message) {
        const std::lock_guard<std::mutex> lock(mutex);
        warnings.emplace_back(message);
      },
      LogLevel::kWarning);
  driver_.gpus = {fake_gpu("Tesla T4", 7, 5)};
  EXPECT_EQ(kind_of(open_auto()), "virtual");
  set_log_callback({}, LogLevel::kError);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("the virtual device is used: Tesla T4: compute capability = 7.5"),
            std::string::npos)
      << warnings[0];
}

TEST_F(OpenDevice, AutoIsAnErrorForAGpuThatDoesNotWork) {
  driver_.fail("cuDevicePrimaryCtxRetain", kCuOutOfMemory);
  EXPECT_EQ(open_auto().status().code(), StatusCode::kOutOfMemory);
  driver_.fail("cuDevicePrimaryCtxRetain", kCuIllegalAddress);
  EXPECT_EQ(open_auto().status().code(), StatusCode::kDeviceError);
}

TEST_F(OpenDevice, AutoIsAnErrorForAGpuThatCannotDoWhatIsAsked) {
  EXPECT_EQ(open_auto("sm_120").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(open_auto("", 5).status().code(), StatusCode::kInvalidArgument);
}

// Say, after an update of the driver: the GPU is there.
TEST_F(OpenDevice, AutoIsAnErrorWhereTheDriverDoesNotStart) {
  constexpr CuResult kMismatch = 803;
  driver_.fail("cuInit", kMismatch);
  const Status status = open_auto().status();
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_EQ(status.message(),
            "the CUDA driver does not start (cuInit: unknown (803): no description); a GPU needs "
            "NVIDIA's driver (525 or later); without one use the virtual device");
}

TEST_F(OpenDevice, CudaSaysWhatIsMissing) {
  driver_.fail("cuInit", kCuNoDevice);
  const Status status = open_device_on(start(), DeviceChoice::kCuda, "", 0).status();
  EXPECT_EQ(status.code(), StatusCode::kMissing);
  EXPECT_EQ(status.message(),
            "the CUDA driver finds no GPU (cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable "
            "device is detected); a GPU needs NVIDIA's driver (525 or later); without one use the "
            "virtual device");
  EXPECT_EQ(open_device_on(no_driver(), DeviceChoice::kCuda, "", 0).status().message(),
            "no CUDA driver: none here");
}

TEST_F(OpenDevice, VirtualAndRecordNeedNoDriver) {
  const auto virtual_device = open_device(DeviceChoice::kVirtual, "sm_90");
  ASSERT_EQ(kind_of(virtual_device), "virtual");
  EXPECT_EQ((*virtual_device)->info().target.name(), "sm_90");
  const auto record = open_device(DeviceChoice::kRecord);
  ASSERT_EQ(kind_of(record), "record");
  EXPECT_EQ((*record)->info().target.name(), "sm_80");
}

TEST_F(OpenDevice, VirtualAndRecordRefuseUnknownTargets) {
  for (const DeviceChoice choice : {DeviceChoice::kVirtual, DeviceChoice::kRecord}) {
    const Status status = open_device(choice, "sm_42").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().find("target = \"sm_42\": allowed are sm_80, "), 0u)
        << status.message();
  }
}

TEST_F(OpenDevice, ChoicesThatAreNoneAreRefused) {
  EXPECT_EQ(open_device(static_cast<DeviceChoice>(9)).status().message(),
            "device = 9: not a DeviceChoice");
}

// Holds on this machine, whatever it has.
TEST(OpenDriver, SaysWhatWasTried) {
  const auto driver = open_cuda_driver();
  if (driver.ok()) GTEST_SKIP() << "there is a driver here";
  if (driver.status().message().find("no CUDA driver") == std::string::npos)
    GTEST_SKIP() << driver.status().message();
  EXPECT_EQ(driver.status().code(), StatusCode::kMissing);
  for (const char* part : {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "NVIDIA's driver",
                           "use the virtual device"}) {
    EXPECT_NE(driver.status().message().find(part), std::string::npos) << driver.status().message();
  }
  EXPECT_EQ(list_gpus().status().message(), driver.status().message());
  EXPECT_EQ(open_device(DeviceChoice::kCuda).status().message(), driver.status().message());
}

}  // namespace
}  // namespace lssar::test
