// The llvm compiler: clang 19 in a library of its own (liblssar_llvm.so), as a Compiler. Opened by
// compiler.cpp. Neither this nor anything that links it needs LLVM.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "compile/compiler.h"

namespace lssar {

// Where liblssar_llvm.so is looked for, in order. If LSSAR_LLVM_PATH is set, only there ("none":
// nowhere). Else beside the library or executable that has this code, in ../lib of it, in the
// installation's folder, and where the loader searches.
std::vector<std::string> llvm_candidates();

// kMissing: the library was not found, or is of another version.
Result<std::shared_ptr<const Compiler>> make_llvm_compiler();

}  // namespace lssar
