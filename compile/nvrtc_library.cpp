#include "compile/nvrtc_library.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace lssar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
constexpr const char* kHowToGet =
    "install NVIDIA's CUDA toolkit 12 or 13 (package cuda-nvrtc-13-0) or the Python wheel "
    "nvidia-cuda-nvrtc, set LSSAR_NVRTC_PATH to its libnvrtc.so, or use the llvm compiler";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void add_existing(const fs::path& folder, std::vector<std::string>* candidates) {
  for (const char* name : kNames) {
    std::error_code error;
    if (fs::exists(folder / name, error)) candidates->push_back((folder / name).string());
  }
}

// <root>/lib/python3.*/{site,dist}-packages/nvidia/{cu13,cuda_nvrtc}/lib
void add_wheels(const fs::path& root, std::vector<std::string>* candidates) {
  std::error_code error;
  fs::directory_iterator entries(root / "lib", error);
  if (error) return;
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    if (error) return;
    if (!entries->path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const char* wheel : {"cu13", "cuda_nvrtc"}) {
        add_existing(entries->path() / packages / "nvidia" / wheel / "lib", candidates);
      }
    }
  }
}

// NVRTC opens its builtins by name at its first compile. If NVRTC was found outside the loader's
// search path, they are only beside it. After they are opened here, the name resolves to them.
void open_builtins(const std::string& library_path) {
  std::error_code error;
  fs::directory_iterator entries(fs::path(library_path).parent_path(), error);
  if (error) return;
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    if (error) return;
    if (entries->path().filename().string().starts_with("libnvrtc-builtins.so.")) {
      // If this fails, NVRTC's own attempt reports the error.
      (void)DynamicLibrary::open(entries->path().string());
    }
  }
}

Result<NvrtcLibrary> bind(const std::string& name) {
  NvrtcLibrary nvrtc;
  LSSAR_ASSIGN_OR_RETURN(nvrtc.library, DynamicLibrary::open(name));
  const DynamicLibrary& library = nvrtc.library;
  const bool bound =
      bind_symbol(library, "nvrtcGetErrorString", nvrtc.get_error_string) &&
      bind_symbol(library, "nvrtcVersion", nvrtc.version) &&
      bind_symbol(library, "nvrtcGetNumSupportedArchs", nvrtc.get_num_supported_archs) &&
      bind_symbol(library, "nvrtcGetSupportedArchs", nvrtc.get_supported_archs) &&
      bind_symbol(library, "nvrtcCreateProgram", nvrtc.create_program) &&
      bind_symbol(library, "nvrtcDestroyProgram", nvrtc.destroy_program) &&
      bind_symbol(library, "nvrtcCompileProgram", nvrtc.compile_program) &&
      bind_symbol(library, "nvrtcGetPTXSize", nvrtc.get_ptx_size) &&
      bind_symbol(library, "nvrtcGetPTX", nvrtc.get_ptx) &&
      bind_symbol(library, "nvrtcGetCUBINSize", nvrtc.get_cubin_size) &&
      bind_symbol(library, "nvrtcGetCUBIN", nvrtc.get_cubin) &&
      bind_symbol(library, "nvrtcGetProgramLogSize", nvrtc.get_log_size) &&
      bind_symbol(library, "nvrtcGetProgramLog", nvrtc.get_log);
  if (!bound) return missing(name + ": not NVRTC 11.2 or later (functions are missing)");
  return nvrtc;
}

}  // namespace

std::vector<std::string> nvrtc_candidates() {
  const std::string wanted = environment("LSSAR_NVRTC_PATH");
  if (wanted == "none") return {};
  if (!wanted.empty()) return {wanted};
  std::vector<std::string> candidates(std::begin(kNames), std::end(kNames));
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const fs::path root = environment(variable);
    if (root.empty()) continue;
    add_existing(root / "lib64", &candidates);
    add_existing(root / "lib", &candidates);
    add_existing(root / "targets/x86_64-linux/lib", &candidates);
  }
  for (const char* folder :
       {"/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/opt/cuda/lib64"}) {
    add_existing(folder, &candidates);
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const fs::path root = environment(variable);
    if (root.empty()) continue;
    add_existing(root / "lib", &candidates);
    add_wheels(root, &candidates);
  }
  const fs::path home = environment("HOME");
  if (!home.empty()) add_wheels(home / ".local", &candidates);
  add_wheels("/usr/local", &candidates);
  return candidates;
}

Result<NvrtcLibrary> open_nvrtc_library() {
  const std::vector<std::string> candidates = nvrtc_candidates();
  if (candidates.empty()) {
    return missing(fmt::format("NVRTC is hidden by LSSAR_NVRTC_PATH=none (otherwise tried: {}); {}",
                               fmt::join(kNames, ", "), kHowToGet));
  }
  std::string tried;
  for (const std::string& candidate : candidates) {
    Result<NvrtcLibrary> nvrtc = bind(candidate);
    if (nvrtc.ok()) {
      open_builtins(nvrtc->library.path());
      return nvrtc;
    }
    tried += fmt::format("\n  {}: {}", candidate, nvrtc.status().message());
  }
  return missing(fmt::format("NVRTC was not found; {}. Tried:{}", kHowToGet, tried));
}

}  // namespace lssar
