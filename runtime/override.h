// LSSAR_OVERRIDE_DIR: sources edited by hand that are compiled and used instead of generated ones.
//
// Used by the engine for kernels it generates itself (not for a tuner's candidates). Threads: pure
// functions of the environment and the file system.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/target.h"

namespace lssar {

// Limit for a file that holds a source.
inline constexpr uint64_t kMaxSourceBytes = uint64_t{16} << 20;

// The name of the file that overrides this kernel:
// "lssar_forward_bf16_d64_p15-3f9a12bc90de4711.cu", its name and the first 16 hexadecimal digits of
// the SHA-256 of the target's name and the generated source without its header. The same for every
// compiler and kind of image.
std::string override_name(const KernelSource& generated, const Target& target);

struct Override {
  std::string path;    // the file that is used; "": none
  std::string missed;  // LSSAR_OVERRIDE_DIR is set and has no such file: which one, and what it has
};

// Replaces kernel->source by the file of that name in LSSAR_OVERRIDE_DIR, if there is one. Its
// launches stay. The log says which file is used, and once per kernel of a process that there is
// none, as warnings. kIoError: the folder is missing, or it or the file could have been written by
// another user (the rule of the binary cache), or the file cannot be read; it is never passed over.
Result<Override> apply_override(const Target& target, KernelSource* kernel);

}  // namespace lssar
