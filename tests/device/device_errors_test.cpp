// What the cuda device says where a call of the driver fails, for every call there is.
#include "tests/device/cuda_device_fixture.h"

namespace lssar::test {
namespace {

struct FailingCall {
  const char* call;
  // Whether what uses the device, rather than what opens it, is to fail.
  bool is_open;
};

class CudaDeviceErrors : public CudaDeviceTest, public testing::WithParamInterface<FailingCall> {
 protected:
  // Uses everything; the first failure.
  Status use() {
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr memory, device_->allocate(16));
    LSSAR_RETURN_IF_ERROR(device_->fill(memory, 1, 16));
    LSSAR_RETURN_IF_ERROR(device_->copy_to_device(memory, "ab", 2));
    char back[2];
    LSSAR_RETURN_IF_ERROR(device_->copy_to_host(back, memory, 2));
    LSSAR_RETURN_IF_ERROR(device_->free(memory));
    LSSAR_ASSIGN_OR_RETURN(module_, device_->load(image()));
    LSSAR_ASSIGN_OR_RETURN(function_, module_->function("kernel"));
    LSSAR_RETURN_IF_ERROR(device_->prepare(*function_, 100000));
    LSSAR_RETURN_IF_ERROR(device_->timer_begin(nullptr));
    LSSAR_RETURN_IF_ERROR(launch());
    LSSAR_ASSIGN_OR_RETURN(const double ms, device_->timer_end_ms(nullptr));
    return ms == 0 ? device_->synchronize(nullptr) : internal_error("time");
  }
};

TEST_P(CudaDeviceErrors, NameTheCallAndTheError) {
  constexpr CuResult kUnknownResult = 12345;
  if (GetParam().is_open) {
    open();
    ASSERT_TRUE(use().ok());
  }
  const std::string call = GetParam().call;
  driver_.fail(call, kCuIllegalAddress);
  const auto attempt = [this] {
    return GetParam().is_open ? use() : make_cuda_device(driver_.table(), 0, "").status();
  };
  expect_status(attempt(), StatusCode::kDeviceError,
                call +
                    ": CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was "
                    "encountered");
  driver_.fail(call, kCuOutOfMemory);
  expect_status(attempt(), StatusCode::kOutOfMemory, call + ": CUDA_ERROR_OUT_OF_MEMORY (2)");
  driver_.fail(call, kUnknownResult);
  expect_status(attempt(), StatusCode::kDeviceError, call + ": unknown (12345): no description");
  EXPECT_EQ(FakeDriver::context_depth(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaDeviceErrors,
    testing::Values(
        FailingCall{"cuDeviceGetCount", false}, FailingCall{"cuDeviceGet", false},
        FailingCall{"cuDeviceGetName", false}, FailingCall{"cuDeviceGetAttribute", false},
        FailingCall{"cuDriverGetVersion", false}, FailingCall{"cuDevicePrimaryCtxRetain", false},
        FailingCall{"cuCtxPushCurrent", true}, FailingCall{"cuMemAlloc", true},
        FailingCall{"cuMemFree", true}, FailingCall{"cuMemsetD8", true},
        FailingCall{"cuMemcpyHtoD", true}, FailingCall{"cuMemcpyDtoH", true},
        FailingCall{"cuModuleLoadDataEx", true}, FailingCall{"cuModuleGetFunction", true},
        FailingCall{"cuFuncLoad", true}, FailingCall{"cuFuncGetAttribute", true},
        FailingCall{"cuLaunchKernel", true}, FailingCall{"cuStreamSynchronize", true},
        FailingCall{"cuEventRecord", true}, FailingCall{"cuEventSynchronize", true},
        FailingCall{"cuEventElapsedTime", true}),
    [](const auto& param_info) { return std::string(param_info.param.call); });

TEST_F(CudaDeviceTest, AFailedOpenGivesTheContextBack) {
  driver_.fail("cuDevicePrimaryCtxRetain", kCuOutOfMemory);
  EXPECT_FALSE(make_cuda_device(driver_.table(), 0, "").ok());
  EXPECT_EQ(driver_.open(), FakeDriver::Open{});
}

TEST_F(CudaDeviceTest, AnEventThatCannotBeMadeIsReported) {
  open();
  driver_.fail("cuEventCreate", kCuOutOfMemory);
  expect_status(device_->timer_begin(nullptr), StatusCode::kOutOfMemory,
                "cuEventCreate: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
}

}  // namespace
}  // namespace lssar::test
