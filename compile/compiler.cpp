#include "compile/compiler.h"

#include <fmt/format.h>

#include "base/open_once.h"
#include "compile/llvm_compiler.h"
#include "compile/nvrtc_compiler.h"
#include "compile/shipped_kernels.h"

namespace lssar {
namespace {

using CompilerResult = Result<std::shared_ptr<const Compiler>>;

using KeptCompiler = OpenOnce<std::shared_ptr<const Compiler>>;

CompilerResult open_nvrtc() {
  static auto* const kept = new KeptCompiler(make_nvrtc_compiler);
  return kept->get();
}

CompilerResult open_llvm() {
  static auto* const kept = new KeptCompiler(make_llvm_compiler);
  return kept->get();
}

CompilerResult open_shipped() {
  static auto* const kept = new KeptCompiler(make_shipped_compiler);
  return kept->get();
}

CompilerReport report(const std::string& name, const CompilerResult& opened) {
  CompilerReport report;
  report.name = name;
  report.found = opened.ok();
  if (opened.ok()) {
    report.version = (*opened)->version();
    report.path = (*opened)->path();
  } else {
    report.error = opened.status().message();
  }
  return report;
}

}  // namespace

const char* image_kind_name(ImageKind kind) {
  switch (kind) {
    case ImageKind::kPtx:
      return "ptx";
    case ImageKind::kCubin:
      return "cubin";
    case ImageKind::kObject:
      return "object";
  }
  return "unknown";
}

Result<CompilerChoice> parse_compiler_choice(const std::string& name) {
  if (name == "auto") return CompilerChoice::kAuto;
  if (name == "nvrtc") return CompilerChoice::kNvrtc;
  if (name == "llvm") return CompilerChoice::kLlvm;
  return invalid_argument(fmt::format("compiler = {}: allowed are auto, nvrtc, llvm", name));
}

Result<std::shared_ptr<const Compiler>> open_compiler(CompilerChoice choice) {
  if (choice == CompilerChoice::kLlvm) return open_llvm();
  CompilerResult nvrtc = open_nvrtc();
  if (nvrtc.ok() || choice == CompilerChoice::kNvrtc) return nvrtc;
  CompilerResult llvm = open_llvm();
  if (llvm.ok()) return llvm;
  return missing(
      fmt::format("no compiler. {}\n{}", nvrtc.status().message(), llvm.status().message()));
}

Result<std::shared_ptr<const Compiler>> open_compiler_for(CompilerChoice choice, ImageKind kind) {
  if (kind != ImageKind::kObject) return open_compiler(choice);
  if (choice == CompilerChoice::kNvrtc) {
    return unsupported(
        "compiler = nvrtc: it makes code for GPUs only; the kernels of a CPU target need llvm");
  }
  CompilerResult llvm = open_llvm();
  if (llvm.ok() || choice == CompilerChoice::kLlvm) return llvm;
  CompilerResult shipped = open_shipped();
  return shipped.ok() ? shipped : llvm;
}

std::vector<CompilerReport> list_compilers() {
  return {report("nvrtc", open_nvrtc()), report("llvm", open_llvm()),
          report("shipped", open_shipped())};
}

}  // namespace lssar
