#include "compile/llvm_compiler.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "compile/compile_failure.h"
#include "compile/llvm_library.h"

namespace lssar {
namespace {

// The targets that LLVM 19 knows, and the PTX version to request: every driver since CUDA 12.0
// reads 8.0, and it has all instructions of these targets.
constexpr const char* kTargets[] = {"sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a"};
constexpr const char* kPtxFeature = "+ptx80";

// Translates nvcc's spelling of an option that both compilers have to clang's.
std::string translate_option(const std::string& option) {
  if (option == "-lineinfo" || option == "--generate-line-info") {
    return "-debug-info-kind=line-directives-only";
  }
  if (option == "--fmad=false") return "-ffp-contract=off";
  return option;
}

class LlvmCompiler final : public Compiler {
 public:
  explicit LlvmCompiler(LlvmLibrary llvm) : llvm_(std::move(llvm)), version_(llvm_.version()) {}

  std::string name() const override { return "llvm"; }
  std::string version() const override { return version_; }
  std::string path() const override { return llvm_.handle.path(); }
  bool can_make(ImageKind kind) const override { return kind != ImageKind::kCubin; }
  std::vector<std::string> options(const CompileRequest& request) const override;
  Result<Image> compile(const CompileRequest& request) const override;

 private:
  LlvmLibrary llvm_;
  std::string version_;
};

// For a CPU target: position-independent code that calls only memcpy, memmove, memset and
// sched_yield of a runtime library. a * b + c is contracted if it is one expression, whatever the
// optimizer does, so that all kernels of a target round alike. Only loops that ask for it are
// unrolled (LSSAR_UNROLL): the others take a third of the compile time, and no kernel is faster.
std::vector<std::string> host_options(const Target& target) {
  const CpuLevel& level = cpu_level(target);
  std::vector<std::string> options = {"-triple",
                                      "x86_64-unknown-linux-gnu",
                                      "-target-cpu",
                                      level.architecture,
                                      "-emit-obj",
                                      "-O3",
                                      "-std=c++17",
                                      "-x",
                                      "c++",
                                      "-ffp-contract=on",
                                      "-mrelocation-model",
                                      "pic",
                                      "-pic-level",
                                      "2",
                                      "-nostdsysteminc",
                                      "-nobuiltininc",
                                      "-nostdinc++",
                                      "-fno-unroll-loops",
                                      "-vectorize-loops",
                                      "-vectorize-slp"};
  if (*level.feature != 0) {
    options.push_back("-target-feature");
    options.push_back(fmt::format("+{}", level.feature));
  }
  return options;
}

std::vector<std::string> gpu_options(const Target& target) {
  return {"-triple", "nvptx64-nvidia-cuda", "-target-cpu", target.name(), "-target-feature",
          kPtxFeature, "-fcuda-is-device", "-S", "-O3", "-std=c++17", "-x", "cuda",
          // Contracts a * b + c across statements, as NVRTC does.
          "-ffp-contract=fast",
          // Sources are self-contained, so there is no other file.
          "-nostdsysteminc", "-nobuiltininc", "-nostdinc++",
          // nvcc accepts #pragma unroll (4); clang accepts it and warns.
          "-Wno-cuda-compat"};
}

std::vector<std::string> LlvmCompiler::options(const CompileRequest& request) const {
  std::vector<std::string> options =
      request.target.is_cpu() ? host_options(request.target) : gpu_options(request.target);
  for (const std::string& option : request.extra_options) {
    options.push_back(translate_option(option));
  }
  return options;
}

Status check_request(const CompileRequest& request) {
  const ImageKind kind = request.target.is_cpu() ? ImageKind::kObject : ImageKind::kPtx;
  const std::string target = request.target.name();
  if (request.kind != kind) {
    return unsupported(fmt::format("kernel {}: image = {}: for {} the llvm compiler makes only {}",
                                   request.name, image_kind_name(request.kind), target,
                                   image_kind_name(kind)));
  }
  if (request.target.is_cpu()) return {};
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
  const bool is_ptx = request.kind == ImageKind::kPtx;
  const std::string file_name = request.name + request.target.source_extension();
  const std::vector<std::string> all_options = options(request);
  std::vector<const char*> pointers;
  for (const std::string& option : all_options) pointers.push_back(option.c_str());
  lssar_llvm_request wanted = {};
  wanted.output = is_ptx ? LSSAR_LLVM_PTX : LSSAR_LLVM_OBJECT;
  wanted.file_name = file_name.c_str();
  wanted.source = request.source.c_str();
  wanted.source_bytes = request.source.size();
  wanted.options = pointers.data();
  wanted.num_options = pointers.size();

  lssar_llvm_result result = {};
  llvm_.compile(&wanted, &result);
  Image image;
  image.kind = request.kind;
  image.target = request.target.name();
  if (result.image != nullptr) image.bytes.assign(result.image, result.image_bytes);
  if (result.log != nullptr) image.log.assign(result.log, result.log_bytes);
  const bool done = result.outcome == LSSAR_LLVM_DONE && !image.bytes.empty();
  llvm_.release(&result);  // clears the outcome too
  if (!done) return compile_failure(*this, request, image.log);
  return image;
}

}  // namespace

Result<std::shared_ptr<const Compiler>> make_llvm_compiler() {
  LSSAR_ASSIGN_OR_RETURN(LlvmLibrary llvm, open_llvm_library());
  std::shared_ptr<const Compiler> compiler = std::make_shared<LlvmCompiler>(std::move(llvm));
  log(LogLevel::kInfo,
      fmt::format("compiler llvm {} from {}", compiler->version(), compiler->path()));
  return compiler;
}

}  // namespace lssar
