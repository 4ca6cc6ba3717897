// Compilers: source in, an image out. They are found at run time: NVRTC (opened with dlopen) and
// LLVM (clang 19, in a library of its own). A third, "shipped", only looks up kernels of CPU
// targets.
//
// Threads: a Compiler may be used from any number of threads at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "codegen/target.h"

namespace lssar {

enum class ImageKind {
  kPtx,
  kCubin,
  kObject,  // ELF of the host's architecture
};
const char* image_kind_name(ImageKind kind);  // "ptx", "cubin", "object"

// What one kernel of an image needs, as its assembler reported; -1 = not known (PTX).
struct KernelResources {
  std::string entry;
  int registers = -1;
  int shared_bytes = -1;       // static
  int local_bytes = -1;        // stack frame per thread
  int spill_store_bytes = -1;  // local memory that the source did not ask for
  int spill_load_bytes = -1;
};

struct Image {
  ImageKind kind = ImageKind::kPtx;
  std::string target;  // "sm_80"
  std::string bytes;   // PTX text without a trailing NUL, or an ELF
  std::string log;     // what the compiler said, including warnings
  std::vector<KernelResources> resources;
  // The assembler's messages about a cubin's wgmma and setmaxnreg, "(C7510) Potential Performance
  // Loss: ...", in order. They mean that the code waits where the source does not, or has other
  // registers than the source asked for. No default schedule and no tuning candidate may have any.
  std::vector<std::string> assembler_warnings;
};

struct CompileRequest {
  std::string name;    // for messages and dumped files
  std::string source;  // self-contained CUDA C++, for a CPU target C++
  Target target;
  ImageKind kind = ImageKind::kPtx;
  std::vector<std::string> extra_options;  // e.g. "-lineinfo"
};

class Compiler {
 public:
  virtual ~Compiler() = default;

  virtual std::string name() const = 0;     // "nvrtc", "llvm", "shipped"
  virtual std::string version() const = 0;  // "13.0.88", "19.1.7": part of the cache key
  virtual std::string path() const = 0;     // the shared library in use
  virtual bool can_make(ImageKind kind) const = 0;

  // The options that shape the image, without paths, in one canonical order: part of the key.
  virtual std::vector<std::string> options(const CompileRequest& request) const = 0;

  // kCompileError carries the kernel's name, the options, the whole log and the path of the dumped
  // source (LSSAR_DUMP_DIR, else the system's temporary directory).
  virtual Result<Image> compile(const CompileRequest& request) const = 0;
};

enum class CompilerChoice { kAuto, kNvrtc, kLlvm };
Result<CompilerChoice> parse_compiler_choice(const std::string& name);  // "auto", "nvrtc", "llvm"

// kAuto takes NVRTC if it is found, else LLVM. kMissing says which names were tried and what to
// install. Opened once per process and kept. LSSAR_NVRTC_PATH and LSSAR_LLVM_PATH name the only
// library to try ("none" hides the compiler).
Result<std::shared_ptr<const Compiler>> open_compiler(CompilerChoice choice);

// The compiler for images of `kind`. Only LLVM compiles objects. Without it kAuto takes the kernels
// that were compiled when lssar was packaged (compile/shipped_kernels.h), if there are any.
// kUnsupported if the choice makes no such image at all.
Result<std::shared_ptr<const Compiler>> open_compiler_for(CompilerChoice choice, ImageKind kind);

// What was found of one compiler; for `lssar doctor`.
struct CompilerReport {
  std::string name;  // "nvrtc", "llvm", "shipped"
  bool found = false;
  std::string version;
  std::string path;
  std::string error;  // if not found: what was tried, and what to install
};

// Opens every compiler; nvrtc first.
std::vector<CompilerReport> list_compilers();

}  // namespace lssar
