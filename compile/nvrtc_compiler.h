// The nvrtc compiler: NVIDIA's run-time compiler as a Compiler. Opened by compiler.cpp.
#pragma once

#include <memory>

#include "base/status.h"
#include "compile/compiler.h"

namespace lssar {

// Finds and opens NVRTC. kMissing: it was not found or does not work.
Result<std::shared_ptr<const Compiler>> make_nvrtc_compiler();

}  // namespace lssar
