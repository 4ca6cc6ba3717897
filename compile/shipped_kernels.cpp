#include "compile/shipped_kernels.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "base/log.h"
#include "base/open_once.h"
#include "cache/sha256.h"
#include "codegen/emit.h"
#include "compile/beside.h"
#include "compile/shipped_abi.h"

namespace lssar {
namespace {

constexpr const char* kKernelsName = "liblssar_kernels.so";
// An image is this and the kernel's name. No object begins like it.
constexpr std::string_view kImagePrefix = "lssar shipped kernel ";

struct ShippedLibrary {
  DynamicLibrary handle;
  const lssar_shipped_table* table = nullptr;
};

Result<ShippedLibrary> bind_shipped(const std::string& path) {
  ShippedLibrary shipped;
  LSSAR_ASSIGN_OR_RETURN(shipped.handle, DynamicLibrary::open(path));
  decltype(&lssar_shipped_kernels) table = nullptr;
  if (!bind_symbol(shipped.handle, "lssar_shipped_kernels", table))
    return missing("not the kernels of lssar (a function is missing)");
  shipped.table = table();
  if (shipped.table->abi_version != LSSAR_SHIPPED_ABI_VERSION)
    return missing(fmt::format("interface version {} instead of {}: from another build of lssar",
                               shipped.table->abi_version, LSSAR_SHIPPED_ABI_VERSION));
  return shipped;
}

Result<ShippedLibrary> find_shipped() {
  std::string tried;
  for (const std::string& candidate : candidates_beside_code(kKernelsName)) {
    Result<ShippedLibrary> shipped = bind_shipped(candidate);
    if (shipped.ok()) return shipped;
    tried += fmt::format("\n  {}: {}", candidate, shipped.status().message());
  }
  return missing(fmt::format("no shipped kernels were found. Tried:{}", tried));
}

Result<ShippedLibrary> shipped_library() {
  static auto* const kept = new OpenOnce<ShippedLibrary>(find_shipped);
  return kept->get();
}

// The functions of one kernel.
std::pair<const lssar_shipped_function*, const lssar_shipped_function*> functions_of(
    const lssar_shipped_table& table, std::string_view kernel) {
  struct ByKernel {
    bool operator()(const lssar_shipped_function& f, std::string_view name) const {
      return f.kernel < name;
    }
    bool operator()(std::string_view name, const lssar_shipped_function& f) const {
      return name < f.kernel;
    }
  };
  return std::equal_range(table.functions, table.functions + table.num_functions, kernel,
                          ByKernel());
}

// Names the whole table, so that an image in the cache belongs to these kernels.
std::string version_of(const lssar_shipped_table& table) {
  std::string text = table.compiler;
  for (int i = 0; i < table.num_functions; ++i)
    text += fmt::format("\n{} {}", table.functions[i].kernel, table.functions[i].entry);
  return to_hex(sha256(text)).substr(0, kShownHashDigits);
}

class ShippedKernel final : public LoadedObject {
 public:
  ShippedKernel(const lssar_shipped_function* first, const lssar_shipped_function* last)
      : first_(first), last_(last) {}

  Result<void*> function(const std::string& name) const override {
    for (const lssar_shipped_function* f = first_; f != last_; ++f)
      if (f->entry == name) return reinterpret_cast<void*>(f->code);
    return device_error(fmt::format("{}: the shipped kernel has no such function", name));
  }

 private:
  const lssar_shipped_function* const first_;
  const lssar_shipped_function* const last_;
};

class ShippedCompiler final : public Compiler {
 public:
  explicit ShippedCompiler(ShippedLibrary shipped)
      : shipped_(std::move(shipped)), version_(version_of(*shipped_.table)) {}

  std::string name() const override { return "shipped"; }
  std::string version() const override { return version_; }
  std::string path() const override { return shipped_.handle.path(); }
  bool can_make(ImageKind kind) const override { return kind == ImageKind::kObject; }
  std::vector<std::string> options(const CompileRequest& request) const override {
    return request.extra_options;
  }

  Result<Image> compile(const CompileRequest& request) const override {
    const std::string kernel = shipped_kernel_name(request.source, request.target);
    const auto [first, last] = functions_of(*shipped_.table, kernel);
    if (first == last || !request.extra_options.empty())
      return missing(fmt::format(
          "kernel {} for {}: it is not among the shipped kernels ({}), so it needs the LLVM "
          "compiler, which is not here. `pip install lssar-llvm` brings it, or on Debian 12 `apt "
          "install libclang-cpp19 libllvm19` with a liblssar_llvm.so of your own build",
          request.name, request.target.name(), path()));
    Image image;
    image.kind = ImageKind::kObject;
    image.target = request.target.name();
    image.bytes = std::string(kImagePrefix) + kernel;
    return image;
  }

 private:
  const ShippedLibrary shipped_;
  const std::string version_;
};

}  // namespace

std::string shipped_kernel_name(const std::string& source, const Target& target) {
  // A level with a feature shares the kernels that do not use it with its architecture: their
  // sources are equal.
  return to_hex(sha256(cpu_level(target).architecture + ('\n' + source_without_header(source))));
}

Result<std::shared_ptr<const Compiler>> make_shipped_compiler() {
  LSSAR_ASSIGN_OR_RETURN(ShippedLibrary shipped, shipped_library());
  std::shared_ptr<const Compiler> compiler = std::make_shared<ShippedCompiler>(std::move(shipped));
  log(LogLevel::kInfo, fmt::format("kernels shipped in {}", compiler->path()));
  return compiler;
}

Result<std::unique_ptr<LoadedObject>> load_shipped(const std::string& bytes) {
  if (!bytes.starts_with(kImagePrefix)) return std::unique_ptr<LoadedObject>();
  LSSAR_ASSIGN_OR_RETURN(const ShippedLibrary shipped, shipped_library());
  const std::string kernel = bytes.substr(kImagePrefix.size());
  const auto [first, last] = functions_of(*shipped.table, kernel);
  if (first == last)
    return missing(fmt::format("kernel {} is not in {}", kernel, shipped.handle.path()));
  return std::unique_ptr<LoadedObject>(std::make_unique<ShippedKernel>(first, last));
}

}  // namespace lssar
