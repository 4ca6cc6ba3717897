#include "tools/probe/model_constants.h"

namespace lssar::probe {
namespace {

template <double CostConstants::*kMember>
constexpr ModelConstant of_model(const char* name) {
  return {name, [](const GpuModel& gpu) { return gpu.constants.*kMember; },
          [](GpuModel& gpu, double value) { gpu.constants.*kMember = value; }};
}

constexpr ModelConstant kConstants[] = {
    of_model<&CostConstants::block_clocks>("block_clocks"),
    of_model<&CostConstants::cluster_wait>("cluster_wait"),
    of_model<&CostConstants::hidden_alone>("hidden_alone"),
    {"l2_bytes_per_clock", [](const GpuModel& gpu) { return gpu.l2_gbps / gpu.clock_ghz; },
     [](GpuModel& gpu, double value) { gpu.l2_gbps = value * gpu.clock_ghz; }},
    of_model<&CostConstants::ordered_clocks>("ordered_clocks"),
    of_model<&CostConstants::ring_clocks>("ring_clocks"),
    of_model<&CostConstants::stream_power>("stream_power"),
    of_model<&CostConstants::sum_cost>("sum_cost"),
};

}  // namespace

const ModelConstant* find_constant(const std::string& name) {
  for (const ModelConstant& constant : kConstants) {
    if (name == constant.name) return &constant;
  }
  return nullptr;
}

std::string constant_names() {
  std::string names;
  for (const ModelConstant& constant : kConstants)
    names += (names.empty() ? "" : ", ") + std::string(constant.name);
  return names;
}

}  // namespace lssar::probe
