#include "compile/nvrtc_compiler.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "compile/compile_failure.h"
#include "compile/cubin_info.h"
#include "compile/nvrtc_library.h"
#include "compile/ptxas_log.h"

namespace lssar {
namespace {

// Options that only newer NVRTCs know. They are probed when the library is opened.
//   -minimal: no texture or runtime types, 20 ms less in the front end (NVRTC 13.0, 2026-11).
//   -no-cache: NVRTC's own disk cache would only duplicate ours.
constexpr const char* kOptionalOptions[] = {"-minimal", "-no-cache"};

// 3/5 of the time to compile, for kernels that run slower (NVRTC 13). It puts arrays into local
// memory, where a wgmma in flight must not have its accumulators: targets with a suffix, which have
// wgmma, do without it.
constexpr const char* kFastOption = "-Ofc=mid";

Result<bool> wants_fast_compile() {
  const char* value = std::getenv("LSSAR_FAST_COMPILE");
  const std::string wanted = value == nullptr ? "" : value;
  if (wanted == "1") return true;
  if (wanted.empty() || wanted == "0") return false;
  return invalid_argument(fmt::format("LSSAR_FAST_COMPILE = {}: allowed are 0 and 1", wanted));
}

constexpr const char* kProbeSource = "extern \"C\" __global__ void probe() {}\n";

// Destroys the program at the end of its scope.
class Program {
 public:
  explicit Program(const NvrtcLibrary& nvrtc) : nvrtc_(nvrtc) {}
  ~Program() {
    if (handle_ != nullptr) nvrtc_.destroy_program(&handle_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  NvrtcResult create(const std::string& source, const std::string& name) {
    return nvrtc_.create_program(&handle_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  }

  NvrtcResult compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return nvrtc_.compile_program(handle_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string log() const { return text(nvrtc_.get_log_size, nvrtc_.get_log); }
  std::string ptx() const { return text(nvrtc_.get_ptx_size, nvrtc_.get_ptx); }
  std::string cubin() const { return bytes(nvrtc_.get_cubin_size, nvrtc_.get_cubin); }

 private:
  using SizeFunction = NvrtcResult (*)(NvrtcProgram, size_t*);
  using BytesFunction = NvrtcResult (*)(NvrtcProgram, char*);

  // Empty if NVRTC has nothing to return.
  std::string bytes(SizeFunction get_size, BytesFunction get) const {
    size_t size = 0;
    if (get_size(handle_, &size) != kNvrtcSuccess || size == 0) return "";
    std::string result(size, '\0');
    if (get(handle_, result.data()) != kNvrtcSuccess) return "";
    return result;
  }

  std::string text(SizeFunction get_size, BytesFunction get) const {
    std::string result = bytes(get_size, get);
    while (!result.empty() && result.back() == '\0') result.pop_back();
    return result;
  }

  const NvrtcLibrary& nvrtc_;
  NvrtcProgram handle_ = nullptr;
};

// "13.0.88" from the PTX comment "// Cuda compilation tools, release 13.0, V13.0.88"; "" without
// that comment.
std::string version_in_ptx(const std::string& ptx) {
  const std::string marker = ", V";
  const size_t line = ptx.find("compilation tools");
  const size_t begin = line == std::string::npos ? line : ptx.find(marker, line);
  if (begin == std::string::npos) return "";
  const size_t first = begin + marker.size();
  const size_t end = ptx.find_first_not_of("0123456789.", first);
  return ptx.substr(first, end == std::string::npos ? end : end - first);
}

class NvrtcCompiler final : public Compiler {
 public:
  // What the probe learned about the library.
  struct Facts {
    std::string version;
    std::vector<int> architectures;  // 80, 86, ...
    std::vector<std::string> optional_options;
    bool compiles_fast = false;  // with kFastOption
  };

  NvrtcCompiler(NvrtcLibrary nvrtc, Facts facts)
      : nvrtc_(std::move(nvrtc)), facts_(std::move(facts)) {}

  std::string name() const override { return "nvrtc"; }
  std::string version() const override { return facts_.version; }
  std::string path() const override { return nvrtc_.library.path(); }
  bool can_make(ImageKind) const override { return true; }
  std::vector<std::string> options(const CompileRequest& request) const override;
  Result<Image> compile(const CompileRequest& request) const override;

 private:
  Status check_target(const Target& target) const;

  NvrtcLibrary nvrtc_;
  Facts facts_;
};

std::vector<std::string> NvrtcCompiler::options(const CompileRequest& request) const {
  std::string architecture = request.target.name();
  if (request.kind == ImageKind::kPtx) architecture.replace(0, 3, "compute_");  // instead of "sm_"
  std::vector<std::string> options = {"--gpu-architecture=" + architecture, "-std=c++17"};
  // Only the assembler's report has spills and assembler_warnings.
  if (request.kind == ImageKind::kCubin) options.push_back("--ptxas-options=-v");
  options.insert(options.end(), facts_.optional_options.begin(), facts_.optional_options.end());
  if (facts_.compiles_fast && request.target.suffix.empty()) options.push_back(kFastOption);
  options.insert(options.end(), request.extra_options.begin(), request.extra_options.end());
  return options;
}

Status NvrtcCompiler::check_target(const Target& target) const {
  const int architecture = target.major * 10 + target.minor;
  const std::vector<int>& known = facts_.architectures;
  if (std::find(known.begin(), known.end(), architecture) != known.end()) return {};
  return unsupported(fmt::format("target = {}: nvrtc {} compiles for sm_{}", target.name(),
                                 facts_.version, fmt::join(known, ", sm_")));
}

Result<Image> NvrtcCompiler::compile(const CompileRequest& request) const {
  LSSAR_RETURN_IF_ERROR(check_target(request.target));
  Program program(nvrtc_);
  NvrtcResult result = program.create(request.source, request.name + ".cu");
  if (result != kNvrtcSuccess) {
    return internal_error(fmt::format("kernel {}: nvrtcCreateProgram: {}", request.name,
                                      nvrtc_.get_error_string(result)));
  }
  result = program.compile(options(request));
  Image image;
  image.kind = request.kind;
  image.target = request.target.name();
  image.log = program.log();
  if (result == kNvrtcOutOfMemory) {
    return out_of_memory(
        fmt::format("kernel {}: nvrtcCompileProgram: out of memory", request.name));
  }
  if (result != kNvrtcSuccess) {
    return compile_failure(
        *this, request,
        fmt::format("nvrtcCompileProgram: {}\n{}", nvrtc_.get_error_string(result), image.log));
  }
  image.bytes = request.kind == ImageKind::kPtx ? program.ptx() : program.cubin();
  if (image.bytes.empty()) {
    return compile_failure(
        *this, request,
        fmt::format("no {} came out\n{}", image_kind_name(request.kind), image.log));
  }
  if (request.kind == ImageKind::kCubin) {
    image.assembler_warnings = parse_assembler_warnings(image.log);
    const std::vector<KernelResources> report = parse_ptxas_log(image.log);
    Result<std::vector<KernelResources>> resources = read_cubin_resources(image.bytes);
    if (resources.ok()) {
      image.resources = std::move(*resources);
      add_ptxas_report(report, &image.resources);
    } else {
      // A newer NVRTC may write what we cannot read. The driver still can, and the report has the
      // other figures.
      log(LogLevel::kWarning,
          fmt::format("kernel {}: {}", request.name, resources.status().message()));
      image.resources = report;
    }
  }
  return image;
}

std::vector<int> supported_architectures(const NvrtcLibrary& nvrtc) {
  int count = 0;
  if (nvrtc.get_num_supported_archs(&count) != kNvrtcSuccess || count <= 0) return {};
  std::vector<int> architectures(static_cast<size_t>(count));
  if (nvrtc.get_supported_archs(architectures.data()) != kNvrtcSuccess) return {};
  return architectures;
}

NvrtcResult compile_probe(Program& program, const std::vector<std::string>& options) {
  const NvrtcResult result = program.create(kProbeSource, "probe.cu");
  return result == kNvrtcSuccess ? program.compile(options) : result;
}

bool knows_option(const NvrtcLibrary& nvrtc, const char* option) {
  Program program(nvrtc);
  return compile_probe(program, {option, "--fdevice-syntax-only"}) == kNvrtcSuccess;
}

// The options of kOptionalOptions that this NVRTC knows, tried one by one.
std::vector<std::string> known_options(const NvrtcLibrary& nvrtc) {
  std::vector<std::string> known;
  for (const char* option : kOptionalOptions)
    if (knows_option(nvrtc, option)) known.push_back(option);
  return known;
}

// Compiles an empty kernel. This shows that the library works, what its full version is (the
// interface has only major.minor), and which optional options it knows. It usually knows all of
// them, so one compile is enough.
Result<NvrtcCompiler::Facts> probe(const NvrtcLibrary& nvrtc) {
  NvrtcCompiler::Facts facts;
  facts.architectures = supported_architectures(nvrtc);
  facts.optional_options.assign(std::begin(kOptionalOptions), std::end(kOptionalOptions));
  auto program = std::make_unique<Program>(nvrtc);
  NvrtcResult result = compile_probe(*program, facts.optional_options);
  if (result != kNvrtcSuccess) {
    facts.optional_options = known_options(nvrtc);
    program = std::make_unique<Program>(nvrtc);
    result = compile_probe(*program, facts.optional_options);
  }
  if (result != kNvrtcSuccess) {
    return missing(fmt::format("{} was found but does not compile an empty kernel: {}\n{}",
                               nvrtc.library.path(), nvrtc.get_error_string(result),
                               program->log()));
  }
  LSSAR_ASSIGN_OR_RETURN(const bool wants_fast, wants_fast_compile());
  facts.compiles_fast = wants_fast && knows_option(nvrtc, kFastOption);
  facts.version = version_in_ptx(program->ptx());
  if (facts.version.empty()) {
    int major = 0;
    int minor = 0;
    (void)nvrtc.version(&major, &minor);
    facts.version = fmt::format("{}.{}", major, minor);
  }
  return facts;
}

}  // namespace

Result<std::shared_ptr<const Compiler>> make_nvrtc_compiler() {
  LSSAR_ASSIGN_OR_RETURN(NvrtcLibrary nvrtc, open_nvrtc_library());
  LSSAR_ASSIGN_OR_RETURN(NvrtcCompiler::Facts facts, probe(nvrtc));
  std::shared_ptr<const Compiler> compiler =
      std::make_shared<NvrtcCompiler>(std::move(nvrtc), std::move(facts));
  log(LogLevel::kInfo,
      fmt::format("compiler nvrtc {} from {}", compiler->version(), compiler->path()));
  return compiler;
}

}  // namespace lssar
