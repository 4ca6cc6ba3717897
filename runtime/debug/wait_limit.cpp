#include "runtime/debug/wait_limit.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "codegen/templates.h"
#include "device/graph_streams.h"
#include "templates/kernels/wait_report.cuh"

namespace lssar {
namespace {

using lssar_device::WaitRecord;
using lssar_device::WaitReport;

constexpr const char* kVariable = "LSSAR_DEBUG_WAITS";
constexpr uint64_t kMinSpins = 2, kMaxSpins = uint64_t{1} << 48;
constexpr std::string_view kBaseLine = "kWaitBaseLine = __LINE__";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string_view trimmed(std::string_view line) {
  const size_t begin = line.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : line.substr(begin);
}

std::string awaited(const WaitRecord& record) {
  switch (record.kind) {
    case lssar_device::kWaitMbarrier:
      return fmt::format("the mbarrier at {:#x} of shared memory, parity {}", record.place,
                         record.wanted);
    case lssar_device::kWaitTurn:
      return fmt::format("the counter of turns at {:#x} to be {}", record.place, record.wanted);
    default:
      return "all threads of its cluster";
  }
}

// "line 812 'mbarrier_wait(...)'": the place in the compiled source. Lines are counted from the
// base line, because sources that differ only in their header comment share an image.
std::string place_in(const std::vector<std::string_view>& lines, unsigned from_base) {
  const auto base = std::find_if(lines.begin(), lines.end(), [](std::string_view line) {
    return line.find(kBaseLine) != std::string_view::npos;
  });
  const size_t index = static_cast<size_t>(base - lines.begin()) + from_base;
  if (index >= lines.size()) return "an unknown line (NVRTC 12.9 and later record it)";
  return fmt::format("line {} '{}'", index + 1, trimmed(lines[index]));
}

std::string describe(const WaitReport& report, const KernelSource& source) {
  const std::vector<std::string_view> lines = lines_of(source.source);
  std::string text = fmt::format(
      "{} ({}): waits that used at least half of the allowed polls, the longest first:", kVariable,
      source.name);
  const unsigned count = std::min<unsigned>(report.count, lssar_device::kMaxWaitRecords);
  for (unsigned i = 0; i < count; ++i) {
    const WaitRecord& record = report.records[i];
    text += fmt::format("\n  block {}, thread {}: {}: waits for {}", record.block, record.thread,
                        place_in(lines, record.line), awaited(record));
  }
  if (report.count > count) text += fmt::format("\n  and {} more", report.count - count);
  return text;
}

}  // namespace

Result<uint64_t> wait_spins_from_environment() {
  const char* const value = std::getenv(kVariable);
  if (value == nullptr || *value == '\0') return uint64_t{0};
  const std::string_view text = value;
  uint64_t spins = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), spins);
  if (error != std::errc() || end != text.data() + text.size() || spins < kMinSpins ||
      spins > kMaxSpins) {
    return invalid_argument(
        fmt::format("{} '{}': allowed are {} to {}", kVariable, text, kMinSpins, kMaxSpins));
  }
  return spins;
}

std::string wait_spins_option(uint64_t spins) {
  return fmt::format("-DLSSAR_WAIT_SPINS={}ull", spins);
}

std::string with_wait_limit(const std::string& source) {
  const bool has_hooks = source.find(kBaseLine) != source.npos;
  if (!has_hooks || source.find("class SpinLimit") != source.npos) return source;
  const std::string body = source_without_header(source);
  std::string text = source.substr(0, source.size() - body.size());
  const auto first_line = std::count(text.begin(), text.end(), '\n') + 1;
  for (const SourcePart& part : template_parts({"templates/ptx/wait_limit_on.cuh"}))
    text += part.text;
  return text + fmt::format("#line {}\n", first_line) + body;
}

Status add_cluster_watch(const Target& target, KernelSource* kernel) {
  for (LaunchStep& step : kernel->steps) {
    if (step.cluster == 1) continue;
    step.shared_bytes += lssar_device::kClusterWatchBytes;
    if (step.shared_bytes <= target.shared_bytes_per_block) continue;
    return unsupported(fmt::format(
        "{}: {} needs {} bytes of shared memory, {} of them for the limit of cluster barriers: "
        "{} has {}; take a schedule with less, or without clusters",
        kVariable, step.entry, step.shared_bytes, lssar_device::kClusterWatchBytes, target.name(),
        target.shared_bytes_per_block));
  }
  return {};
}

Result<std::unique_ptr<WaitMonitor>> WaitMonitor::create(Device& device,
                                                         const DeviceModule& module) {
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr variable, module.variable(kWaitReportVariable));
  if (variable == 0) return std::unique_ptr<WaitMonitor>();
  LSSAR_ASSIGN_OR_RETURN(const Device::HostMemory memory, device.allocate_host(sizeof(WaitReport)));
  std::unique_ptr<WaitMonitor> monitor(new WaitMonitor(device, memory));
  LSSAR_RETURN_IF_ERROR(device.copy_to_device(variable, &memory.device, sizeof(memory.device)));
  return monitor;
}

WaitMonitor::~WaitMonitor() { (void)device_.free_host(memory_); }

Status WaitMonitor::begin(Stream stream) const {
  if (auto* const streams = dynamic_cast<GraphStreams*>(&device_)) {
    LSSAR_ASSIGN_OR_RETURN(const bool is_capturing, streams->is_capturing(stream));
    if (is_capturing) {
      return unsupported(fmt::format(
          "{}: the stream is being captured into a graph, and each call waits for its kernels",
          kVariable));
    }
  }
  std::memset(memory_.host, 0, sizeof(WaitReport));
  return {};
}

Status WaitMonitor::end(Status status, const KernelSource& source, Stream stream) const {
  if (status.ok()) status = device_.synchronize(stream);
  const auto& report = *static_cast<const WaitReport*>(memory_.host);
  if (status.ok() || report.count == 0) return status;
  return {status.code(), fmt::format("{}\n{}", status.message(), describe(report, source))};
}

}  // namespace lssar
