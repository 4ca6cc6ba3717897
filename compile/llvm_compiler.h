// The llvm compiler: clang 19 in a library of its own (liblssar_llvm.so), as a Compiler. Opened by
// compiler.cpp. Neither this nor anything that links it needs LLVM.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "compile/compiler.h"

namespace lssar {

// Where liblssar_llvm.so is looked for, in order: LSSAR_LLVM_PATH alone if it is set; else beside
// the library or executable this code is in, in ../lib of it, the folder it is installed to, and
// where the loader searches. Empty where LSSAR_LLVM_PATH is "none".
std::vector<std::string> llvm_candidates();

// kMissing where the library is not found or does not fit.
Result<std::shared_ptr<const Compiler>> make_llvm_compiler();

}  // namespace lssar
