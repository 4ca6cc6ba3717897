#include "device/cpu/cpu_features.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lssar {
namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

// The compiler's run-time library looks at the operating system's saved registers too.
std::string find_level() {
  if (__builtin_cpu_supports("x86-64-v4"))
    return __builtin_cpu_supports("avx512bf16") ? "x86-64-v4-bf16" : "x86-64-v4";
  return __builtin_cpu_supports("x86-64-v3") ? "x86-64-v3" : "";
}

std::string find_name() {
  if (cpuid(0x80000000).a < 0x80000004) return "x86-64 CPU";
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002 + i);
    std::memcpy(text + 16 * i, &r, sizeof(r));
  }
  std::string name = text;
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "x86-64 CPU" : name;
}

#else

std::string find_level() { return ""; }
std::string find_name() { return "not an x86-64 CPU"; }

#endif

int64_t cache_bytes(int name) { return std::max(sysconf(name), 0L); }

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    CpuFeatures found;
    found.level = find_level();
    found.name = find_name();
    found.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE);
    found.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
    found.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
    return found;
  }();
  return features;
}

Result<Target> cpu_target_for(const std::string& name, const CpuFeatures& features) {
  if (features.level.empty()) {
    return unsupported(fmt::format(
        "device = cpu: kernels need at least {} ({}), and {} does not have all of it: use --device "
        "virtual",
        cpu_levels()[0].name, cpu_levels()[0].instructions, features.name));
  }
  LSSAR_ASSIGN_OR_RETURN(const Target target,
                         target_from_name(name.empty() ? features.level : name));
  if (!target.is_cpu()) {
    std::string names;
    for (const CpuLevel& level : cpu_levels()) names += fmt::format(" {}", level.name);
    return invalid_argument(
        fmt::format("target = \"{}\": with device = cpu allowed are{}", name, names));
  }
  // What the levels above the machine's have, up to the target's.
  std::string lacking;
  bool is_above = false;
  for (const CpuLevel& level : cpu_levels()) {
    if (is_above) lacking += fmt::format("{}{}", lacking.empty() ? "" : "; ", level.instructions);
    if (level.name == target.cpu) break;
    is_above = is_above || level.name == features.level;
  }
  if (lacking.empty()) return target;
  return unsupported(
      fmt::format("target = \"{}\": this machine's CPU ({}) runs {} and below; it lacks {}",
                  target.cpu, features.name, features.level, lacking));
}

}  // namespace lssar
