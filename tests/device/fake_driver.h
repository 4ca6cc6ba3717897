// A CUDA driver without a GPU: a table of functions that check their arguments, count what is open,
// and fail if a test asks for it. For the tests of the cuda device.
//
// Threads: one FakeDriver at a time in a process; its functions from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/driver_api.h"

namespace lssar::test {

constexpr CuResult kCuInvalidValue = 1;
constexpr CuResult kCuInvalidContext = 201;
constexpr CuResult kCuInvalidImage = 200;
constexpr CuResult kCuIllegalAddress = 700;

struct FakeGpu {
  std::string name;
  std::map<int, int> attributes;  // by the driver's number for the attribute
};

FakeGpu fake_h200();
FakeGpu fake_gpu(const std::string& name, int major, int minor);

// The arguments of a cuLaunchKernel or cuLaunchKernelEx. Their size is fixed, so that recording a
// launch allocates nothing.
struct FakeLaunch {
  std::array<unsigned, 3> grid{}, block{};
  unsigned shared_bytes = 0;
  CuStream stream = nullptr;
  std::array<std::byte, 512> params{};
  size_t params_bytes = 0;
  std::array<unsigned, 3> cluster{};  // of cuLaunchKernelEx
};

// The arguments of a cuTensorMapEncodeTiled.
struct FakeTensorMap {
  unsigned type = 0;
  uint32_t rank = 0;
  uint64_t global_address = 0;
  std::vector<uint64_t> global_dims, global_strides;
  std::vector<uint32_t> box_dims, element_strides;
  unsigned interleave = 0, swizzle = 0, l2_promotion = 0, fill = 0;
};

class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  std::shared_ptr<const CudaDriver> table() const;

  // From now on `call` ("cuMemAlloc") returns `result`; kCuSuccess: works again.
  void fail(const std::string& call, CuResult result);
  int num_calls(std::string_view call) const;

  // Counts of what was made and not released yet.
  struct Open {
    int contexts = 0, allocations = 0, modules = 0, events = 0, host_allocations = 0;
    bool operator==(const Open&) const = default;
  };
  Open open() const;

  // The context that is current on the calling thread, and how many are pushed.
  static CuContext current_context();
  static int context_depth();

  // Set before the calls that read them.
  std::vector<FakeGpu> gpus = {fake_h200()};
  std::set<std::string> entries = {"kernel"};    // of every module
  std::map<std::string, CuDevicePtr> variables;  // of every module
  int default_shared_bytes = 49152;              // a function's limit before it is raised
  // Every kernel has one parameter, this large. If empty, the driver does not say how large, and
  // launches copy nothing.
  std::optional<size_t> params_bytes = sizeof(int);
  size_t memory_bytes = size_t{1} << 30;  // a larger allocation is out of memory
  float elapsed_ms = 0;
  int capture_status = 0;  // of cuStreamIsCapturing
  bool has_encode_tiled = true;
  bool has_launch_extended = true;
  bool has_max_active_clusters = true;
  int max_active_clusters = 0;
  std::string jit_error_log, jit_info_log;  // written if a load fails

  // Read after calls.
  FakeLaunch last_launch, last_occupancy;  // the latter has no parameters
  FakeTensorMap last_tensor_map;
  std::vector<std::pair<int, int>> attributes_set;  // of functions: (attribute, value)
  std::string loaded_image;                         // text, up to its NUL
  std::vector<CuStream> recorded_streams;           // of cuEventRecord
  std::vector<CuStream> synchronized_streams;
  // The first calls that enqueue or wait: F asynchronous fill, E event record, L launch, S wait for
  // a stream or an event.
  std::string order;

 private:
  friend struct FakeCalls;

  // Counts the call. Returns an error if the test asked for one, or if no context is current.
  CuResult enter(std::string_view call, bool needs_context = true);
  void note(char call);
  static constexpr size_t kMaxOrder = 4096;  // has a limit, because no call may allocate

  mutable std::mutex mutex_;  // guards the following and what tests read after calls
  std::map<std::string, CuResult, std::less<>> failures_;
  std::map<std::string, int, std::less<>> calls_;
  Open open_;
  std::map<CuDevicePtr, void*> memory_;
  int shared_limit_ = -1;  // -1: the default
};

}  // namespace lssar::test
