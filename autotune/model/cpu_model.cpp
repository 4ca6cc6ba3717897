#include "autotune/model/cpu_model.h"

#include <nlohmann/json.hpp>

#include "device/cpu/cpu_features.h"

namespace lssar {
namespace {

// A core that does two multiply-adds of 8 floats in a cycle at 3 GHz. Assumed: no CPU has exactly
// these. A product of pairs takes as long as a multiply-add.
constexpr double kTypicalGflopsPerLane = 12;
constexpr double kTypicalL2Gbps = 80, kTypicalL3Gbps = 30, kTypicalMemoryGbps = 12;
constexpr int64_t kTypicalL1 = 32 << 10, kTypicalL2 = 1 << 20, kTypicalL3 = 32 << 20;

}  // namespace

CpuModel typical_cpu_model(const Target& target, const std::string& name, int num_threads) {
  CpuModel cpu;
  cpu.name = name.empty() ? "a typical CPU" : name;
  cpu.target = target.name();
  cpu.num_threads = num_threads;
  cpu.lanes = cpu_level(target).lanes;
  const double gflops = kTypicalGflopsPerLane * cpu.lanes;
  cpu.rates = {gflops, cpu_level(target).has_bf16_pairs ? 2 * gflops : 0, kTypicalL2Gbps,
               kTypicalL3Gbps, kTypicalMemoryGbps};
  cpu.l1_bytes = kTypicalL1;
  cpu.l2_bytes = kTypicalL2;
  cpu.l3_bytes = kTypicalL3;
  return cpu;
}

CpuModel measured_cpu_model(const Target& target, int num_threads) {
  const CpuFeatures& features = cpu_features();
  CpuModel cpu = typical_cpu_model(target, features.name, num_threads);
  const Result<Target> widest = cpu_target_for("", features);
  if (!widest.ok()) return cpu;
  const bool runs_it = cpu_target_for(target.name(), features).ok();
  const Target& measured = runs_it ? target : *widest;
  cpu.rates = cpu_rates(measured);
  cpu.rates.fma_gflops *= static_cast<double>(cpu.lanes) / cpu_level(measured).lanes;
  if (!runs_it && cpu_level(target).has_bf16_pairs)
    cpu.rates.pair_gflops = 2 * cpu.rates.fma_gflops;
  cpu.is_measured = true;
  if (!runs_it) cpu.scaled_from = measured.name();
  if (features.l1_bytes > 0) cpu.l1_bytes = features.l1_bytes;
  if (features.l2_bytes > 0) cpu.l2_bytes = features.l2_bytes;
  if (features.l3_bytes > 0) cpu.l3_bytes = features.l3_bytes;
  return cpu;
}

nlohmann::json to_json(const CpuModel& cpu) {
  return {{"name", cpu.name},
          {"target", cpu.target},
          {"num_threads", cpu.num_threads},
          {"is_measured", cpu.is_measured},
          {"fma_gflops_per_core", cpu.rates.fma_gflops},
          {"pair_gflops_per_core", cpu.rates.pair_gflops},
          {"l2_gbps_per_core", cpu.rates.l2_gbps},
          {"l3_gbps_per_core", cpu.rates.l3_gbps},
          {"memory_gbps_per_core", cpu.rates.memory_gbps},
          {"l1_bytes", cpu.l1_bytes},
          {"l2_bytes", cpu.l2_bytes},
          {"l3_bytes", cpu.l3_bytes}};
}

}  // namespace lssar
