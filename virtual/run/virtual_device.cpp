#include "virtual/run/virtual_device.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "base/log.h"
#include "device/tensor_map_codec.h"
#include "virtual/check/global_shadow.h"
#include "virtual/count/block_recorder.h"
#include "virtual/count/kernel_counts.h"
#include "virtual/run/module.h"
#include "virtual/run/worker_pool.h"
#include "virtual/state/memory_map.h"

namespace lssar {
namespace {

using vdev::LaunchContext;

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxBlockZ = 64;
constexpr uint32_t kMaxGridYZ = 65535;
constexpr uint32_t kMaxGridX = 0x7fffffff;
// The dynamic shared memory that a launch may use without prepare(), as on hardware.
constexpr uint32_t kDefaultSharedBytes = 48 << 10;
constexpr uint64_t kMaxLocalBytes = uint64_t{256} << 20;  // of a block

Target default_target() {
  Target target;
  target.major = 8;
  target.minor = 0;
  target.shared_bytes_per_block = 163 << 10;
  target.shared_bytes_per_sm = 164 << 10;
  target.threads_per_sm = 2048;
  return target;
}

const char* level_label(SimdLevel level) {
  switch (level) {
    case SimdLevel::kAvx512:
      return "AVX-512";
    case SimdLevel::kAvx2:
      return "AVX2";
    default:
      return "plain";
  }
}

class VirtualDevice final : public Device {
 public:
  explicit VirtualDevice(const VirtualOptions& options);

  const DeviceInfo& info() const override { return info_; }
  ImageKind preferred_image() const override { return ImageKind::kPtx; }

  Result<DevicePtr> allocate(size_t bytes) override { return memory_.allocate(bytes); }
  Status free(DevicePtr ptr) override { return memory_.free(ptr); }
  Status copy_to_device(DevicePtr dst, const void* src, size_t bytes) override;
  Status copy_to_host(void* dst, DevicePtr src, size_t bytes) override;
  Status fill(DevicePtr dst, uint8_t byte, size_t bytes) override;
  Status import_range(DevicePtr ptr, size_t bytes) override {
    return memory_.import_range(ptr, bytes);
  }
  void release_range(DevicePtr ptr, size_t bytes) override { memory_.release_range(ptr, bytes); }

  Result<HostMemory> allocate_host(size_t bytes) override {
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr memory, allocate(bytes));
    return HostMemory{reinterpret_cast<void*>(memory), memory};
  }
  Status free_host(const HostMemory& memory) override { return free(memory.device); }

  Result<std::unique_ptr<DeviceModule>> load(const Image& image) override;
  Status prepare(const DeviceFunction& function, uint32_t max_shared_bytes) override;
  Result<TensorMap> encode_tensor_map(const TensorMapRequest& request) override {
    LSSAR_RETURN_IF_ERROR(validate_tensor_map(request));
    return vdev::encode_tensor_map(request);
  }
  Status launch(const DeviceFunction& function, const LaunchConfig& config, const void* params,
                size_t params_bytes, Stream stream) override;
  Status synchronize(Stream) override { return {}; }
  Status timer_begin(Stream stream) override;
  Result<double> timer_end_ms(Stream stream) override;
  LaunchProgress progress() const override { return pool_.progress(); }
  LaunchCounters counters() const override;
  std::vector<KernelCounters> kernel_counters() const override;

 private:
  void add_counters(const std::string& kernel, const LaunchCounters& counters,
                    const std::vector<LineCounters>& lines);
  void start_trace(LaunchContext* context, std::optional<vdev::BlockRecorder>* recorder);
  Status check_known(const char* what, DevicePtr ptr, size_t bytes);
  Status check_shape(const vdev::KernelProgram& program, const LaunchConfig& config) const;
  Status check_cluster(const vdev::KernelProgram& program, const LaunchConfig& config) const;
  Status check_resources(const vdev::Function& function, const LaunchConfig& config,
                         size_t params_bytes) const;

