// Tensor maps of the devices: what cuda asks its driver for, and which errors it gives.
#include <gtest/gtest.h>

#include <cstring>

#include "device/tensor_map_codec.h"
#include "tests/device/cuda_device_fixture.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {
namespace {

TensorMapRequest request() {
  TensorMapRequest r;
  r.type = TensorDataType::kBfloat16;
  r.rank = 3;
  r.global_address = 0x7f00000000a0;
  for (uint32_t i = 0; i < 3; ++i) {
    r.global_dims[i] = 1000 + i;
    r.box_dims[i] = 32 + i * 8;
    r.element_strides[i] = i + 1;
  }
  r.global_strides[0] = 2048;
  r.global_strides[1] = 4096;
  r.swizzle = TensorSwizzle::k64Bytes;
  r.l2_promotion = TensorL2Promotion::k128Bytes;
  r.fill = TensorFill::kNan;
  return r;
}

class CudaTensorMapTest : public CudaDeviceTest {};

TEST_F(CudaTensorMapTest, AsksTheDriver) {
  open();
  const Result<TensorMap> map = device_->encode_tensor_map(request());
  ASSERT_TRUE(map.ok()) << map.status().to_string();
  TensorMap expected;
  std::memset(expected.bytes, 0x5a, sizeof(expected.bytes));
  EXPECT_EQ(std::memcmp(map->bytes, expected.bytes, sizeof(expected.bytes)), 0);
  const FakeTensorMap& asked = driver_.last_tensor_map;
  EXPECT_EQ(asked.type, 9u);
  EXPECT_EQ(asked.rank, 3u);
  EXPECT_EQ(asked.global_address, 0x7f00000000a0u);
  EXPECT_EQ(asked.global_dims, (std::vector<uint64_t>{1000, 1001, 1002}));
  EXPECT_EQ(asked.global_strides, (std::vector<uint64_t>{2048, 4096}));
  EXPECT_EQ(asked.box_dims, (std::vector<uint32_t>{32, 40, 48}));
  EXPECT_EQ(asked.element_strides, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(asked.interleave, 0u);
  EXPECT_EQ(asked.swizzle, 2u);
  EXPECT_EQ(asked.l2_promotion, 2u);
  EXPECT_EQ(asked.fill, 1u);
  EXPECT_EQ(FakeDriver::context_depth(), 0);
}

TEST_F(CudaTensorMapTest, ChecksTheRulesItself) {
  open();
  TensorMapRequest broken = request();
  broken.global_strides[1] = 24;
  expect_status(device_->encode_tensor_map(broken).status(), StatusCode::kInvalidArgument,
                "tensor map: global_strides[1] = 24: allowed are multiples of 16 bytes below 2^40");
  EXPECT_EQ(driver_.num_calls("cuTensorMapEncodeTiled"), 0);
}

TEST_F(CudaTensorMapTest, AnOldDriverMakesNone) {
  driver_.has_encode_tiled = false;
  open();
  expect_status(device_->encode_tensor_map(request()).status(), StatusCode::kUnsupported,
                "tensor maps: the driver is of CUDA 12.8: CUDA 12.0 or later is needed");
}

TEST_F(CudaTensorMapTest, ADriversErrorSaysWhatItRefused) {
  open();
  driver_.fail("cuTensorMapEncodeTiled", kCuInvalidValue);
  const Status status = device_->encode_tensor_map(request()).status();
  expect_status(status, StatusCode::kDeviceError,
                "cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VALUE (1): invalid argument; tensor "
                "map of bfloat16 at 0x7f00000000a0, dims (1000, 1001, 1002)");
  expect_status(status, StatusCode::kDeviceError, "on NVIDIA H200");
}

TEST(VirtualTensorMapTest, ChecksTheRulesAndMakesAMapOfItsOwn) {
  const std::shared_ptr<Device> device = make_virtual_device();
  const Result<TensorMap> map = device->encode_tensor_map(request());
  ASSERT_TRUE(map.ok()) << map.status().to_string();
  TensorMapRequest back;
  ASSERT_TRUE(vdev::decode_tensor_map(map->bytes, back));
  EXPECT_EQ(describe_tensor_map(back), describe_tensor_map(request()));
  TensorMapRequest broken = request();
  broken.rank = 6;
  expect_status(device->encode_tensor_map(broken).status(), StatusCode::kInvalidArgument,
                "tensor map: rank = 6: allowed are 1 to 5");
}

}  // namespace
}  // namespace lssar::test
