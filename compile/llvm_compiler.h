// The llvm compiler: clang 19 in a library of its own (liblssar_llvm.so), as a Compiler. Opened by
// compiler.cpp. Neither this nor anything that links it needs LLVM.
#pragma once

#include <memory>

#include "base/status.h"
#include "compile/compiler.h"

namespace lssar {

// kMissing: the library was not found, or is of another version.
Result<std::shared_ptr<const Compiler>> make_llvm_compiler();

}  // namespace lssar
