// Target: the architecture for which a kernel is made, with its limits. Plain, comparable,
// printable.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"

namespace lssar {

// The same on every target.
inline constexpr int kRegistersPerSm = 65536;
// Shared memory of every block that the system reserves.
inline constexpr int kReservedSharedBytes = 1024;

struct Target {
  // The level of a CPU target: "x86-64-v3", "x86-64-v4" or "x86-64-v4-bf16". Empty for a GPU, which
  // the fields below describe. For a CPU they are 0.
  std::string cpu;
  int major = 8;
  int minor = 0;
  std::string suffix;  // "" or "a": sm_90a has instructions that no other target has

  int shared_bytes_per_block = 0;  // dynamic shared memory one block may use (opt-in limit)
  int shared_bytes_per_sm = 0;
  int registers_per_thread = 255;
  int registers_per_sm = kRegistersPerSm;
  int threads_per_sm = 0;

  bool is_cpu() const { return !cpu.empty(); }
  // sm_100 and later.
  bool is_blackwell() const { return major >= 10; }
  // The extension of a source file for it.
  const char* source_extension() const { return is_cpu() ? ".cpp" : ".cu"; }
  // "sm_80", "sm_90a", "x86-64-v3".
  std::string name() const;

  bool operator==(const Target&) const = default;
};

// "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120", ... An error about an unknown
// name lists the known ones.
Result<Target> target_from_name(const std::string& name);

// The names of GPUs that target_from_name knows, in order.
std::vector<std::string> known_target_names();

// One level of CPU targets: what its kernels are made of. Names and instructions are those of the
// x86-64 psABI's levels; x86-64-v4-bf16 is not the psABI's.
struct CpuLevel {
  const char* name;
  const char* instructions;  // that the level before lacks, for messages
  const char* architecture;  // the psABI's level that it has, as compilers call it
  const char* feature;       // what it has besides, as compilers call it; "" for nothing
  int lanes;                 // floats of a vector
  int registers;             // vectors
  bool has_bf16_pairs;       // one instruction multiplies pairs of bf16 numbers and adds both
};
// The levels that have kernels. Each has all instructions of the one before.
std::span<const CpuLevel> cpu_levels();
// REQUIRES: target.is_cpu().
const CpuLevel& cpu_level(const Target& target);
// What clang++ is told of a level: "-march=x86-64-v4 -mavx512bf16".
std::string cpu_compile_options(const Target& target);

// The known target that suits a device of this compute capability best: an exact match, or the
// newest one of the same major version that is not newer than the device. kUnsupported below 8.0.
Result<Target> target_for_capability(int major, int minor);

nlohmann::json to_json(const Target& target);
// Accepts a name, or an object with every field.
Result<Target> target_from_json(const nlohmann::json& json);

}  // namespace lssar
