// lssar doctor: what is on this machine, and how to get what is missing.
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cache/store.h"
#include "runtime/compiler.h"
#include "runtime/device.h"
#include "tools/lssar/exit_code.h"
#include "tools/lssar/subcommands.h"

namespace lssar::command {
namespace {

// Further lines of `state` (what was tried, say) stand under its first.
void print_row(const std::string& what, std::string state) {
  constexpr const char* kIndent = "\n            ";
  for (size_t at = state.find('\n'); at != std::string::npos; at = state.find('\n', at + 1)) {
    state.replace(at, 1, kIndent);
  }
  fmt::print("  {:<9} {}\n", what, state);
}

// A compiler that is missing is no failure as long as the other can stand in for it; its error says
// how to get it.
bool print_compilers() {
  fmt::print("Compilers\n");
  bool any = false;
  for (const CompilerReport& compiler : list_compilers()) {
    print_row(compiler.name, compiler.found ? fmt::format("{}  {}", compiler.version, compiler.path)
                                            : "not found: " + compiler.error);
    any = any || compiler.found;
  }
  return any;
}

void print_limits(const Target& target) {
  print_row("", fmt::format("{}: {} KiB shared memory per block, {} KiB per SM; {} registers per "
                            "thread, {} per SM; {} threads per SM",
                            target.name(), target.shared_bytes_per_block / 1024,
                            target.shared_bytes_per_sm / 1024, target.registers_per_thread,
                            target.registers_per_sm, target.threads_per_sm));
}

void print_gpus() {
  const Result<std::vector<DeviceInfo>> gpus = list_gpus();
  if (!gpus.ok()) {
    print_row("cuda", "not found: " + gpus.status().message());
    return;
  }
  if (gpus->empty()) print_row("cuda", "a driver, but no GPU of compute capability 8.0 or later");
  for (size_t i = 0; i < gpus->size(); ++i) {
    const DeviceInfo& gpu = (*gpus)[i];
    print_row(fmt::format("cuda {}", i),
              fmt::format("{}, {} SMs, driver {}", gpu.name, gpu.num_sms, gpu.driver));
    print_limits(gpu.target);
  }
}

bool print_virtual_device() {
  const Result<std::shared_ptr<Device>> device = open_device(DeviceChoice::kVirtual);
  if (!device.ok()) {
    print_row("virtual", "not usable: " + device.status().message());
    return false;
  }
  const DeviceInfo& info = (*device)->info();
  print_row("virtual", fmt::format("{}, {} threads", info.name, info.num_sms));
  return true;
}

struct DirectoryContent {
  uint64_t num_files = 0;
  uint64_t bytes = 0;
};

// Whatever cannot be read counts as nothing: other processes add and remove files meanwhile.
DirectoryContent content_of(const std::string& directory) {
  namespace fs = std::filesystem;
  DirectoryContent content;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) continue;
    const uint64_t bytes = it->file_size(ignored);
    if (ignored) continue;
    ++content.num_files;
    content.bytes += bytes;
  }
  return content;
}

void print_cache() {
  fmt::print("Cache\n");
  const std::unique_ptr<Store> store = Store::open(CacheOptions{});
  for (const CacheLayer& layer : store->layers()) {
    print_row("layer", layer.problem.empty() ? fmt::format("{}, {}", layer.path, layer.kind)
                                             : "not used: " + layer.problem);
  }
  if (store->directory().empty()) {
    const std::string reason = store->problem();
    print_row("directory", "none, kernels are kept in memory only" +
                               (reason.empty() ? std::string() : ": " + reason));
    if (!reason.empty()) {
      print_row("", "to get one: set LSSAR_CACHE_DIR to a directory of yours that can be written");
    }
    return;
  }
  const DirectoryContent content = content_of(store->directory());
  print_row("directory", fmt::format("{}, usable, {} files, {:.1f} MiB", store->directory(),
                                     content.num_files, content.bytes / 1048576.0));
}

Result<int> doctor() {
  fmt::print("lssar {}\n", LSSAR_COMMAND_VERSION);
  const bool can_compile = print_compilers();
  fmt::print("Devices\n");
  print_gpus();
  const bool can_run = print_virtual_device();
  print_cache();
  if (!can_compile) return missing("no compiler: neither NVRTC nor LLVM was found (see above)");
  if (!can_run) return missing("no device: the virtual device cannot be opened (see above)");
  return static_cast<int>(kDone);
}

}  // namespace

void add_doctor(CLI::App& app, Action* action) {
  CLI::App* sub =
      app.add_subcommand("doctor", "Say which compilers, devices and cache are found here");
  sub->footer(
      "\nExits 3 where kernels cannot be compiled or run at all.\n\nExample:\n"
      "  lssar doctor\n\n" +
      exit_code_help());
  sub->callback([action] { *action = [] { return doctor(); }; });
}

}  // namespace lssar::command