  VirtualOptions options_;  // constant once made
  DeviceInfo info_;
  Status setup_;  // why nothing can be loaded; OK: it can
  SimdLevel simd_ = SimdLevel::kPlain;
  vdev::MemoryMap memory_;
  vdev::WorkerPool pool_;
  std::atomic<uint64_t> launches_ = 0;
  mutable std::mutex counters_mutex_;
  std::vector<KernelCounters> counters_;
  std::mutex timer_mutex_;
  std::map<Stream, std::chrono::steady_clock::time_point> timers_;
};

// Applies LSSAR_VIRTUAL_CHECKS, LSSAR_VIRTUAL_ELECT and LSSAR_VIRTUAL_SEED if they are set.
Status apply_environment(VirtualOptions& options) {
  if (const char* checks = std::getenv("LSSAR_VIRTUAL_CHECKS"); checks != nullptr && *checks) {
    const std::string_view name = checks;
    if (name != "strict" && name != "fast" && name != "letter") {
      return invalid_argument(
          fmt::format("LSSAR_VIRTUAL_CHECKS '{}': allowed are fast, strict and letter", name));
    }
    options.strict = name != "fast";
    options.letter = name == "letter";
  }
  if (const char* elect = std::getenv("LSSAR_VIRTUAL_ELECT"); elect != nullptr && *elect) {
    const std::string_view name = elect;
    if (name != "lowest" && name != "drawn") {
      return invalid_argument(
          fmt::format("LSSAR_VIRTUAL_ELECT '{}': allowed are lowest and drawn", name));
    }
    options.elected_lane = name == "drawn" ? ElectedLane::kDrawn : ElectedLane::kLowest;
  }
  if (const char* seed = std::getenv("LSSAR_VIRTUAL_SEED"); seed != nullptr && *seed) {
    const std::string_view text = seed;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), options.schedule_seed);
    if (error != std::errc() || end != text.data() + text.size()) {
      return invalid_argument(fmt::format("LSSAR_VIRTUAL_SEED '{}': allowed are 0 to {}", text,
                                          std::numeric_limits<uint64_t>::max()));
    }
  }
  return {};
}

AsyncTiming async_timing(const VirtualOptions& options) {
  if (options.async_timing != AsyncTiming::kBySeed) return options.async_timing;
  switch (options.schedule_seed % 3) {
    case 0:
      return AsyncTiming::kLatest;
    case 1:
      return AsyncTiming::kEarliest;
    default:
      return AsyncTiming::kRandom;
  }
}

VirtualDevice::VirtualDevice(const VirtualOptions& options)
    : options_(options), pool_(options.num_threads) {
  const Result<SimdLevel> level = resolve_simd_level(options.simd);
  if (level.ok()) {
    simd_ = *level;
  } else {
    setup_ = level.status().with_context("virtual device");
    log(LogLevel::kError, setup_.to_string());
  }
  if (Status status = apply_environment(options_); !status.ok()) {
    log(LogLevel::kError, status.to_string());
    if (setup_.ok()) setup_ = std::move(status);
  }
  if (options_.strict) memory_.follow_writes();
  if (options_.trace != nullptr) options_.count = true;
  info_.kind = "virtual";
  info_.id = "virtual";
  info_.name = fmt::format("virtual device ({})", level_label(simd_));
  info_.target = options.target.shared_bytes_per_block > 0 ? options.target : default_target();
  info_.num_sms = pool_.num_threads();
}

Status VirtualDevice::check_known(const char* what, DevicePtr ptr, size_t bytes) {
  if (bytes == 0 || memory_.snapshot()->find(ptr, bytes) != nullptr) return {};
  return invalid_argument(
      fmt::format("virtual device: {}: {} bytes at {:#x} lie in no allocated or imported range",
                  what, bytes, ptr));
}

