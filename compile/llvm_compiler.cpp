#include "compile/llvm_compiler.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "base/log.h"
#include "compile/compile_failure.h"
#include "compile/llvm_abi.h"

namespace lssar {
namespace {

constexpr const char* kLibraryName = "liblssar_llvm.so";
constexpr const char* kHowToGet =
    "build lssar with LSSAR_BUILD_LLVM_COMPILER=ON (Debian 12: apt install libclang-19-dev "
    "llvm-19-dev; to run it: libclang-cpp19 libllvm19), or set LSSAR_LLVM_PATH to liblssar_llvm.so";

// The targets that LLVM 19 knows, and the PTX version to request: every driver since CUDA 12.0
// reads 8.0, and it has all instructions of these targets.
constexpr const char* kTargets[] = {"sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a"};
constexpr const char* kPtxFeature = "+ptx80";

struct LlvmLibrary {
  DynamicLibrary handle;
  lssar_llvm_abi_version_fn* abi_version = nullptr;
  lssar_llvm_version_fn* version = nullptr;
  lssar_llvm_compile_fn* compile = nullptr;
  lssar_llvm_release_fn* release = nullptr;
};

Result<LlvmLibrary> bind(const std::string& name) {
  LlvmLibrary llvm;
  LSSAR_ASSIGN_OR_RETURN(llvm.handle, DynamicLibrary::open(name));
  const bool bound = bind_symbol(llvm.handle, "lssar_llvm_abi_version", llvm.abi_version) &&
                     bind_symbol(llvm.handle, "lssar_llvm_version", llvm.version) &&
                     bind_symbol(llvm.handle, "lssar_llvm_compile", llvm.compile) &&
                     bind_symbol(llvm.handle, "lssar_llvm_release", llvm.release);
  if (!bound) return missing("not the LLVM compiler library of lssar (functions are missing)");
  if (llvm.abi_version() != LSSAR_LLVM_ABI_VERSION) {
    return missing(fmt::format("interface version {}, needed is {}: of another build of lssar",
                               llvm.abi_version(), LSSAR_LLVM_ABI_VERSION));
  }
  return llvm;
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

// Translates nvcc's spelling of an option that both compilers have to clang's.
std::string translate_option(const std::string& option) {
  if (option == "-lineinfo" || option == "--generate-line-info") {
    return "-debug-info-kind=line-directives-only";
  }
  return option;
}

class LlvmCompiler final : public Compiler {
 public:
  explicit LlvmCompiler(LlvmLibrary llvm) : llvm_(std::move(llvm)), version_(llvm_.version()) {}

  std::string name() const override { return "llvm"; }
  std::string version() const override { return version_; }
  std::string path() const override { return llvm_.handle.path(); }
  bool can_make(ImageKind kind) const override { return kind == ImageKind::kPtx; }
  std::vector<std::string> options(const CompileRequest& request) const override;
  Result<Image> compile(const CompileRequest& request) const override;

 private:
  LlvmLibrary llvm_;
  std::string version_;
};

std::vector<std::string> LlvmCompiler::options(const CompileRequest& request) const {
  std::vector<std::string> options = {"-triple", "nvptx64-nvidia-cuda", "-target-cpu",
                                      request.target.name(), "-target-feature", kPtxFeature,
                                      "-fcuda-is-device", "-S", "-O3", "-std=c++17", "-x", "cuda",
                                      // Contracts a * b + c across statements, as NVRTC does.
                                      "-ffp-contract=fast",
                                      // Sources are self-contained, so there is no other file.
                                      "-nostdsysteminc", "-nobuiltininc", "-nostdinc++",
                                      // nvcc accepts #pragma unroll (4); clang accepts it and
                                      // warns.
                                      "-Wno-cuda-compat"};
  for (const std::string& option : request.extra_options) {
    options.push_back(translate_option(option));
  }
  return options;
}

Status check_request(const CompileRequest& request) {
  if (request.kind != ImageKind::kPtx) {
    return unsupported(fmt::format("kernel {}: image = {}: the llvm compiler makes ptx only",
                                   request.name, image_kind_name(request.kind)));
  }
  const std::string target = request.target.name();
  if (std::find(std::begin(kTargets), std::end(kTargets), target) == std::end(kTargets)) {
    return unsupported(fmt::format(
        "target = {}: the llvm compiler (LLVM 19) knows {}; use nvrtc, or target sm_90, whose PTX "
        "the driver of a later GPU takes too",
        target, fmt::join(kTargets, ", ")));
  }
  return {};
}

Result<Image> LlvmCompiler::compile(const CompileRequest& request) const {
  LSSAR_RETURN_IF_ERROR(check_request(request));
  const std::string file_name = request.name + ".cu";
  const std::vector<std::string> all_options = options(request);
  std::vector<const char*> pointers;
  for (const std::string& option : all_options) pointers.push_back(option.c_str());
  lssar_llvm_request wanted = {};
  wanted.file_name = file_name.c_str();
  wanted.source = request.source.c_str();
  wanted.source_bytes = request.source.size();
  wanted.options = pointers.data();
  wanted.num_options = pointers.size();

  lssar_llvm_result result = {};
  llvm_.compile(&wanted, &result);
  Image image;
  image.kind = ImageKind::kPtx;
  image.target = request.target.name();
  if (result.ptx != nullptr) image.bytes.assign(result.ptx, result.ptx_bytes);
  if (result.log != nullptr) image.log.assign(result.log, result.log_bytes);
  const bool done = result.outcome == LSSAR_LLVM_DONE && !image.bytes.empty();
  llvm_.release(&result);  // clears the outcome too
  if (!done) return compile_failure(*this, request, image.log);
  return image;
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
      // Found from a program in libexec/lssar.
      candidates.push_back(fmt::format("{}/../../{}/{}", here, folder, kLibraryName));
    }
  }
  candidates.push_back(fmt::format("{}/{}", LSSAR_INSTALL_FULL_LIBDIR, kLibraryName));
  candidates.push_back(kLibraryName);
  return candidates;
}

Result<std::shared_ptr<const Compiler>> make_llvm_compiler() {
  LSSAR_ASSIGN_OR_RETURN(LlvmLibrary llvm, open_llvm_library());
  std::shared_ptr<const Compiler> compiler = std::make_shared<LlvmCompiler>(std::move(llvm));
  log(LogLevel::kInfo,
      fmt::format("compiler llvm {} from {}", compiler->version(), compiler->path()));
  return compiler;
}

}  // namespace lssar
