#include "device/cpu/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "compile/object_loader.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/cpu_launch_timer.h"
#include "device/cpu/cpu_pool.h"
#include "device/thread_value.h"

namespace lssar {
namespace {

constexpr size_t kAlignment = 256;

// The least work of a thread, in multiply-adds of a vector. Waking a thread that sleeps and waiting
// for it at the end takes some 5 us: two system calls and two switches. A CPU of 3 GHz does at most
// two such multiply-adds in a cycle, 30,000 in 5 us, and with the evaluation of scores about half
// as many. A thread that gets 32,768 works 5 to 10 us, so its share outweighs its waking. NOTE:
// this is derived from usual figures; nobody has measured it.
constexpr double kLeastVectors = 32768;

constexpr int kNoLimit = std::numeric_limits<int>::max();

class CpuFunction final : public DeviceFunction {
 public:
  CpuFunction(std::string entry, CpuBlock code) : entry_(std::move(entry)), code_(code) {}
  KernelResources resources() const override {
    KernelResources resources;
    resources.entry = entry_;
    return resources;
  }
  CpuBlock code() const { return code_; }

 private:
  const std::string entry_;
  const CpuBlock code_;
};

class CpuModule final : public DeviceModule {
 public:
  explicit CpuModule(std::unique_ptr<LoadedObject> object) : object_(std::move(object)) {}

  Result<const DeviceFunction*> function(const std::string& entry) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<CpuFunction>& kept = functions_[entry];
    if (kept == nullptr) {
      LSSAR_ASSIGN_OR_RETURN(void* const address, object_->function(entry));
      kept = std::make_unique<CpuFunction>(entry, reinterpret_cast<CpuBlock>(address));
    }
    return kept.get();
  }

 private:
  const std::unique_ptr<LoadedObject> object_;
  mutable std::mutex mutex_;  // guards functions_
  mutable std::map<std::string, std::unique_ptr<CpuFunction>> functions_;
};

// The parts of a launch: what run_block_of_part gets as its parameters.
struct Parts {
  CpuBlock code;
  const LaunchPart* begin;
  const LaunchPart* end;
};

void run_block_of_part(const void* params, unsigned block, void* memory) {
  const Parts& parts = *static_cast<const Parts*>(params);
  const LaunchPart* const part = std::upper_bound(
      parts.begin, parts.end, block,
      [](unsigned number, const LaunchPart& of) { return number < of.end_block; });
  const unsigned begin = part == parts.begin ? 0 : part[-1].end_block;
  parts.code(part->params, part->first_block + (block - begin), memory);
}

class CpuDevice final : public Device {
 public:
  CpuDevice(const Target& target, const CpuDeviceOptions& options)
      : options_(options), pool_(options.parallel_for) {
    info_.kind = "cpu";
    info_.id = "cpu";
    info_.name = cpu_features().name;
    info_.target = target;
    info_.num_sms = options.num_threads > 0 ? options.num_threads : num_available_cpus();
    info_.l2_bytes = cpu_features().l2_bytes;
  }

  const DeviceInfo& info() const override { return info_; }
  ImageKind preferred_image() const override { return ImageKind::kObject; }

  Result<DevicePtr> allocate(size_t bytes) override {
    if (bytes == 0) return DevicePtr{0};
    if (bytes > SIZE_MAX - kAlignment) return out_of_memory(fmt::format("{} bytes", bytes));
    void* memory =
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (memory == nullptr) return out_of_memory(fmt::format("{} bytes", bytes));
    return static_cast<DevicePtr>(reinterpret_cast<uintptr_t>(memory));
  }
  Status free(DevicePtr ptr) override {
    std::free(reinterpret_cast<void*>(ptr));
    return {};
  }
  Status copy_to_device(DevicePtr dst, const void* src, size_t bytes) override {
    if (bytes != 0) std::memcpy(reinterpret_cast<void*>(dst), src, bytes);
    return {};
  }
  Status copy_to_host(void* dst, DevicePtr src, size_t bytes) override {
    if (bytes != 0) std::memcpy(dst, reinterpret_cast<const void*>(src), bytes);
    return {};
  }
  Status fill(DevicePtr dst, uint8_t byte, size_t bytes) override {
    if (bytes != 0) std::memset(reinterpret_cast<void*>(dst), byte, bytes);
    return {};
  }