Status VirtualDevice::copy_to_device(DevicePtr dst, const void* src, size_t bytes) {
  LSSAR_RETURN_IF_ERROR(check_known("copy_to_device", dst, bytes));
  if (bytes != 0) std::memcpy(reinterpret_cast<void*>(dst), src, bytes);
  memory_.note_written(dst, bytes);
  return {};
}

Status VirtualDevice::copy_to_host(void* dst, DevicePtr src, size_t bytes) {
  LSSAR_RETURN_IF_ERROR(check_known("copy_to_host", src, bytes));
  if (bytes != 0) std::memcpy(dst, reinterpret_cast<const void*>(src), bytes);
  return {};
}

Status VirtualDevice::fill(DevicePtr dst, uint8_t byte, size_t bytes) {
  LSSAR_RETURN_IF_ERROR(check_known("fill", dst, bytes));
  if (bytes != 0) std::memset(reinterpret_cast<void*>(dst), byte, bytes);
  memory_.note_written(dst, bytes);
  return {};
}

Result<std::unique_ptr<DeviceModule>> VirtualDevice::load(const Image& image) {
  LSSAR_RETURN_IF_ERROR(setup_);
  if (image.kind != ImageKind::kPtx) {
    return unsupported("virtual device: the image is not PTX; compile to PTX for this device");
  }
  return vdev::load_module(image, info_.target, simd_, memory_);
}

Status VirtualDevice::prepare(const DeviceFunction& function, uint32_t max_shared_bytes) {
  const auto* f = dynamic_cast<const vdev::Function*>(&function);
  if (f == nullptr) return invalid_argument("virtual device: a function of another device");
  const uint64_t total = uint64_t{max_shared_bytes} + f->program().static_shared_bytes;
  if (total > static_cast<uint64_t>(info_.target.shared_bytes_per_block)) {
    return invalid_argument(
        fmt::format("kernel {}: {} bytes of shared memory; the target allows {}", f->program().name,
                    total, info_.target.shared_bytes_per_block));
  }
  f->allow_shared(max_shared_bytes);
  return {};
}

Status VirtualDevice::check_shape(const vdev::KernelProgram& program,
                                  const LaunchConfig& config) const {
  const auto& g = config.grid;
  const auto& b = config.block;
  if (g[0] == 0 || g[1] == 0 || g[2] == 0 || g[0] > kMaxGridX || g[1] > kMaxGridYZ ||
      g[2] > kMaxGridYZ) {
    return invalid_argument(
        fmt::format("kernel {}: grid {} x {} x {}: allowed are 1 to {} x {} x {}", program.name,
                    g[0], g[1], g[2], kMaxGridX, kMaxGridYZ, kMaxGridYZ));
  }
  const bool sane = b[0] <= kMaxThreads && b[1] <= kMaxThreads && b[2] <= kMaxBlockZ;
  const uint64_t threads = uint64_t{b[0]} * b[1] * b[2];
  if (!sane || threads == 0 || threads > kMaxThreads) {
    return invalid_argument(
        fmt::format("kernel {}: block {} x {} x {}: allowed are 1 to {} threads", program.name,
                    b[0], b[1], b[2], kMaxThreads));
  }
  if (program.max_threads != 0 && threads > program.max_threads) {
    return invalid_argument(fmt::format("kernel {}: {} threads, but it was compiled for at most {}",
                                        program.name, threads, program.max_threads));
  }
  const auto& r = program.required_block;
  if (program.has_required_block && (b[0] != r[0] || b[1] != r[1] || b[2] != r[2])) {
    return invalid_argument(
        fmt::format("kernel {}: block {} x {} x {}, but it was compiled for {} x {} x {}",
                    program.name, b[0], b[1], b[2], r[0], r[1], r[2]));
  }
  return check_cluster(program, config);
}

