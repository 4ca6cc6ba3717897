#include "virtual/program/simd_level.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "virtual/program/handler_sets.h"
#include "virtual/program/machine_simd.h"

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
  const SimdLevel best = *parse_simd_level(machine_simd());
  std::vector<SimdLevel> levels;
  for (const SimdLevel level : {SimdLevel::kPlain, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level <= best && vdev::handler_set(level) != nullptr) levels.push_back(level);
  }
  return levels;
}

Result<SimdLevel> vdev::choose_simd_level(SimdLevel wanted, const std::vector<SimdLevel>& levels) {
  if (levels.empty()) {
    return invalid_argument(fmt::format(
        "virtual device: built with LSSAR_NATIVE_SIMD on a machine with more than this one's '{}': "
        "build with -DLSSAR_NATIVE_SIMD=OFF",
        machine_simd()));
  }
  if (wanted == SimdLevel::kAuto) return levels.back();
  if (std::find(levels.begin(), levels.end(), wanted) != levels.end()) return wanted;
  std::string have;
  for (const SimdLevel level : levels) have += fmt::format(" {}", simd_level_name(level));
  return invalid_argument(fmt::format("SIMD level {}: this machine and build have only:{}",
                                      simd_level_name(wanted), have));
}

Result<SimdLevel> resolve_simd_level(SimdLevel wanted) {
  if (wanted == SimdLevel::kAuto) {
    if (const char* name = std::getenv("LSSAR_VIRTUAL_SIMD"); name != nullptr && *name != '\0') {
      const Result<SimdLevel> named = parse_simd_level(name);
      if (!named.ok()) return named.status().with_context("LSSAR_VIRTUAL_SIMD");
      wanted = *named;
    }
  }
  return vdev::choose_simd_level(wanted, available_simd_levels());
}

}  // namespace lssar
