#include "device/counters_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lssar {
namespace {

constexpr size_t kMaxQuoted = 100;

LaunchCounters total_of(const std::vector<KernelCounters>& kernels) {
  LaunchCounters total;
  for (const KernelCounters& kernel : kernels) total.add(kernel.counters);
  return total;
}

void add_instructions(const LaunchCounters& counters, std::string* out) {
  *out += fmt::format("  {:<24}{:>16}{:>18}\n", "instructions", "warps", "threads");
  for (int i = 0; i < kNumInstructionClasses; ++i) {
    const auto instruction_class = static_cast<InstructionClass>(i);
    const InstructionCount& count = counters.of(instruction_class);
    if (count.warps == 0) continue;
    *out += fmt::format("    {:<22}{:>16}{:>18}\n", to_string(instruction_class), count.warps,
                        count.lanes);
  }
  *out += fmt::format("    {:<22}{:>16}\n", "all", counters.warp_instructions);
  for (int i = 0; i < kNumTensorTypes; ++i) {
    const auto type = static_cast<TensorType>(i);
    if (counters.flop(type) == 0) continue;
    *out += fmt::format("  {:<24}{:>16}\n", fmt::format("tensor FLOP, {}", to_string(type)),
                        counters.flop(type));
  }
}

void add_global(const LaunchCounters& counters, std::string* out) {
  bool first = true;
  for (int i = 0; i < kNumAccessKinds; ++i) {
    const auto kind = static_cast<AccessKind>(i);
    const GlobalTraffic& traffic = counters.global_of(kind);
    if (traffic.requests == 0) continue;
    if (first) {
      *out += fmt::format("  {:<24}{:>16}{:>18}{:>16}{:>14}\n", "global memory", "requests",
                          "bytes asked for", "sectors", "bytes/sector");
    }
    first = false;
    *out += fmt::format("    {:<22}{:>16}{:>18}{:>16}{:>14.1f}\n", to_string(kind),
                        traffic.requests, traffic.bytes, traffic.sectors,
                        static_cast<double>(traffic.bytes) / static_cast<double>(traffic.sectors));
  }
}

void add_shared(const LaunchCounters& counters, std::string* out) {
  bool first = true;
  for (int i = 0; i < kNumAccessKinds; ++i) {
    const auto kind = static_cast<AccessKind>(i);
    const SharedTraffic& traffic = counters.shared_of(kind);
    if (traffic.requests == 0) continue;
    if (first) {
      *out += fmt::format("  {:<24}{:>16}{:>18}{:>16}{:>14}\n", "shared memory", "requests",
                          "bytes asked for", "wavefronts", "lost");
    }
    first = false;
    *out += fmt::format("    {:<22}{:>16}{:>18}{:>16}{:>14}\n", to_string(kind), traffic.requests,
                        traffic.bytes, traffic.wavefronts, traffic.lost());
  }
}

void add_worst(const char* what, const char* unit, const WorstInstruction& worst,
               std::string* out) {
  if (worst.lost == 0) return;
  *out +=
      fmt::format("  {}: {} {} in {} requests, kernel {}, PTX line {}\n    {}\n", what, worst.lost,
                  unit, worst.requests, worst.kernel, worst.line, worst.text.substr(0, kMaxQuoted));
}

void add_block(const std::string& title, const LaunchCounters& counters, std::string* out) {
  *out += fmt::format("{}: {} launch{}\n", title, counters.launches,
                      counters.launches == 1 ? "" : "es");
  add_instructions(counters, out);
  add_global(counters, out);
  add_shared(counters, out);
  const auto add_line = [out](const char* name, uint64_t value) {
    if (value != 0) *out += fmt::format("  {:<24}{:>16}\n", name, value);
  };
  add_line("barriers, by warp", counters.barriers);
  add_line("TMA bytes loaded", counters.tma_load_bytes);
  add_line("TMA bytes stored", counters.tma_store_bytes);
  add_line("TMA bytes reduced", counters.tma_reduce_bytes);
  add_worst("most bank conflicts", "wavefronts lost", counters.worst_shared, out);
  add_worst("least coalesced", "sectors too many", counters.worst_global, out);
}

nlohmann::json to_json(const WorstInstruction& worst) {
  if (worst.lost == 0) return nullptr;
  return {{"lost", worst.lost},
          {"requests", worst.requests},
          {"kernel", worst.kernel},
          {"line", worst.line},
          {"instruction", worst.text}};
}

nlohmann::json to_json(const LaunchCounters& counters) {
  nlohmann::json instructions, flop, global, shared;
  for (int i = 0; i < kNumInstructionClasses; ++i) {
    const auto instruction_class = static_cast<InstructionClass>(i);
    const InstructionCount& count = counters.of(instruction_class);
    instructions[to_string(instruction_class)] = {{"warps", count.warps}, {"threads", count.lanes}};
  }
  for (int i = 0; i < kNumTensorTypes; ++i) {
    const auto type = static_cast<TensorType>(i);
    flop[to_string(type)] = counters.flop(type);
  }
  for (int i = 0; i < kNumAccessKinds; ++i) {
    const auto kind = static_cast<AccessKind>(i);
    const GlobalTraffic& g = counters.global_of(kind);
    const SharedTraffic& s = counters.shared_of(kind);
    global[to_string(kind)] = {
        {"requests", g.requests}, {"bytes", g.bytes}, {"sectors", g.sectors}};
    shared[to_string(kind)] = {{"requests", s.requests},
                               {"bytes", s.bytes},
                               {"wavefronts", s.wavefronts},
                               {"lost", s.lost()}};
  }
  return {{"launches", counters.launches},
          {"warp_instructions", counters.warp_instructions},
          {"instructions", instructions},
          {"tensor_flop", flop},
          {"global", global},
          {"shared", shared},
          {"barriers", counters.barriers},
          {"tma_bytes",
           {{"load", counters.tma_load_bytes},
            {"store", counters.tma_store_bytes},
            {"reduce", counters.tma_reduce_bytes}}},
          {"worst_shared", to_json(counters.worst_shared)},
          {"worst_global", to_json(counters.worst_global)}};
}

}  // namespace