Status VirtualDevice::check_cluster(const vdev::KernelProgram& program,
                                    const LaunchConfig& config) const {
  constexpr uint64_t kMaxCluster = 16;
  const auto& c = config.cluster;
  const uint64_t blocks = uint64_t{c[0]} * c[1] * c[2];
  if (c[0] == 0 || c[1] == 0 || c[2] == 0 || blocks > kMaxCluster) {
    return invalid_argument(
        fmt::format("kernel {}: cluster {} x {} x {}: allowed are 1 to {} blocks", program.name,
                    c[0], c[1], c[2], kMaxCluster));
  }
  if (blocks > 1 && info_.target.major < 9) {
    return unsupported(fmt::format("kernel {}: a cluster of {} blocks: sm_{}{} has none",
                                   program.name, blocks, info_.target.major, info_.target.minor));
  }
  for (int i = 0; i < 3; ++i) {
    if (config.grid[i] % c[i] != 0) {
      return invalid_argument(
          fmt::format("kernel {}: a grid of {} blocks along {} is not a "
                      "multiple of the cluster's {}",
                      program.name, config.grid[i], "xyz"[i], c[i]));
    }
  }
  const vdev::ParsedKernel& kernel = *program.parsed;
  const auto& r = kernel.required_cluster;
  if (kernel.has_required_cluster && (c[0] != r[0] || c[1] != r[1] || c[2] != r[2])) {
    return invalid_argument(
        fmt::format("kernel {}: cluster {} x {} x {}, but it was compiled for {} x {} x {}",
                    program.name, c[0], c[1], c[2], r[0], r[1], r[2]));
  }
  return {};
}

Status VirtualDevice::check_resources(const vdev::Function& function, const LaunchConfig& config,
                                      size_t params_bytes) const {
  const vdev::KernelProgram& program = function.program();
  // The caller's struct may end in padding.
  const size_t most = (size_t{program.params_bytes} + 15) / 16 * 16;
  if (params_bytes < program.params_bytes || params_bytes > most) {
    return invalid_argument(fmt::format("kernel {}: {} bytes of parameters, it takes {}",
                                        program.name, params_bytes, program.params_bytes));
  }
  const uint64_t shared = uint64_t{program.dynamic_shared_offset} + config.shared_bytes;
  if (shared > static_cast<uint64_t>(info_.target.shared_bytes_per_block)) {
    return invalid_argument(fmt::format(
        "kernel {}: {} bytes of shared memory ({} dynamic); the target allows {}", program.name,
        shared, config.shared_bytes, info_.target.shared_bytes_per_block));
  }
  if (config.shared_bytes > std::max(function.allowed_shared(), kDefaultSharedBytes)) {
    return invalid_argument(fmt::format(
        "kernel {}: {} bytes of dynamic shared memory; prepare() allowed {}", program.name,
        config.shared_bytes, std::max(function.allowed_shared(), kDefaultSharedBytes)));
  }
  const uint64_t threads = uint64_t{config.block[0]} * config.block[1] * config.block[2];
  if (program.local_bytes * (threads + vdev::kLanes) > kMaxLocalBytes) {
    return unsupported(fmt::format("kernel {}: {} bytes of local memory for each of {} threads",
                                   program.name, program.local_bytes, threads));
  }
  return {};
}