  Result<std::unique_ptr<DeviceModule>> load(const Image& image) override {
    if (image.kind != ImageKind::kObject) {
      return unsupported(fmt::format("cpu device: it runs objects, and the image is {}",
                                     image_kind_name(image.kind)));
    }
    // The cache may have been made on a machine with a wider CPU.
    LSSAR_RETURN_IF_ERROR(cpu_target_for(image.target, cpu_features()).status());
    LSSAR_ASSIGN_OR_RETURN(std::unique_ptr<LoadedObject> object, load_object(image.bytes));
    return std::unique_ptr<DeviceModule>(std::make_unique<CpuModule>(std::move(object)));
  }

  Status launch(const DeviceFunction& function, const LaunchConfig& config, const void* params,
                size_t /*params_bytes*/, Stream /*stream*/) override {
    LSSAR_ASSIGN_OR_RETURN(const CpuBlock code, code_of(function));
    return pool_.run({code, params, config.grid[0], config.shared_bytes, config.first_block},
                     threads_of_launch());
  }
  Status launch_parts(const DeviceFunction& function, const LaunchPart* parts, size_t num_parts,
                      uint32_t shared_bytes) override {
    LSSAR_ASSIGN_OR_RETURN(const CpuBlock code, code_of(function));
    const Parts all = {code, parts, parts + num_parts};
    return pool_.run({run_block_of_part, &all, parts[num_parts - 1].end_block, shared_bytes},
                     threads_of_launch());
  }
  Status synchronize(Stream /*stream*/) override { return {}; }

  Status timer_begin(Stream stream) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    timers_[stream] = std::chrono::steady_clock::now();
    return {};
  }
  Result<double> timer_end_ms(Stream stream) override {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = timers_.find(stream);
    if (found == timers_.end())
      return invalid_argument("cpu device: timer_end_ms without timer_begin on this stream");
    return std::chrono::duration<double, std::milli>(now - found->second).count();
  }
  Result<std::unique_ptr<LaunchTimer>> make_launch_timer(size_t num_samples) override {
    return make_cpu_launch_timer(num_samples);
  }

 private:
  static Result<CpuBlock> code_of(const DeviceFunction& function) {
    const auto* f = dynamic_cast<const CpuFunction*>(&function);
    if (f == nullptr) return invalid_argument("cpu device: a function of another device");
    return f->code();
  }

  // A call that is worth one thread asks the system nothing: sched_getaffinity takes a third of a
  // microsecond, and a short call has several launches.
  int threads_of_launch() const {
    const int limit = limit_of_options();
    const int lanes = cpu_level(info_.target).lanes;
    const int wanted = worthwhile_threads(limit, CallWork::get(), lanes);
    const bool is_exact = options_.num_threads > 0 || options_.parallel_for.run != nullptr;
    if (wanted == 1 || (is_exact && limit != kNoLimit)) return wanted;
    return std::min(wanted, num_available_cpus());
  }

  // What the caller allows, before the CPUs that there are.
  int limit_of_options() const {
    if (options_.num_threads > 0) return options_.num_threads;
    const int limit = ThreadLimit::get();
    return limit > 0 ? limit : kNoLimit;
  }

  const CpuDeviceOptions options_;
  CpuPool pool_;
  DeviceInfo info_;
  std::mutex mutex_;  // guards timers_
  std::map<Stream, std::chrono::steady_clock::time_point> timers_;
};

}  // namespace

std::shared_ptr<Device> make_cpu_device(const Target& target, const CpuDeviceOptions& options) {
  return std::make_shared<CpuDevice>(target, options);
}

int worthwhile_threads(int num_threads, double multiply_adds, int lanes) {
  if (multiply_adds <= 0) return num_threads;
  const double most = multiply_adds / (kLeastVectors * lanes);
  return most >= num_threads ? num_threads : std::max(static_cast<int>(most), 1);
}

}  // namespace lssar
