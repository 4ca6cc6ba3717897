#include "compile/llvm_library.h"

#include <cstdlib>

#include <fmt/format.h>

#include "compile/beside.h"

namespace lssar {
namespace {

constexpr const char* kLibraryName = "liblssar_llvm.so";
constexpr const char* kHowToGetIt =
    "`pip install lssar-llvm` for the Python package, or build lssar with "
    "LSSAR_BUILD_LLVM_COMPILER=ON (Debian 12: apt install libclang-19-dev llvm-19-dev; to run it: "
    "libclang-cpp19 libllvm19), or set LSSAR_LLVM_PATH to liblssar_llvm.so";

Result<LlvmLibrary> bind_llvm(const std::string& name) {
  LlvmLibrary llvm;
  LSSAR_ASSIGN_OR_RETURN(llvm.handle, DynamicLibrary::open(name));
  constexpr const char* kStranger =
      "not the LLVM compiler library of lssar (functions are missing)";
  if (!bind_symbol(llvm.handle, "lssar_llvm_abi_version", llvm.abi_version))
    return missing(kStranger);
  // This comes first, because a library of another version may lack the functions below.
  if (llvm.abi_version() != LSSAR_LLVM_ABI_VERSION) {
    return missing(fmt::format("interface version {} instead of {}: from another build of lssar",
                               llvm.abi_version(), LSSAR_LLVM_ABI_VERSION));
  }
  const bool bound = bind_symbol(llvm.handle, "lssar_llvm_version", llvm.version) &&
                     bind_symbol(llvm.handle, "lssar_llvm_compile", llvm.compile) &&
                     bind_symbol(llvm.handle, "lssar_llvm_release", llvm.release) &&
                     bind_symbol(llvm.handle, "lssar_llvm_load", llvm.load) &&
                     bind_symbol(llvm.handle, "lssar_llvm_function", llvm.function) &&
                     bind_symbol(llvm.handle, "lssar_llvm_unload", llvm.unload) &&
                     bind_symbol(llvm.handle, "lssar_llvm_release_log", llvm.release_log);
  if (!bound) return missing(kStranger);
  return llvm;
}

}  // namespace

std::vector<std::string> llvm_candidates() {
  const char* wanted = std::getenv("LSSAR_LLVM_PATH");
  if (wanted != nullptr && std::string(wanted) == "none") return {};
  if (wanted != nullptr && wanted[0] != '\0') return {wanted};
  std::vector<std::string> candidates = candidates_beside_code(kLibraryName);
  // The wheel lssar-llvm, if liblssar.so is in the wheel lssar of the same Python.
  const std::string here = directory_of_code(reinterpret_cast<const void*>(&llvm_candidates));
  candidates.push_back(fmt::format("{}/../../lssar_llvm/lib/{}", here, kLibraryName));
  candidates.push_back(kLibraryName);
  return candidates;
}

Result<LlvmLibrary> open_llvm_library() {
  const std::vector<std::string> candidates = llvm_candidates();
  if (candidates.empty()) {
    return missing(
        fmt::format("the LLVM compiler is hidden by LSSAR_LLVM_PATH=none (otherwise "
                    "tried: {} beside this program); {}",
                    kLibraryName, kHowToGetIt));
  }
  std::string tried;
  for (const std::string& candidate : candidates) {
    Result<LlvmLibrary> llvm = bind_llvm(candidate);
    if (llvm.ok()) return llvm;
    tried += fmt::format("\n  {}: {}", candidate, llvm.status().message());
  }
  return missing(fmt::format("the LLVM compiler was not found; {}. Tried:{}", kHowToGetIt, tried));
}

}  // namespace lssar
