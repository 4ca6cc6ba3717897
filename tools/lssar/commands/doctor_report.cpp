#include "tools/lssar/commands/doctor_report.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/measure/worker_runner.h"
#include "autotune/model/gpu_model.h"
#include "autotune/table/tuning_table.h"
#include "cache/store.h"
#include "codegen/schedule.h"
#include "compile/compiler.h"
#include "device/cpu/cpu_features.h"
#include "device/cpu/cpu_rates.h"
#include "device/device.h"
#include "inspect/disassembler.h"
#include "runtime/open_device.h"
#include "tools/lssar/commands/known_variables.h"
#include "tools/lssar/options/usage_error.h"

namespace lssar::command {
namespace {

using nlohmann::json;

// A missing compiler is no failure if the other can replace it. Its error says how to get it.
// "shipped" compiles nothing: it looks up kernels of the cpu device.
json compilers() {
  json list = json::array();
  for (const CompilerReport& compiler : list_compilers()) {
    list.push_back({{"name", compiler.name},
                    {"version", compiler.version},
                    {"path", compiler.path},
                    {"problem", compiler.found ? "" : "not found: " + compiler.error}});
  }
  return list;
}

std::string limits_text(const Target& target) {
  return fmt::format(
      "{}: {} KiB shared memory per block, {} KiB per SM; {} registers per thread, {} per SM; {} "
      "threads per SM",
      target.name(), target.shared_bytes_per_block / 1024, target.shared_bytes_per_sm / 1024,
      target.registers_per_thread, target.registers_per_sm, target.threads_per_sm);
}

// Which kernels the GPU gets, and which card's rates the cost model takes for it.
std::string kernels_text(const DeviceInfo& gpu) {
  const Result<GpuModel> model = gpu_model(gpu.target.name(), gpu.name, gpu.num_sms);
  if (!model.ok()) return model.status().message();
  const std::string estimates = "estimates as for " + model->name;
  if (default_schedule(Problem(), gpu.target).variant == Variant::kHopper)
    return "Hopper kernels (wgmma) in bf16 and fp16, portable ones in fp32; " + estimates;
  if (model->mma_sync == 1) return "portable kernels (mma.sync, at its full rate); " + estimates;
  return fmt::format(
      "portable kernels (mma.sync, at about {:.2g} of the tensor cores' rate, because no kernel "
      "uses this GPU's own instructions yet); {}",
      model->mma_sync, estimates);
}

void add_gpus(json* report) {
  json& list = (*report)["gpus"] = json::array();
  std::string problem;
  const Result<std::vector<DeviceInfo>> gpus = list_gpus();
  if (!gpus.ok()) {
    problem = "not found: " + gpus.status().message();
  } else if (gpus->empty()) {
    problem = "a driver, but no GPU of compute capability 8.0 or later";
  } else {
    for (const DeviceInfo& gpu : *gpus) {
      list.push_back({{"name", gpu.name},
                      {"sms", gpu.num_sms},
                      {"driver", gpu.driver},
                      {"target", gpu.target.name()},
                      {"limits", limits_text(gpu.target)},
                      {"kernels", kernels_text(gpu)}});
    }
  }
  (*report)["gpus_problem"] = problem;
}

json virtual_device() {
  const Result<std::shared_ptr<Device>> device = open_device(DeviceChoice::kVirtual);
  if (!device.ok())
    return {{"name", ""}, {"threads", 0}, {"problem", "not usable: " + device.status().message()}};
  const DeviceInfo& info = (*device)->info();
  return {{"name", info.name}, {"threads", info.num_sms}, {"problem", ""}};
}

// Those of the target's level and of the levels below it.
std::string instructions_of(const Target& target) {
  std::string text;
  for (const CpuLevel& level : cpu_levels()) {
    text += fmt::format("{}{}", text.empty() ? "" : "; ", level.instructions);
    if (level.name == target.cpu) break;
  }
  return text;
}

// The LLVM compiler makes and loads its kernels. If that is missing, the compiler's own row says
// so, and only shipped kernels run.
json cpu_device() {
  const Result<std::shared_ptr<Device>> device = open_device(DeviceChoice::kCpu);
  if (!device.ok())
    return {{"name", ""},
            {"threads", 0},
            {"cores", 0},
            {"target", ""},
            {"instructions", ""},
            {"l1_bytes", 0},
            {"l2_bytes", 0},
            {"l3_bytes", 0},
            {"fma_gflops_per_core", 0},
            {"pair_gflops_per_core", 0},
            {"l2_gbps_per_core", 0},
            {"l3_gbps_per_core", 0},
            {"memory_gbps_per_core", 0},
            {"problem", "not usable: " + device.status().message()}};
  const DeviceInfo& info = (*device)->info();
  const CpuFeatures& features = cpu_features();
  const CpuRates& rates = cpu_rates(info.target);
  return {{"name", info.name},
          {"threads", info.num_sms},
          {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"target", info.target.name()},
          {"instructions", instructions_of(info.target)},
          {"l1_bytes", features.l1_bytes},
          {"l2_bytes", features.l2_bytes},
          {"l3_bytes", features.l3_bytes},
          {"fma_gflops_per_core", rates.fma_gflops},
          {"pair_gflops_per_core", rates.pair_gflops},
          {"l2_gbps_per_core", rates.l2_gbps},
          {"l3_gbps_per_core", rates.l3_gbps},
          {"memory_gbps_per_core", rates.memory_gbps},
          {"problem", ""}};
}

struct DirectoryContent {
  uint64_t num_files = 0;
  uint64_t bytes = 0;
};

// What cannot be read counts as nothing, because other processes add and remove files meanwhile.
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

json cache() {
  const std::unique_ptr<Store> store = Store::open(CacheOptions{});
  json layers = json::array();
  for (const CacheLayer& layer : store->layers()) {
    layers.push_back({{"path", layer.path},
                      {"kind", layer.kind},
                      {"problem", layer.problem.empty() ? "" : "not used: " + layer.problem}});
  }
  const std::string directory = store->directory();
  std::string problem;
  if (directory.empty()) {
    const std::string reason = store->problem();
    problem = "none, kernels are kept in memory only";
    if (!reason.empty())
      problem += ": " + reason +
                 "\nto get one: set LSSAR_CACHE_DIR to a directory of yours that can be written";
  }
  const DirectoryContent content = directory.empty() ? DirectoryContent() : content_of(directory);
  return {{"layers", std::move(layers)},
          {"directory", directory},
          {"files", content.num_files},
          {"bytes", content.bytes},
          {"problem", problem}};
}

json tuning_table(const std::string& cache_directory) {
  const std::string path = default_table_path(cache_directory);
  json row = {{"path", path}, {"records", 0}, {"malformed_lines", 0}, {"problem", ""}};
  if (path.empty()) {
    row["problem"] = "none: LSSAR_TUNING_TABLE is none, or there is no cache directory";
    return row;
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    row["problem"] = path + ", not there yet: lssar tune makes it";
    return row;
  }
  const Result<TuningTable> table = TuningTable::load(path);
  if (!table.ok()) {
    row["problem"] = "not used: " + table.status().message();
    return row;
  }
  row["records"] = table->records().size();
  row["malformed_lines"] = table->defects().malformed_lines;
  if (table->defects().malformed_lines > 0) {
    row["problem"] =
        fmt::format("{}, {} records; {} lines are not records: {}", path, table->records().size(),
                    table->defects().malformed_lines, table->defects().first);
  }
  return row;
}

json program(const Result<std::string>& found) {
  return {{"path", found.ok() ? *found : ""},
          {"problem", found.ok() ? "" : "not found: " + found.status().message()}};
}

json environment_variables() {
  json set = json::object();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    if (!text.starts_with("LSSAR_") || equals == text.npos) continue;
    set[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  return set;
}

// Maps each set variable with an unknown name to the known names that may have been meant.
json unknown_variables(const json& set) {
  const std::vector<std::string>& known = known_variables();
  json unknown = json::object();
  for (const auto& [name, value] : set.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      unknown[name] = similar_words(name, known);
  }
  return unknown;
}

}  // namespace

json doctor_report() {
  json report = {{"version", LSSAR_COMMAND_VERSION}, {"compilers", compilers()}};
  add_gpus(&report);
  report["cpu"] = cpu_device();
  report["virtual"] = virtual_device();
  report["cache"] = cache();
  report["tuning_table"] = tuning_table(report["cache"]["directory"].get<std::string>());
  report["tune_worker"] = program(find_worker(""));
  report["disassembler"] = program(find_disassembler());
  report["environment"] = environment_variables();
  report["unknown_variables"] = unknown_variables(report["environment"]);
  bool can_compile = false;
  for (const json& row : report["compilers"])
    can_compile = can_compile || (row["problem"] == "" && row["name"] != "shipped");
  report["can_compile"] = can_compile;
  report["can_run"] = report["virtual"]["problem"] == "";
  return report;
}

}  // namespace lssar::command
