// Speed of the virtual device on a Hopper kernel (TMA, wgmma, a producer and two consumers): the
// forward of tests/virtual/data/hopper_forward.ptx, one head, 1024 x 1024, on one thread.
// Targets with AVX-512: 50 million warp instructions per second, 20 in strict mode.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

#include "tests/virtual/strict/data_ptx.h"
#include "virtual/run/virtual_device.h"

namespace lssar::bench {
namespace {

constexpr int kLength = 1024;

struct HopperCase {
  const char* entry;
  uint64_t dim;
  uint32_t tile_keys;
  uint32_t shared_bytes;
  bool strict;
};

// In the layout that the kernel declares.
struct Params {
  TensorMap q, k, v, o;
  int32_t keys = kLength;
  float scale = 0.25f;
};

constexpr size_t kParamsBytes = offsetof(Params, scale) + sizeof(float);  // without the padding

Result<TensorMap> matrix_map(Device& device, DevicePtr data, uint64_t dim, uint32_t rows) {
  TensorMapRequest request;
  request.type = TensorDataType::kBfloat16;
  request.rank = 2;
  request.global_address = data;
  request.global_dims[0] = dim;
  request.global_dims[1] = kLength;
  request.global_strides[0] = dim * 2;
  request.box_dims[0] = 64;
  request.box_dims[1] = rows;
  request.swizzle = TensorSwizzle::k128Bytes;
  return device.encode_tensor_map(request);
}

// Values between -1 and 1. Any will do, because the work does not depend on them.
std::vector<uint16_t> matrix(uint64_t dim) {
  std::vector<uint16_t> values(kLength * dim);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint16_t>(0x3e00 + (i * 37 & 0xff) + ((i * 11 & 1) << 15));
  }
  return values;
}

Status run_case(benchmark::State& state, const HopperCase& c) {
  VirtualOptions options;
  options.target = *target_from_name("sm_90a");
  options.num_threads = 1;
  options.strict = c.strict;
  const std::shared_ptr<Device> device = make_virtual_device(options);
  Image image;
  image.bytes = std::string(test::data_ptx("hopper_forward"));
  LSSAR_ASSIGN_OR_RETURN(const auto module, device->load(image));
  LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* function, module->function(c.entry));
  LSSAR_RETURN_IF_ERROR(device->prepare(*function, c.shared_bytes));

  const std::vector<uint16_t> values = matrix(c.dim);
  DevicePtr data[4] = {};
  for (DevicePtr& ptr : data) {
    LSSAR_ASSIGN_OR_RETURN(ptr, device->allocate(values.size() * 2));
    LSSAR_RETURN_IF_ERROR(device->copy_to_device(ptr, values.data(), values.size() * 2));
  }
  Params params;
  TensorMap* const maps[4] = {&params.q, &params.k, &params.v, &params.o};
  for (int i = 0; i < 4; ++i) {
    const uint32_t rows = i == 1 || i == 2 ? c.tile_keys : 64;
    LSSAR_ASSIGN_OR_RETURN(*maps[i], matrix_map(*device, data[i], c.dim, rows));
  }
  LaunchConfig config;
  config.grid[0] = kLength / 128;
  config.block[0] = 384;
  config.shared_bytes = c.shared_bytes;
  const uint64_t before = device->counters().warp_instructions;
  for (auto _ : state) {
    LSSAR_RETURN_IF_ERROR(device->launch(*function, config, &params, kParamsBytes, nullptr));
  }
  const auto executed = static_cast<double>(device->counters().warp_instructions - before);
  state.counters["Mwi_per_s"] = benchmark::Counter(executed * 1e-6, benchmark::Counter::kIsRate);
  state.SetLabel(device->info().name);
  return {};
}

void run(benchmark::State& state, HopperCase c) {
  const Status status = run_case(state, c);
  if (!status.ok()) state.SkipWithError(status.to_string().c_str());
}

}  // namespace
}  // namespace lssar::bench

int main(int argc, char** argv) {
  using lssar::bench::HopperCase;
  const HopperCase cases[] = {
      {"hopper_forward_d64", 64, 128, (16 + 64) * 1024 + 72, false},
      {"hopper_forward_d64", 64, 128, (16 + 64) * 1024 + 72, true},
      {"hopper_forward_d128", 128, 64, (32 + 64) * 1024 + 72, false},
      {"hopper_forward_d128", 128, 64, (32 + 64) * 1024 + 72, true},
  };
  for (const HopperCase& c : cases) {
    const std::string name = std::string(c.entry) + (c.strict ? "/strict" : "/fast");
    benchmark::RegisterBenchmark(name.c_str(), lssar::bench::run, c)->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
