// LSSAR_OVERRIDE_DIR: compiles sources edited by hand in place of generated ones.
//
// Used by the engine for kernels that it generates (not for a tuner's candidates). Threads: pure
// functions of the environment and the file system.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/target.h"

namespace lssar {

// The largest source file that is read.
inline constexpr uint64_t kMaxSourceBytes = uint64_t{16} << 20;

// The file that overrides this kernel, "lssar_forward_bf16_d64_p15-3f9a12bc90de4711.cu": its name,
// and the first 16 hexadecimal digits of the SHA-256 of the target's name and the generated source
// without its header. It does not depend on the compiler or the kind of image.
std::string override_name(const KernelSource& generated, const Target& target);

struct Override {
  std::string path;    // the file that is used, or ""
  std::string missed;  // if there is no such file: its name, and what is there instead
};

// If LSSAR_OVERRIDE_DIR has the file of that name, replaces kernel->source by it; the launches
// stay. Warnings in the log say which file is used, or, once per kernel and process, that there is
// none. kIoError: the folder is missing, another user could have written it or the file (the binary
// cache's rule), or the file cannot be read. Such a file is never silently ignored.
Result<Override> apply_override(const Target& target, KernelSource* kernel);

}  // namespace lssar
