#include "tools/lssar/call/replay_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "device/counters_text.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

using nlohmann::json;

std::string captured_on(const Capture& capture) {
  return fmt::format("captured by lssar {} on {}{}, for {}", capture.version, capture.device,
                     capture.driver.empty() ? "" : " (driver " + capture.driver + ")",
                     capture.kernel().target);
}

void print_bits(const Replay& replay) {
  for (const BitComparison& bits : replay.bits) {
    if (bits.num_different == 0) {
      print_text("{}: bit for bit as captured\n", bits.name);
    } else {
      print_text("{}: {} of {} elements have other bits than captured, the first is number {}\n",
                 bits.name, bits.num_different, bits.num_elements, bits.first_different);
    }
  }
}

void print_timing(const Replay& replay, const DeviceInfo& device) {
  const ReplayTiming& timing = replay.timing;
  const std::string name = replay.kernels.back().kernel->source.name;
  if (timing.is_gpu) {
    print_text("{}: {:.4f} ms (median of {} after a warm-up; {:.4f} to {:.4f})\n", name,
               timing.median(), timing.ms.size(), timing.ms.front(), timing.ms.back());
  } else {
    LaunchCounters sum;
    for (const KernelCounters& one : replay.counters) sum.add(one.counters);
    uint64_t bytes = 0, lost = 0;
    for (const GlobalTraffic& traffic : sum.global) bytes += traffic.bytes;
    for (const SharedTraffic& traffic : sum.shared) lost += traffic.lost();
    print_text(
        "{}: counted {} warp instructions, {} bytes of global memory asked for, {} "
        "wavefronts lost to bank conflicts\n",
        name, sum.warp_instructions, bytes, lost);
    print_text("{}: {:.3f} ms on the {} (median of {}): not a GPU's time\n", name, timing.median(),
               device.name, timing.ms.size());
  }
  if (!timing.repeats)
    print_text("{}: the last run's outputs have other bits than the first's\n", name);
}

void print_generator(const std::string& path, const Capture& capture, const Replay& replay) {
  for (size_t i = 0; i < replay.kernels.size(); ++i) {
    const ReplayedKernel& one = replay.kernels[i];
    if (!one.was_captured) continue;
    const std::string& name = one.kernel->source.name;
    if (one.generator_agrees) {
      print_text("{}: the generator makes the same source today\n", name);
      continue;
    }
    const CapturedKernel& captured =
        capture.kernels[capture.kernels.size() - (replay.kernels.size() - i)];
    print_text("{}: NOT the source that the generator makes today{}; to see what differs:\n", name,
               captured.overridden ? " (LSSAR_OVERRIDE_DIR, when it was captured)" : "");
    print_text(
        "  lssar replay {} --extract DIR; lssar inspect DIR/{}.cu --diff DIR/{}.cu target={}\n",
        path, name, name, captured.target);
  }
}

json bits_json(const std::vector<BitComparison>& all) {
  json list = json::array();
  for (const BitComparison& one : all) {
    list.push_back({{"tensor", one.name},
                    {"elements", one.num_elements},
                    {"different", one.num_different},
                    {"first_different", one.first_different}});
  }
  return list;
}

}  // namespace

void print_replay(const std::string& path, const Capture& capture, const Replay& replay,
                  const ReplayVerdict& verdict, const DeviceInfo& device, bool quiet) {
  const Problem& problem = capture.kernel().problem;
  if (!quiet) {
    print_text("{}: {}\n", path, captured_on(capture));
    for (const ReplayedKernel& one : replay.kernels)
      print_text("{}: {} for {} | {}\n", one.kernel->source.name, device.name, device.target.name(),
                 one.origin);
  }
  if (verdict.was_checked) {
    std::vector<Comparison> all = verdict.here;
    for (Comparison one : verdict.captured) {
      one.name += ", captured";
      all.push_back(std::move(one));
    }
    print_comparisons(all);
  }
  print_bits(replay);
  print_generator(path, capture, replay);
  if (!quiet) print_timing(replay, device);
  const std::string word = verdict.was_checked ? verdict_on(problem, verdict.here) : "not checked";
  print_text("{}: {}, {}\n", word, to_string(problem), verdict.data);
}

json replay_json(const std::string& path, const Capture& capture, const Replay& replay,
                 const ReplayVerdict& verdict, const DeviceInfo& device) {
  json kernels = json::array();
  for (const ReplayedKernel& one : replay.kernels) {
    kernels.push_back({{"kernel", one.kernel->source.name},
                       {"origin", one.origin},
                       {"captured", one.was_captured},
                       {"generator_agrees", one.generator_agrees}});
  }
  const Sizes& sizes = capture.sizes;
  return {{"file", path},
          {"lssar", capture.version},
          {"captured_on",
           {{"device", capture.device},
            {"driver", capture.driver},
            {"target", capture.kernel().target},
            {"compiler", capture.kernel().compiler}}},
          {"problem", to_json(capture.kernel().problem)},
          {"schedule", to_json(capture.kernel().schedule)},
          {"sizes",
           {{"batch", sizes.batch},
            {"heads", sizes.heads},
            {"kv_heads", sizes.kv_heads},
            {"seq_q", sizes.seq_q},
            {"seq_k", sizes.seq_k}}},
          {"data", verdict.data},
          {"device",
           {{"kind", device.kind},
            {"name", device.name},
            {"driver", device.driver},
            {"target", device.target.name()}}},
          {"kernels", std::move(kernels)},
          {"checked", verdict.was_checked},
          {"passed", verdict.passed()},
          {"tensors", to_json(verdict.here)},
          {"captured_tensors", to_json(verdict.captured)},
          {"bits", bits_json(replay.bits)},
          {"timing",
           {{"is_gpu_time", replay.timing.is_gpu},
            {"median_ms", replay.timing.median()},
            {"ms", replay.timing.ms},
            {"repeats", replay.timing.repeats}}},
          {"counters", counters_json(replay.counters)}};
}

}  // namespace lssar::command
