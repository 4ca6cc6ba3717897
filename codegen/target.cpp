#include "codegen/target.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"

namespace lssar {

using nlohmann::json;

namespace {

constexpr int kKiB = 1024;
constexpr int kMaxRegistersPerThread = 255;
constexpr int kMinMajor = 8;  // cp.async, ldmatrix and bf16 mma begin with 8.0

struct Capability {
  int major, minor;
  bool arch_specific;  // has an "a" target
  int shared_kib_per_sm;
  int threads_per_sm;
};

// CUDA programming guide, "technical specifications per compute capability". All have the same
// registers.
constexpr Capability kCapabilities[] = {
    {8, 0, false, 164, 2048}, {8, 6, false, 100, 1536}, {8, 7, false, 164, 1536},
    {8, 8, false, 100, 1536}, {8, 9, false, 100, 1536}, {9, 0, true, 228, 2048},
    {10, 0, true, 228, 2048}, {10, 3, true, 228, 2048}, {11, 0, true, 228, 1536},
    {12, 0, true, 100, 1536}, {12, 1, true, 100, 1536},
};

Target make_target(const Capability& capability, const std::string& suffix) {
  Target target;
  target.major = capability.major;
  target.minor = capability.minor;
  target.suffix = suffix;
  target.shared_bytes_per_sm = capability.shared_kib_per_sm * kKiB;
  target.shared_bytes_per_block = target.shared_bytes_per_sm - kReservedSharedBytes;
  target.registers_per_thread = kMaxRegistersPerThread;
  target.registers_per_sm = kRegistersPerSm;
  target.threads_per_sm = capability.threads_per_sm;
  return target;
}

std::vector<Target> known_targets() {
  std::vector<Target> targets;
  for (const Capability& capability : kCapabilities) {
    targets.push_back(make_target(capability, ""));
    if (capability.arch_specific) targets.push_back(make_target(capability, "a"));
  }
  return targets;
}

constexpr CpuLevel kCpuLevels[] = {
    {"x86-64-v3", "AVX2, FMA and F16C", "x86-64-v3", "", 8, 16, false},
    {"x86-64-v4", "AVX-512 (F, BW, CD, DQ and VL)", "x86-64-v4", "", 16, 32, false},
    {"x86-64-v4-bf16", "AVX512_BF16", "x86-64-v4", "avx512bf16", 16, 32, true},
};

Target cpu_target(const CpuLevel& level) {
  Target target;
  target.cpu = level.name;
  target.major = target.minor = 0;
  target.registers_per_thread = target.registers_per_sm = 0;
  return target;
}

std::string known_names_text() {
  std::vector<std::string> names = known_target_names();
  for (const CpuLevel& level : kCpuLevels) names.push_back(level.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Status check_limit(const char* field, int value, int low, int high) {
  if (value >= low && value <= high) return {};
  return invalid_argument(fmt::format("target.{} = {}: allowed are whole numbers from {} to {}",
                                      field, value, low, high));
}

// A target that is given field by field may be an unknown device, but its limits must make sense.
Status check_limits(const Target& target) {
  constexpr int kMaxVersion = 99;
  constexpr int kMaxBytes = 1 << 24;
  constexpr int kMaxCount = 1 << 20;
  LSSAR_RETURN_IF_ERROR(check_limit("major", target.major, kMinMajor, kMaxVersion));
  LSSAR_RETURN_IF_ERROR(check_limit("minor", target.minor, 0, 9));
  if (target.suffix != "" && target.suffix != "a") {
    return invalid_argument(
        fmt::format("target.suffix = \"{}\": allowed are \"\" and \"a\"", target.suffix));
  }
  LSSAR_RETURN_IF_ERROR(
      check_limit("shared_bytes_per_block", target.shared_bytes_per_block, 1, kMaxBytes));
  LSSAR_RETURN_IF_ERROR(check_limit("shared_bytes_per_sm", target.shared_bytes_per_sm,
                                    target.shared_bytes_per_block, kMaxBytes));
  LSSAR_RETURN_IF_ERROR(
      check_limit("registers_per_thread", target.registers_per_thread, 1, kMaxRegistersPerThread));
  LSSAR_RETURN_IF_ERROR(check_limit("registers_per_sm", target.registers_per_sm, 1, kMaxCount));
  return check_limit("threads_per_sm", target.threads_per_sm, 32, kMaxCount);
}

}  // namespace

std::string Target::name() const {
  return is_cpu() ? cpu : fmt::format("sm_{}{}{}", major, minor, suffix);
}

std::span<const CpuLevel> cpu_levels() { return kCpuLevels; }

const CpuLevel& cpu_level(const Target& target) {
  return *std::find_if(std::begin(kCpuLevels), std::end(kCpuLevels),
                       [&](const CpuLevel& level) { return target.cpu == level.name; });
}

std::string cpu_compile_options(const Target& target) {
  const CpuLevel& level = cpu_level(target);
  const std::string architecture = fmt::format("-march={}", level.architecture);
  return *level.feature == 0 ? architecture : fmt::format("{} -m{}", architecture, level.feature);
}

std::vector<std::string> known_target_names() {
  std::vector<std::string> names;
  for (const Target& target : known_targets()) names.push_back(target.name());
  return names;
}

Result<Target> target_from_name(const std::string& name) {
  for (const Target& target : known_targets()) {
    if (target.name() == name) return target;
  }
  for (const CpuLevel& level : kCpuLevels) {
    if (name == level.name) return cpu_target(level);
  }
  return invalid_argument(fmt::format("target = \"{}\": allowed are {}", name, known_names_text()));
}

Result<Target> target_for_capability(int major, int minor) {
  if (major < kMinMajor) {
    return unsupported(
        fmt::format("compute capability = {}.{}: allowed are 8.0 and later (cp.async and bf16 mma)",
                    major, minor));
  }
  const Capability* best = nullptr;
  for (const Capability& capability : kCapabilities) {
    if (capability.major == major && capability.minor <= minor) best = &capability;
  }
  if (best == nullptr) {
    return unsupported(fmt::format("compute capability = {}.{}: known targets are {}", major, minor,
                                   known_names_text()));
  }
  // "a" code runs only on its own capability.
  const bool exact = best->minor == minor;
  return make_target(*best, exact && best->arch_specific ? "a" : "");
}

json to_json(const Target& target) {
  if (target.is_cpu()) return target.name();  // the name says everything
  return {{"major", target.major},
          {"minor", target.minor},
          {"suffix", target.suffix},
          {"shared_bytes_per_block", target.shared_bytes_per_block},
          {"shared_bytes_per_sm", target.shared_bytes_per_sm},
          {"registers_per_thread", target.registers_per_thread},
          {"registers_per_sm", target.registers_per_sm},
          {"threads_per_sm", target.threads_per_sm}};
}

Result<Target> target_from_json(const json& object) {
  if (object.is_string()) return target_from_name(object.get<std::string>());
  if (!object.is_object()) {
    return invalid_argument("target: allowed are a name and a JSON object with every field");
  }
  Target target;
  JsonFields fields(object, "target");
  const json every_field = to_json(target);
  for (const auto& [name, value] : every_field.items()) fields.require(name.c_str());
  fields.read("major", target.major);
  fields.read("minor", target.minor);
  fields.read("suffix", target.suffix);
  fields.read("shared_bytes_per_block", target.shared_bytes_per_block);
  fields.read("shared_bytes_per_sm", target.shared_bytes_per_sm);
  fields.read("registers_per_thread", target.registers_per_thread);
  fields.read("registers_per_sm", target.registers_per_sm);
  fields.read("threads_per_sm", target.threads_per_sm);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  LSSAR_RETURN_IF_ERROR(check_limits(target));
  return target;
}

}  // namespace lssar
