// The part of the CUDA driver's interface that is used, opened at run time. It has declarations of
// its own, so that the build needs no CUDA header. Used by the cuda device; tests fill the table
// with fakes.
//
// Threads: immutable once opened; the driver may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace lssar {

// Types and values below are the driver's binary interface.
using CuResult = int;
using CuDevice = int;
using CuDevicePtr = uint64_t;
struct CuContextOpaque;
struct CuModuleOpaque;
struct CuFunctionOpaque;
struct CuEventOpaque;
using CuContext = CuContextOpaque*;
using CuModule = CuModuleOpaque*;
using CuFunction = CuFunctionOpaque*;
using CuEvent = CuEventOpaque*;
using CuStream = void*;

constexpr CuResult kCuSuccess = 0;
constexpr CuResult kCuOutOfMemory = 2;
constexpr CuResult kCuStubLibrary = 34;
constexpr CuResult kCuNoDevice = 100;
constexpr CuResult kCuNotFound = 500;

constexpr int kCuAttributeNumSms = 16;
constexpr int kCuAttributePciBus = 33;
constexpr int kCuAttributePciDevice = 34;
constexpr int kCuAttributeL2Bytes = 38;
constexpr int kCuAttributeThreadsPerSm = 39;
constexpr int kCuAttributePciDomain = 50;
constexpr int kCuAttributeMajor = 75;
constexpr int kCuAttributeMinor = 76;
constexpr int kCuAttributeSharedPerSm = 81;
constexpr int kCuAttributeRegistersPerSm = 82;
constexpr int kCuAttributeSharedPerBlockOptIn = 97;

constexpr int kCuFunctionSharedBytes = 1;
constexpr int kCuFunctionLocalBytes = 3;
constexpr int kCuFunctionRegisters = 4;
constexpr int kCuFunctionMaxDynamicShared = 8;

// Flags of cuMemHostAlloc: kernels can reach the memory, in every context.
constexpr unsigned kCuHostPortable = 1, kCuHostMapped = 2;

constexpr int kCuJitInfoLog = 3;
constexpr int kCuJitInfoLogBytes = 4;
constexpr int kCuJitErrorLog = 5;
constexpr int kCuJitErrorLogBytes = 6;

// The configuration that cuLaunchKernelEx takes: CUlaunchAttribute (here with the one value that is
// used) and CUlaunchConfig.
struct alignas(8) CuLaunchAttribute {
  int id;
  int unused;
  unsigned cluster[3];
  unsigned rest[13];
};
static_assert(sizeof(CuLaunchAttribute) == 72);
constexpr int kCuLaunchCluster = 4;

struct CuLaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  CuStream stream;
  const CuLaunchAttribute* attributes;
  unsigned num_attributes;
};
static_assert(sizeof(CuLaunchConfig) == 56);

struct CudaDriver {
  CuResult (*init)(unsigned flags) = nullptr;
  CuResult (*get_version)(int* version) = nullptr;
  CuResult (*get_error_name)(CuResult, const char** name) = nullptr;
  CuResult (*get_error_string)(CuResult, const char** text) = nullptr;

  CuResult (*device_count)(int* count) = nullptr;
  CuResult (*device_get)(CuDevice*, int ordinal) = nullptr;
  CuResult (*device_name)(char* name, int length, CuDevice) = nullptr;
  CuResult (*device_attribute)(int* value, int attribute, CuDevice) = nullptr;

  CuResult (*primary_context_retain)(CuContext*, CuDevice) = nullptr;
  CuResult (*primary_context_release)(CuDevice) = nullptr;
  CuResult (*context_current)(CuContext*) = nullptr;
  CuResult (*context_push)(CuContext) = nullptr;
  CuResult (*context_pop)(CuContext*) = nullptr;