Status VirtualDevice::launch(const DeviceFunction& function, const LaunchConfig& config,
                             const void* params, size_t params_bytes, Stream) {
  const auto* f = dynamic_cast<const vdev::Function*>(&function);
  if (f == nullptr) return invalid_argument("virtual device: a function of another device");
  LSSAR_RETURN_IF_ERROR(f->program().refusal);
  LSSAR_RETURN_IF_ERROR(check_shape(f->program(), config));
  LSSAR_RETURN_IF_ERROR(check_resources(*f, config, params_bytes));
  LaunchContext context;
  context.program = &f->program();
  for (int i = 0; i < 3; ++i) {
    context.grid[i] = config.grid[i];
    context.block[i] = config.block[i];
    context.cluster[i] = config.cluster[i];
  }
  context.dynamic_shared_bytes = config.shared_bytes;
  context.shared_bytes = f->program().dynamic_shared_offset + config.shared_bytes;
  context.params = static_cast<const uint8_t*>(params);
  context.ranges = memory_.snapshot();
  context.max_block_instructions = options_.max_block_instructions;
  context.grid_id = launches_.fetch_add(1);
  context.num_sms = static_cast<uint32_t>(info_.num_sms);
  context.approx = options_.approx;
  context.seed = options_.schedule_seed;
  context.timing = async_timing(options_);
  context.elected_lane = options_.elected_lane;
  context.strict = options_.strict;
  context.letter = options_.letter;
  context.many_threads = pool_.num_threads() > 1;
  vdev::GlobalRecord record;
  context.global_record = &record;
  std::optional<vdev::LaunchCounts> counts;
  if (options_.count) context.counts = &counts.emplace(f->program());
  std::optional<vdev::BlockRecorder> recorder;
  if (options_.trace != nullptr) start_trace(&context, &recorder);
  uint64_t instructions = 0;
  Status status = pool_.run(context, instructions);
  LaunchCounters counters;
  std::vector<LineCounters> lines;
  if (counts) {
    counters = counts->summary();
    lines = counts->lines();
  }
  counters.warp_instructions = instructions;
  counters.launches = 1;
  add_counters(f->program().name, counters, lines);
  return status;
}

// Traces the first launch of a kernel. REQUIRES: the caller makes launches with a trace one after
// the other.
void VirtualDevice::start_trace(LaunchContext* context,
                                std::optional<vdev::BlockRecorder>* recorder) {
  BlockTrace& all = *options_.trace;
  const vdev::KernelProgram& program = *context->program;
  const bool is_known = std::any_of(all.kernels.begin(), all.kernels.end(),
                                    [&](const KernelTrace& k) { return k.kernel == program.name; });
  if (is_known || context->num_clusters() == 0) return;
  KernelTrace& trace = all.kernels.emplace_back();
  trace.kernel = program.name;
  trace.warps_per_block = context->num_warps();
  trace.num_blocks = context->cluster_size();
  trace.shared_bytes = context->shared_bytes;
  const uint64_t cluster = std::min(all.cluster, context->num_clusters() - 1);
  context->recorder = &recorder->emplace(program, cluster, all.max_events, &trace);
}

void VirtualDevice::add_counters(const std::string& kernel, const LaunchCounters& counters,
                                 const std::vector<LineCounters>& lines) {
  const std::lock_guard lock(counters_mutex_);
  auto found = std::find_if(counters_.begin(), counters_.end(),
                            [&](const KernelCounters& k) { return k.kernel == kernel; });
  if (found == counters_.end()) found = counters_.insert(found, {kernel, {}, {}});
  found->add(counters, lines);
}

LaunchCounters VirtualDevice::counters() const {
  const std::lock_guard lock(counters_mutex_);
  LaunchCounters total;
  for (const KernelCounters& kernel : counters_) total.add(kernel.counters);
  return total;
}

std::vector<KernelCounters> VirtualDevice::kernel_counters() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_;
}

Status VirtualDevice::timer_begin(Stream stream) {
  const std::lock_guard lock(timer_mutex_);
  timers_[stream] = std::chrono::steady_clock::now();
  return {};
}

Result<double> VirtualDevice::timer_end_ms(Stream stream) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(timer_mutex_);
  const auto found = timers_.find(stream);
  if (found == timers_.end()) {
    return invalid_argument("virtual device: timer_end_ms without timer_begin on this stream");
  }
  return std::chrono::duration<double, std::milli>(now - found->second).count();
}

}  // namespace

std::shared_ptr<Device> make_virtual_device(const VirtualOptions& options) {
  return std::make_shared<VirtualDevice>(options);
}

}  // namespace lssar