const char* to_string(InstructionClass instruction_class) {
  switch (instruction_class) {
    case InstructionClass::kTensor:
      return "tensor";
    case InstructionClass::kSpecial:
      return "special function";
    case InstructionClass::kFma:
      return "fma";
    case InstructionClass::kFloat:
      return "other float";
    case InstructionClass::kConversion:
      return "conversion";
    case InstructionClass::kInteger:
      return "integer";
    case InstructionClass::kMove:
      return "move";
    case InstructionClass::kMemory:
      return "memory";
    case InstructionClass::kWarp:
      return "warp";
    case InstructionClass::kControl:
      return "control";
    case InstructionClass::kSync:
      return "synchronisation";
  }
  return "";
}

const char* to_string(TensorType type) {
  switch (type) {
    case TensorType::kF16:
      return "f16";
    case TensorType::kBf16:
      return "bf16";
    case TensorType::kTf32:
      return "tf32";
    case TensorType::kFp8:
      return "fp8";
    case TensorType::kF64:
      return "f64";
    case TensorType::kInteger:
      return "integer";
  }
  return "";
}

const char* to_string(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead:
      return "read";
    case AccessKind::kWrite:
      return "write";
    case AccessKind::kAtomic:
      return "atomic";
  }
  return "";
}

std::string counters_table(const std::vector<KernelCounters>& kernels) {
  std::string text;
  for (const KernelCounters& kernel : kernels) {
    add_block(fmt::format("kernel {}", kernel.kernel), kernel.counters, &text);
  }
  if (kernels.size() > 1) add_block("all kernels", total_of(kernels), &text);
  return text;
}

nlohmann::json counters_json(const std::vector<KernelCounters>& kernels) {
  nlohmann::json list = nlohmann::json::array();
  for (const KernelCounters& kernel : kernels) {
    nlohmann::json one = to_json(kernel.counters);
    one["kernel"] = kernel.kernel;
    list.push_back(std::move(one));
  }
  return {{"kernels", std::move(list)}, {"total", to_json(total_of(kernels))}};
}

}  // namespace lssar
