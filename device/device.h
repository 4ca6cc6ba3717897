// Devices: allocate, copy, load an image, launch, synchronise, time. Implementations: cuda (the
// CUDA driver API, opened at run time), cpu (runs machine code made for the host), virtual
// (interprets PTX on the CPU) and record (only counts launches: for measuring host overhead).
//
// Threads: every member may be called from any number of threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/target.h"
#include "compile/compiler.h"
#include "device/launch_counters.h"
#include "device/tensor_map.h"

namespace lssar {

using DevicePtr = uint64_t;  // 0 = null
using Stream = void*;        // the CUstream of a cuda device; null is its default stream

struct DeviceInfo {
  std::string kind;  // "cuda", "cpu", "virtual", "record"
  std::string name;  // "NVIDIA H200", "virtual device (AVX-512)"
  // Which one of several with that name: a GPU's PCI address, "0000:3b:00"; else kind.
  std::string id;
  std::string driver;    // driver version, or "" where there is none
  Target target;         // what to compile for; limits are the device's own
  int num_sms = 0;       // cpu, virtual: threads that run blocks
  int64_t l2_bytes = 0;  // 0 = not known, or there is none
};

struct LaunchConfig {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {1, 1, 1};  // blocks; each divides its side of the grid
  uint32_t shared_bytes = 0;        // dynamic
  uint32_t first_block = 0;         // cpu device: the number of the first block; else 0
};

// Some of the blocks of a launch: those that have the same parameters.
struct LaunchPart {
  const void* params = nullptr;
  uint32_t end_block = 0;    // in the launch; the part begins where the one before it ends
  uint32_t first_block = 0;  // the number that the kernel gets for the part's first block
};

// A kernel of a loaded module.
class DeviceFunction {
 public:
  virtual ~DeviceFunction() = default;
  // Registers, shared and local memory as the device knows them (cuda: the driver's figures).
  virtual KernelResources resources() const = 0;
};

// The variable that modules have whose waits trap by themselves (templates/ptx/wait_limit.cuh); the
// waits report there. It tells the virtual device that lanes which poll are no deadlock.
inline constexpr const char* kWaitReportVariable = "lssar_wait_report";

// A loaded image. Functions stay valid as long as it lives.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  // kDeviceError names the entry, and the entries that exist.
  virtual Result<const DeviceFunction*> function(const std::string& entry) const = 0;
  // The address of a __device__ variable; 0 if the image has none of that name.
  virtual Result<DevicePtr> variable(const std::string& name) const { return DevicePtr{0}; }
};

// Times any number of launches that are queued one after the other, without waiting in between.
// Each sample has a begin and an end on the stream, enqueued like launches.
class LaunchTimer {
 public:
  virtual ~LaunchTimer() = default;
  // `sample` is less than the number the timer was made for. Calling begin and end again reuses the
  // sample.
  virtual Status begin(size_t sample, Stream stream) = 0;
  virtual Status end(size_t sample, Stream stream) = 0;
  // Waits for the end of the sample.
  virtual Result<double> ms(size_t sample) = 0;
};

// How far a launch is.
struct LaunchProgress {
  uint64_t done = 0, blocks = 0;  // in blocks, or clusters if there are any; 0 of 0: not known
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  // PTX for virtual; cubin for cuda (which takes PTX too); an object for cpu.
  virtual ImageKind preferred_image() const = 0;

  // 256-byte aligned; 0 for 0 bytes. free(0) does nothing.
  virtual Result<DevicePtr> allocate(size_t bytes) = 0;
  virtual Status free(DevicePtr ptr) = 0;
  // Blocking.
  virtual Status copy_to_device(DevicePtr dst, const void* src, size_t bytes) = 0;
  virtual Status copy_to_host(void* dst, DevicePtr src, size_t bytes) = 0;
  virtual Status fill(DevicePtr dst, uint8_t byte, size_t bytes) = 0;

  // Host memory that kernels reach too. Its content outlives a kernel's trap.
  struct HostMemory {
    void* host = nullptr;
    DevicePtr device = 0;
  };
  virtual Result<HostMemory> allocate_host(size_t bytes) {
    return unsupported("allocate_host: a device of kind " + info().kind + " has no such memory");
  }
  virtual Status free_host(const HostMemory& memory) { return {}; }

  // The caller's memory that kernels of the coming launches on this thread may touch. The virtual
  // device reads and writes host memory in place, and compares every access with what was allocated
  // or imported; cuda ignores the call. release_range undoes it.
  virtual Status import_range(DevicePtr ptr, size_t bytes) { return {}; }
  virtual void release_range(DevicePtr ptr, size_t bytes) {}

  virtual Result<std::unique_ptr<DeviceModule>> load(const Image& image) = 0;

  // Asks for dynamic shared memory above the default limit. Call it once, outside of capture.
  virtual Status prepare(const DeviceFunction& function, uint32_t max_shared_bytes) { return {}; }

  // How many clusters with these blocks and this shared memory can run at once, whatever the grid.
  // It may be fewer than all SMs together have room for, because the blocks of a cluster share a
  // part of the GPU. 0: the device does not know. REQUIRES: prepare allowed the shared memory.
  virtual Result<int> resident_clusters(const DeviceFunction& function,
                                        const LaunchConfig& config) {
    return 0;
  }

  // The 128 bytes by which this device's kernels know a tensor. They hold no reference to the
  // tensor's memory. kInvalidArgument names the field that breaks a rule; kUnsupported says why the
  // device makes no maps.
  virtual Result<TensorMap> encode_tensor_map(const TensorMapRequest& request) {
    return unsupported("tensor maps: a device of kind " + info().kind + " makes none");
  }

  // Enqueues; allocates nothing. `params` is the kernel's single by-value argument.
  virtual Status launch(const DeviceFunction& function, const LaunchConfig& config,
                        const void* params, size_t params_bytes, Stream stream) = 0;
  // cpu only: a launch whose blocks have the parameters of their part, and numbers from its
  // first_block on. The last parts begin first. Returns when all blocks have run. REQUIRES:
  // num_parts > 0.
  virtual Status launch_parts(const DeviceFunction& function, const LaunchPart* parts,
                              size_t num_parts, uint32_t shared_bytes) {
    return unsupported("launch_parts: a device of kind " + info().kind + " has none");
  }
  // Waits for the stream; reports errors of its launches.
  virtual Status synchronize(Stream stream) = 0;

  // Milliseconds from begin to end of what was enqueued on the stream between the two calls
  // (cuda: events; virtual: wall time).
  virtual Status timer_begin(Stream stream) = 0;
  virtual Result<double> timer_end_ms(Stream stream) = 0;

  // As fill, but enqueued on the stream like a launch, without waiting.
  virtual Status enqueue_fill(DevicePtr dst, uint8_t byte, size_t bytes, Stream stream) {
    return unsupported("enqueue_fill: a device of kind " + info().kind + " has no queue");
  }
  // kUnsupported if the device has no queue: its launches run when they are called.
  virtual Result<std::unique_ptr<LaunchTimer>> make_launch_timer(size_t num_samples) {
    return unsupported("launch timer: a device of kind " + info().kind + " has no queue");
  }

  // The progress of the latest launch, if the device's launches return at their end. Any thread may
  // call it.
  virtual LaunchProgress progress() const { return {}; }

  // The sum over the launches so far; zeros if the device does not count.
  virtual LaunchCounters counters() const { return {}; }
  // The same for each kernel name, in the order of their first launch.
  virtual std::vector<KernelCounters> kernel_counters() const { return {}; }
};

}  // namespace lssar