  CuResult (*allocate)(CuDevicePtr*, size_t bytes) = nullptr;
  CuResult (*free)(CuDevicePtr) = nullptr;
  CuResult (*copy_to_device)(CuDevicePtr, const void*, size_t bytes) = nullptr;
  CuResult (*copy_to_host)(void*, CuDevicePtr, size_t bytes) = nullptr;
  CuResult (*fill)(CuDevicePtr, unsigned char, size_t bytes) = nullptr;
  CuResult (*fill_async)(CuDevicePtr, unsigned char, size_t bytes, CuStream) = nullptr;

  CuResult (*allocate_host)(void**, size_t bytes, unsigned flags) = nullptr;
  CuResult (*free_host)(void*) = nullptr;
  CuResult (*host_device_pointer)(CuDevicePtr*, void* host, unsigned flags) = nullptr;

  CuResult (*module_load)(CuModule*, const void* image, unsigned num_options, int* options,
                          void** values) = nullptr;
  CuResult (*module_unload)(CuModule) = nullptr;
  CuResult (*module_function)(CuFunction*, CuModule, const char* name) = nullptr;
  CuResult (*module_global)(CuDevicePtr*, size_t* bytes, CuModule, const char* name) = nullptr;
  CuResult (*function_attribute)(int* value, int attribute, CuFunction) = nullptr;
  CuResult (*set_function_attribute)(CuFunction, int attribute, int value) = nullptr;
  // Since CUDA 12.4; null before. Loads a function now. Otherwise its first launch loads it, which
  // must not happen while a graph is captured.
  CuResult (*function_load)(CuFunction) = nullptr;
  // Since CUDA 12.4; null before. Where a kernel's parameter `index` is, and how large.
  CuResult (*function_parameter)(CuFunction, size_t index, size_t* offset, size_t* bytes) = nullptr;

  CuResult (*launch)(CuFunction, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                     CuStream, void** params, void** extra) = nullptr;
  // Since CUDA 11.8; null before.
  CuResult (*launch_extended)(const CuLaunchConfig*, CuFunction, void** params,
                              void** extra) = nullptr;
  // Since CUDA 11.8; null before. Does not read the grid.
  CuResult (*max_active_clusters)(int* clusters, CuFunction, const CuLaunchConfig*) = nullptr;
  CuResult (*stream_synchronize)(CuStream) = nullptr;
  // *status is 0 if launches on the stream run.
  CuResult (*stream_is_capturing)(CuStream, int* status) = nullptr;

  // Since CUDA 12.0; null before. The pointers point to arrays of `rank` elements; the array of
  // strides has one less.
  CuResult (*encode_tiled)(void* map, unsigned type, uint32_t rank, void* global_address,
                           const uint64_t* global_dims, const uint64_t* global_strides,
                           const uint32_t* box_dims, const uint32_t* element_strides,
                           unsigned interleave, unsigned swizzle, unsigned l2_promotion,
                           unsigned fill) = nullptr;

  CuResult (*event_create)(CuEvent*, unsigned flags) = nullptr;
  CuResult (*event_record)(CuEvent, CuStream) = nullptr;
  CuResult (*event_synchronize)(CuEvent) = nullptr;
  CuResult (*event_elapsed_ms)(float*, CuEvent begin, CuEvent end) = nullptr;
  CuResult (*event_destroy)(CuEvent) = nullptr;
};

// Opens libcuda.so.1 and initialises it, once per process. kMissing says what was tried and what to
// install, or that the driver finds no GPU. kDeviceError says why a driver does not start.
Result<std::shared_ptr<const CudaDriver>> open_cuda_driver();

// Why a driver's init() failed, as open_cuda_driver reports it. kMissing: there is no GPU.
// Everything else is kDeviceError, since a GPU that a driver of another version cannot use is not
// "no GPU".
Status driver_init_error(const CudaDriver& driver, CuResult result);

// OK, kOutOfMemory or kDeviceError. The message is "call: NAME (number): the driver's text",
// followed by `details` (such as a launch configuration).
Status driver_status(const CudaDriver& driver, CuResult result, const char* call,
                     const std::string& details = "");

}  // namespace lssar
