// A cuda device on a fake driver, for the tests of it.
//
// Threads: for the main thread of a test.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "device/cuda_device.h"
#include "tests/device/fake_driver.h"

namespace lssar::test {

class CudaDeviceTest : public testing::Test {
 protected:
  void open(const std::string& target = "") {
    Result<std::shared_ptr<Device>> device = make_cuda_device(driver_.table(), 0, target);
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    device_ = *device;
  }
  void load() {
    open();
    Result<std::unique_ptr<DeviceModule>> module = device_->load(image());
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    module_ = std::move(*module);
    const Result<const DeviceFunction*> function = module_->function("kernel");
    ASSERT_TRUE(function.ok()) << function.status().to_string();
    function_ = *function;
  }
  static Image image() {
    Image image;
    image.target = "sm_90a";
    image.bytes = ".visible .entry kernel()\n.visible .entry other(\n";
    return image;
  }
  Status launch(Stream stream = nullptr) {
    const int params = 5;
    return device_->launch(*function_, {{7, 2, 3}, {128, 4, 1}, {1, 1, 1}, 1000}, &params,
                           sizeof(params), stream);
  }

  FakeDriver driver_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<DeviceModule> module_;
  const DeviceFunction* function_ = nullptr;
};

inline void expect_status(const Status& status, StatusCode code, const std::string& part) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

}  // namespace lssar::test
