#include "virtual/program/simd_level.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace lssar {

const char* simd_level_name(SimdLevel level) {
  switch (level) {
    case SimdLevel::kAuto:
      return "auto";
    case SimdLevel::kPlain:
      return "plain";
    case SimdLevel::kAvx2:
      return "avx2";
    case SimdLevel::kAvx512:
      return "avx512";
  }
  return "";
}

Result<SimdLevel> parse_simd_level(const std::string& name) {
  for (const SimdLevel level :
       {SimdLevel::kAuto, SimdLevel::kPlain, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (name == simd_level_name(level)) return level;
  }
  return invalid_argument(
      fmt::format("SIMD level '{}': allowed are auto, plain, avx2, avx512", name));
}

std::vector<SimdLevel> available_simd_levels() {
  std::vector<SimdLevel> levels = {SimdLevel::kPlain};
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c") || !__builtin_cpu_supports("bmi2")) {
    return levels;
  }
  levels.push_back(SimdLevel::kAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vbmi")) {
    levels.push_back(SimdLevel::kAvx512);
  }
  return levels;
}

Result<SimdLevel> resolve_simd_level(SimdLevel wanted) {
  if (wanted == SimdLevel::kAuto) {
    if (const char* name = std::getenv("LSSAR_VIRTUAL_SIMD"); name != nullptr && *name != '\0') {
      const Result<SimdLevel> named = parse_simd_level(name);
      if (!named.ok()) return named.status().with_context("LSSAR_VIRTUAL_SIMD");
      wanted = *named;
    }
  }
  const std::vector<SimdLevel> levels = available_simd_levels();
  if (wanted == SimdLevel::kAuto) return levels.back();
  if (std::find(levels.begin(), levels.end(), wanted) != levels.end()) return wanted;
  std::string have;
  for (const SimdLevel level : levels) have += fmt::format(" {}", simd_level_name(level));
  return invalid_argument(
      fmt::format("SIMD level {}: this machine has only:{}", simd_level_name(wanted), have));
}

}  // namespace lssar
