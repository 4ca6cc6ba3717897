// Launches and tensor maps of a GPU allocate nothing on the host: operator new is counted in this
// program.
#include <gtest/gtest.h>

#include "device/cuda_device.h"
#include "device/record_device.h"
#include "tests/capi/counting_new.h"
#include "tests/device/fake_driver.h"

namespace lssar::test {
namespace {

void expect_no_allocation(Device& device) {
  const auto module = device.load({});
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto function = (*module)->function("kernel");
  ASSERT_TRUE(function.ok()) << function.status().to_string();
  const int params = 1;
  // The first one: the fake counts its calls by name.
  ASSERT_TRUE(device.launch(**function, {}, &params, sizeof(params), nullptr).ok());
  const int before = num_allocations();
  const Status status = device.launch(**function, {}, &params, sizeof(params), nullptr);
  const int made = num_allocations() - before;
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(made, 0);
}

TEST(LaunchAllocatesNothing, OnTheCudaDevice) {
  const FakeDriver driver;
  const auto device = make_cuda_device(driver.table(), 0, "");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  expect_no_allocation(**device);
  EXPECT_EQ(driver.num_calls("cuLaunchKernel"), 2);
}

TEST(LaunchAllocatesNothing, OnTheRecordDevice) {
  RecordDevice device(*target_from_name("sm_80"));
  expect_no_allocation(device);
}

TEST(TensorMapAllocatesNothing, OnTheCudaDevice) {
  const FakeDriver driver;
  const auto device = make_cuda_device(driver.table(), 0, "");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  TensorMapRequest request;
  request.rank = 2;
  request.global_dims[0] = request.global_dims[1] = 100;
  request.global_strides[0] = 112;
  request.box_dims[0] = request.box_dims[1] = 16;
  // The first one: the fake counts its calls by name and keeps the request.
  ASSERT_TRUE((*device)->encode_tensor_map(request).ok());
  const int before = num_allocations();
  const Result<TensorMap> map = (*device)->encode_tensor_map(request);
  const int made = num_allocations() - before;
  ASSERT_TRUE(map.ok()) << map.status().to_string();
  EXPECT_EQ(made, 0);
  EXPECT_EQ(driver.num_calls("cuTensorMapEncodeTiled"), 2);
}

}  // namespace
}  // namespace lssar::test
