#include "device/cpu/cpu_rates.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "device/cpu/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lssar {
namespace {

// A run of products takes about 50 us. In some hundred of them a core is rarely interrupted, and
// reaches the clock that it holds under load.
constexpr int kProductRuns = 100;
constexpr int64_t kProductSteps = 20000;
// Enough independent sums for two multiply-adds in a cycle, each of which takes 4 cycles or 5.
constexpr int kSums = 10;
constexpr size_t kVectorAlignment = 64;
// Caches whose size the system does not tell.
constexpr int64_t kUnknownL2Bytes = int64_t{512} << 10, kUnknownL3Bytes = int64_t{16} << 20;
constexpr int64_t kMostMemoryBytes = int64_t{128} << 20;

double run_seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The least time of `runs` calls of work().
template <typename Work>
double least_run_seconds(int runs, const Work& work) {
  double least = 1e30;
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    least = std::min(least, run_seconds_since(begin));
  }
  return least;
}

#if defined(__x86_64__)

// Each returns a number that depends on all of its work, so that no compiler leaves any out.

__attribute__((target("avx2,fma"))) float multiply_v3(int64_t steps) {
  const __m256 factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
  __m256 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  return _mm256_cvtss_f32(sums[0]);
}

__attribute__((target("avx512f"))) float multiply_v4(int64_t steps) {
  const __m512 factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
  __m512 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx512f,avx512bf16"))) float multiply_pairs(int64_t steps) {
  const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));  // pairs of 1
  __m512 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], factor, factor);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx2"))) int64_t read_bytes(const char* from, size_t bytes) {
  __m256i sums[4] = {};
  for (size_t at = 0; at + 128 <= bytes; at += 128) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto* const place = reinterpret_cast<const __m256i*>(from + at + 32 * i);
      sums[i] = _mm256_xor_si256(sums[i], _mm256_load_si256(place));
    }
  }
  const __m256i all =
      _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  int64_t words[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), all);
  return words[0];
}

// `multiply` does `flop` FLOP in each of kSums instructions of a step.
double measure_products(float (*multiply)(int64_t), double flop) {
  volatile float sink = 0;
  const double least = least_run_seconds(kProductRuns, [&] { sink = multiply(kProductSteps); });
  return flop * kSums * static_cast<double>(kProductSteps) / least * 1e-9;
}

// Reads the first `bytes` again and again, at least `least_bytes` of them in a run.
double measure_gbps(const char* from, size_t bytes, size_t least_bytes, int runs) {
  const size_t rounds = std::max<size_t>(1, least_bytes / bytes);
  volatile int64_t sink = 0;
  const double least = least_run_seconds(runs, [&] {
    for (size_t round = 0; round < rounds; ++round) sink = sink ^ read_bytes(from, bytes);
  });
  return static_cast<double>(bytes * rounds) / least * 1e-9;
}

CpuRates measure_rates(const Target& target) {
  CpuRates rates;
  const CpuLevel& level = cpu_level(target);
  rates.fma_gflops =
      measure_products(level.lanes == 16 ? multiply_v4 : multiply_v3, 2.0 * level.lanes);
  if (level.has_bf16_pairs) rates.pair_gflops = measure_products(multiply_pairs, 4.0 * level.lanes);
  const CpuFeatures& cpu = cpu_features();
  const int64_t l2 = cpu.l2_bytes > 0 ? cpu.l2_bytes : kUnknownL2Bytes;
  const int64_t l3 = cpu.l3_bytes > 0 ? cpu.l3_bytes : kUnknownL3Bytes;
  const auto most =
      static_cast<size_t>(std::min(2 * l3, kMostMemoryBytes)) / kVectorAlignment * kVectorAlignment;
  const std::unique_ptr<char, void (*)(void*)> memory(
      static_cast<char*>(std::aligned_alloc(kVectorAlignment, most)), std::free);
  if (memory == nullptr) return rates;
  std::memset(memory.get(), 1, most);
  const auto half_l2 = std::min(static_cast<size_t>(l2 / 2), most);
  const auto within_l3 = std::min(static_cast<size_t>(std::min(4 * l2, l3 / 2)), most);
  constexpr size_t kRunBytes = size_t{4} << 20;
  rates.l2_gbps = measure_gbps(memory.get(), half_l2, kRunBytes, 10);
  rates.l3_gbps = measure_gbps(memory.get(), within_l3, kRunBytes, 5);
  rates.memory_gbps = measure_gbps(memory.get(), most, 1, 2);
  return rates;
}

#else

CpuRates measure_rates(const Target&) { return {}; }

#endif

}  // namespace

const CpuRates& cpu_rates(const Target& target) {
  static std::mutex mutex;
  static std::map<std::string, CpuRates> known;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [at, is_new] = known.try_emplace(target.name());
  if (is_new && cpu_target_for(target.name(), cpu_features()).ok())
    at->second = measure_rates(target);
  return at->second;
}

}  // namespace lssar
