// The calls of the CUDA runtime that witness programs make: their own, and those that nvcc adds.
// The linker exports them, so that a program finds them when it is opened.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "device/tensor_map.h"
#include "tests/witness/cuda_stand_in.h"
#include "tests/witness/fat_binary.h"

namespace lssar::test {
namespace {

CudaStandIn& stand_in() { return CudaStandIn::instance(); }

cudaError_t last_error = cudaSuccess;

cudaError_t check(const Status& status, cudaError_t error) {
  if (stand_in().note(status)) return cudaSuccess;
  return last_error = error;
}

// A launch by <<<>>>, between its configuration and its stub.
struct PushedLaunch {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
PushedLaunch pushed_launch;

LaunchConfig launch_config(dim3 grid, dim3 block, size_t shared_bytes) {
  return {{grid.x, grid.y, grid.z},
          {block.x, block.y, block.z},
          {1, 1, 1},
          static_cast<uint32_t>(shared_bytes)};
}

// Failures are kept for the test. The program goes on, so that its results are looked at too.
cudaError_t launch(const void* function, const LaunchConfig& config, void** arguments) {
  stand_in().note(stand_in().launch(function, config, arguments));
  return cudaSuccess;
}

// Leaves out attributes that only affect speed.
Status apply_attribute(const cudaLaunchAttribute& attribute, LaunchConfig& config) {
  switch (attribute.id) {
    case cudaLaunchAttributeClusterDimension:
      config.cluster[0] = attribute.val.clusterDim.x;
      config.cluster[1] = attribute.val.clusterDim.y;
      config.cluster[2] = attribute.val.clusterDim.z;
      return {};
    case cudaLaunchAttributeProgrammaticStreamSerialization:  // launches run one after the other
    case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      return {};
    default:
      return unsupported("cudaLaunchKernelExC: attribute " + std::to_string(attribute.id));
  }
}

TensorMapRequest request_of(CUtensorMapDataType type, cuuint32_t rank, void* address,
                            const cuuint64_t* dims, const cuuint64_t* strides,
                            const cuuint32_t* box, const cuuint32_t* element_strides) {
  TensorMapRequest request;
  request.type = static_cast<TensorDataType>(type);
  request.rank = rank;
  request.global_address = reinterpret_cast<uint64_t>(address);
  for (uint32_t i = 0; i < std::min(rank, kMaxTensorRank); ++i) {
    request.global_dims[i] = dims[i];
    request.box_dims[i] = box[i];
    request.element_strides[i] = element_strides[i];
    if (i + 1 < rank) request.global_strides[i] = strides[i];
  }
  return request;
}

}  // namespace
}  // namespace lssar::test

using namespace lssar::test;  // NOLINT: the runtime's functions are in no namespace

// The rest of the project hides what it does not export.
#pragma GCC visibility push(default)
extern "C" {

// What nvcc adds.

void** __cudaRegisterFatBinary(void* fat_binary) {
  lssar::Result<std::string> text = ptx_of_fat_binary(fat_binary);
  // If a program's PTX cannot be read, its first launch fails, because this text is no PTX.
  stand_in().note(text.status());
  return stand_in().add_module(text.ok() ? *text : "");
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** module) { stand_in().remove_module(module); }
void __cudaRegisterFunction(void** module, const char* host_function, char*, const char* entry, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  stand_in().add_kernel(module, host_function, entry);
}
// No code of the programs reads or writes a variable of a module.
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream) {
  pushed_launch = {grid, block, shared_bytes, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  *grid = pushed_launch.grid;
  *block = pushed_launch.block;
  *shared_bytes = pushed_launch.shared_bytes;
  std::memcpy(stream, &pushed_launch.stream, sizeof pushed_launch.stream);
  return cudaSuccess;
}
// Since CUDA 13; earlier programs use cudaLaunchKernel.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t) {
  return launch(kernel, launch_config(grid, block, shared_bytes), arguments);
}

// What programs call.

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t) {
  return launch(function, launch_config(grid, block, shared_bytes), arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* asked, const void* function,
                                void** arguments) {
  auto config = launch_config(asked->gridDim, asked->blockDim, asked->dynamicSmemBytes);
  for (unsigned i = 0; i < asked->numAttrs; ++i) {
    const cudaError_t error =
        check(apply_attribute(asked->attrs[i], config), cudaErrorNotSupported);
    if (error != cudaSuccess) return error;
  }
  return launch(function, config, arguments);
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return check(stand_in().prepare(function, static_cast<uint32_t>(value)), cudaErrorInvalidValue);
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  const auto allocated = stand_in().device().allocate(bytes);
  *address = allocated.ok() ? reinterpret_cast<void*>(*allocated) : nullptr;
  return check(allocated.status(), cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* address) {
  return check(stand_in().device().free(reinterpret_cast<uint64_t>(address)),
               cudaErrorInvalidValue);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  lssar::Device& device = stand_in().device();
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return check(device.copy_to_device(reinterpret_cast<uint64_t>(to), from, bytes),
                   cudaErrorInvalidValue);
    case cudaMemcpyDeviceToHost:
      return check(device.copy_to_host(to, reinterpret_cast<uint64_t>(from), bytes),
                   cudaErrorInvalidValue);
    default:
      return check(lssar::unsupported("cudaMemcpy: only between host and device"),
                   cudaErrorNotSupported);
  }
}
// Launches have ended when they return.
cudaError_t cudaDeviceSynchronize() { return last_error; }
cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "an error";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "a call failed; the test has its text";
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  lssar::TensorMapRequest request =
      request_of(type, rank, address, dims, strides, box, element_strides);
  request.interleave = static_cast<lssar::TensorInterleave>(interleave);
  request.swizzle = static_cast<lssar::TensorSwizzle>(swizzle);
  request.l2_promotion = static_cast<lssar::TensorL2Promotion>(promotion);
  request.fill = static_cast<lssar::TensorFill>(fill);
  const lssar::Result<lssar::TensorMap> encoded = stand_in().device().encode_tensor_map(request);
  if (!stand_in().note(encoded.status())) return CUDA_ERROR_INVALID_VALUE;
  static_assert(sizeof(lssar::TensorMap) == sizeof(CUtensorMap));
  std::memcpy(map, &*encoded, sizeof(CUtensorMap));
  return CUDA_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
