// Speed of the virtual device's wgmma arithmetic on one core, operands and sums in cache.
// Targets for m64n128k16: 60 GFLOP/s with AVX-512, 30 with AVX2.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "virtual/async/matrix_descriptor.h"
#include "virtual/program/opcode_table.h"
#include "virtual/program/wgmma.h"

namespace lssar::bench {
namespace {

using namespace vdev;

struct WgmmaCase {
  const char* name;
  WgmmaType type;
  uint32_t n;
  bool a_in_registers;
  bool b_mn_major;
};
constexpr WgmmaCase kCases[] = {
    {"m64n128k16/bf16/a_registers", WgmmaType::kBf16, 128, true, false},
    {"m64n128k16/bf16/a_shared", WgmmaType::kBf16, 128, false, false},
    {"m64n128k16/bf16/b_mn_major", WgmmaType::kBf16, 128, true, true},
    {"m64n64k16/bf16/a_shared", WgmmaType::kBf16, 64, false, false},
    {"m64n128k16/f16/a_shared", WgmmaType::kF16, 128, false, false},
    {"m64n128k32/e4m3/a_shared", WgmmaType::kE4m3, 128, false, false},
};

struct alignas(64) Registers {
  uint8_t bytes[(kWgmmaMaxColumns / 2 + 4) * kLanes * 4];
};

// Finds the chunks each time, as every instruction does.
void run(benchmark::State& state, SimdLevel level, WgmmaCase c) {
  std::vector<uint8_t> shared(160 << 10, 0x3c);
  std::vector<Registers> registers(kWarpsPerGroup);
  std::vector<uint32_t> offsets(c.n / 2 + 4);
  for (uint32_t i = 0; i < offsets.size(); ++i) offsets[i] = i * kLanes * 4;
  MatrixDescriptor descriptor = {
      .leading = 16 << 10, .stride = 1024, .swizzle = MatrixSwizzle::k128};
  uint32_t a_chunks[kWarpsPerGroup * kWgmmaChunksOfA];
  uint32_t b_chunks[kWgmmaMaxChunksOfB];

  WgmmaCall call = {};
  call.a_type = call.b_type = c.type;
  call.b_mn_major = c.b_mn_major;
  call.n = c.n;
  call.shared = shared.data();
  call.b_chunks = b_chunks;
  call.d_registers = offsets.data();
  call.a_registers = c.a_in_registers ? offsets.data() + c.n / 2 : nullptr;
  call.num_warps = kWarpsPerGroup;
  for (uint32_t w = 0; w < kWarpsPerGroup; ++w) {
    call.warps[w] = {registers[w].bytes, registers[w].bytes, a_chunks + w * kWgmmaChunksOfA};
  }
  const HandlerSet& handlers = opcode_table(level).handlers();
  double sums = 0;
  for (auto _ : state) {
    call.accumulate = sums != 0;
    descriptor.start = 32 << 10;
    find_matrix_chunks(descriptor, c.b_mn_major, 0, c.n, b_chunks);
    descriptor.start = 0;
    if (!c.a_in_registers) find_matrix_chunks(descriptor, false, 0, 64, a_chunks);
    handlers.wgmma(call);
    sums += 1;
  }
  const uint32_t depth = c.type == WgmmaType::kE4m3 ? 32 : 16;
  state.counters["GFLOP/s"] = benchmark::Counter(
      sums * 2e-9 * kWarpsPerGroup * kWgmmaRows * c.n * depth, benchmark::Counter::kIsRate);
}

}  // namespace
}  // namespace lssar::bench

int main(int argc, char** argv) {
  for (const lssar::SimdLevel level : lssar::available_simd_levels()) {
    for (const auto& c : lssar::bench::kCases) {
      const std::string name = std::string("wgmma/") + lssar::simd_level_name(level) + "/" + c.name;
      benchmark::RegisterBenchmark(name.c_str(), lssar::bench::run, level, c);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
