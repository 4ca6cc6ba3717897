#include "compile/llvm_library.h"

#include <cstdlib>

#include <fmt/format.h>

namespace lssar {
namespace {

constexpr const char* kLibraryName = "liblssar_llvm.so";
constexpr const char* kHowToGet =
    "build lssar with LSSAR_BUILD_LLVM_COMPILER=ON (Debian 12: apt install libclang-19-dev "
    "llvm-19-dev; to run it: libclang-cpp19 libllvm19), or set LSSAR_LLVM_PATH to liblssar_llvm.so";

Result<LlvmLibrary> bind(const std::string& name) {
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
  std::vector<std::string> candidates;
  const std::string here = directory_of_code(reinterpret_cast<const void*>(&llvm_candidates));
  if (!here.empty()) {
    candidates.push_back(fmt::format("{}/{}", here, kLibraryName));
    std::vector<std::string> folders = {"lib"};
    if (folders[0] != LSSAR_INSTALL_LIBDIR) folders.push_back(LSSAR_INSTALL_LIBDIR);
    for (const std::string& folder : folders) {
      candidates.push_back(fmt::format("{}/../{}/{}", here, folder, kLibraryName));
      // For a program in libexec/lssar.
      candidates.push_back(fmt::format("{}/../../{}/{}", here, folder, kLibraryName));
    }
  }
  candidates.push_back(fmt::format("{}/{}", LSSAR_INSTALL_FULL_LIBDIR, kLibraryName));
  candidates.push_back(kLibraryName);
  return candidates;
}

Result<LlvmLibrary> open_llvm_library() {
  const std::vector<std::string> candidates = llvm_candidates();
  if (candidates.empty()) {
    return missing(
        fmt::format("the LLVM compiler is hidden by LSSAR_LLVM_PATH=none (otherwise "
                    "tried: {} beside this program); {}",
                    kLibraryName, kHowToGet));
  }
  std::string tried;
  for (const std::string& candidate : candidates) {
    Result<LlvmLibrary> llvm = bind(candidate);
    if (llvm.ok()) return llvm;
    tried += fmt::format("\n  {}: {}", candidate, llvm.status().message());
  }
  return missing(fmt::format("the LLVM compiler was not found; {}. Tried:{}", kHowToGet, tried));
}

}  // namespace lssar
