// The LLVM compiler library, liblssar_llvm.so, opened by name. llvm_compiler.cpp compiles with it,
// and object_loader.cpp loads the objects that it makes. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "base/status.h"
#include "compile/llvm_abi.h"

namespace lssar {

struct LlvmLibrary {
  DynamicLibrary handle;
  lssar_llvm_abi_version_fn* abi_version = nullptr;
  lssar_llvm_version_fn* version = nullptr;
  lssar_llvm_compile_fn* compile = nullptr;
  lssar_llvm_release_fn* release = nullptr;
  lssar_llvm_load_fn* load = nullptr;
  lssar_llvm_function_fn* function = nullptr;
  lssar_llvm_unload_fn* unload = nullptr;
  lssar_llvm_release_log_fn* release_log = nullptr;
};

// Where liblssar_llvm.so is looked for, in order. If LSSAR_LLVM_PATH is set, only there ("none":
// nowhere). Else candidates_beside_code(), the wheel lssar-llvm, and where the loader searches.
std::vector<std::string> llvm_candidates();

// kMissing: the library was not found, or is of another version.
Result<LlvmLibrary> open_llvm_library();

}  // namespace lssar
