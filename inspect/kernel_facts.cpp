#include "inspect/kernel_facts.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lssar {
namespace {

const KernelResources* find_resources(const Image& image, const std::string& entry) {
  const auto found = std::find_if(image.resources.begin(), image.resources.end(),
                                  [&](const KernelResources& one) { return one.entry == entry; });
  return found == image.resources.end() ? nullptr : &*found;
}

// The cache has a file per entry, named after its key (docs/cache_format.md).
std::string entry_path(const Store& store, const std::string& key) {
  if (store.directory().empty()) return "";
  const std::string path = store.directory() + "/entries/" + key;
  std::error_code error;
  return std::filesystem::exists(path, error) ? path : "";
}

std::string count_text(int count) { return count < 0 ? "?" : fmt::format("{}", count); }

std::string cpu_facts_table(const KernelFacts& facts, size_t width) {
  std::string text = fmt::format("{:<{}} {:>14} {:>22}\n", "kernel", width, "rows per block",
                                 "scratch of a thread");
  for (const StepFacts& one : facts.steps)
    text += fmt::format("{:<{}} {:>14} {:>16.1f} KiB\n", one.step.entry, width,
                        one.step.rows_per_block, one.step.shared_bytes / 1024.0);
  return text;
}

nlohmann::json cpu_step_json(const StepFacts& one) {
  return {{"entry", one.step.entry},
          {"rows_per_block", one.step.rows_per_block},
          {"scratch_bytes", one.step.shared_bytes}};
}

}  // namespace

Result<KernelFacts> kernel_facts(Engine& engine, const Problem& problem, const Schedule& schedule) {
  LSSAR_ASSIGN_OR_RETURN(KernelSource source,
                         emit_kernel(problem, schedule, engine.device().info().target));
  return kernel_facts(engine, problem, schedule, std::move(source));
}

Result<KernelFacts> kernel_facts(Engine& engine, const Problem& problem, const Schedule& schedule,
                                 KernelSource source) {
  const Target& target = engine.device().info().target;
  KernelFacts facts;
  facts.source = std::move(source);
  LSSAR_ASSIGN_OR_RETURN(const auto compiler, engine.compiler());
  const ImageKind kind = target.is_cpu()                         ? ImageKind::kObject
                         : compiler->can_make(ImageKind::kCubin) ? ImageKind::kCubin
                                                                 : ImageKind::kPtx;
  LSSAR_ASSIGN_OR_RETURN(CompiledImage compiled,
                         engine.compile(problem, schedule, facts.source, kind));
  facts.image = std::move(compiled.image);
  facts.key = std::move(compiled.key);
  facts.compiler = compiler->name() + " " + compiler->version();
  facts.cache_source = compiled.cache_source;
  facts.compile_ms = compiled.timings.compile_ms;
  facts.image_path = entry_path(engine.store(), facts.key);
  for (const LaunchStep& step : facts.source.steps) {
    StepFacts one;
    one.step = step;
    if (const KernelResources* found = find_resources(facts.image, step.entry))
      one.resources = *found;
    if (!target.is_cpu())
      one.occupancy = occupancy(target, step.threads, one.resources.registers,
                                step.shared_bytes + std::max(0, one.resources.shared_bytes));
    facts.steps.push_back(std::move(one));
  }
  return facts;
}

std::string facts_table(const KernelFacts& facts) {
  size_t width = 6;
  for (const StepFacts& one : facts.steps) width = std::max(width, one.step.entry.size());
  if (facts.image.kind == ImageKind::kObject) return cpu_facts_table(facts, width);
  std::string text = fmt::format("{:<{}} {:>7} {:>9} {:>7} {:>7}  {:<22} limited by\n", "kernel",
                                 width, "threads", "registers", "spilt", "shared", "occupancy");
  for (const StepFacts& one : facts.steps) {
    const KernelResources& r = one.resources;
    const int spilt = r.spill_store_bytes < 0 ? -1 : r.spill_store_bytes + r.spill_load_bytes;
    const std::string held = fmt::format("{} x {} warps of {}", one.occupancy.blocks,
                                         (one.step.threads + 31) / 32, one.occupancy.most_warps);
    text +=
        fmt::format("{:<{}} {:>7} {:>9} {:>7} {:>7}  {:<22} {}\n", one.step.entry, width,
                    one.step.threads, count_text(r.registers), count_text(spilt),
                    one.step.shared_bytes + std::max(0, r.shared_bytes), held, one.occupancy.limit);
  }
  if (facts.image.kind == ImageKind::kPtx) {
    text += "Registers and spills are not known: " + facts.compiler +
            " makes PTX, and the driver its machine code; with NVRTC they are\n";
  }
  for (const std::string& warning : facts.image.assembler_warnings) text += warning + "\n";
  return text;
}

nlohmann::json to_json(const KernelFacts& facts) {
  nlohmann::json json = {
      {"name", facts.source.name},         {"key", facts.key},
      {"compiler", facts.compiler},        {"image", image_kind_name(facts.image.kind)},
      {"image_path", facts.image_path},    {"assembler_warnings", facts.image.assembler_warnings},
      {"kernels", nlohmann::json::array()}};
  for (const StepFacts& one : facts.steps) {
    if (facts.image.kind == ImageKind::kObject) {
      json["kernels"].push_back(cpu_step_json(one));
      continue;
    }
    const KernelResources& r = one.resources;
    nlohmann::json kernel = {{"entry", one.step.entry},
                             {"threads", one.step.threads},
                             {"dynamic_shared_bytes", one.step.shared_bytes},
                             {"cluster", one.step.cluster},
                             {"blocks_per_sm", one.occupancy.blocks},
                             {"warps_per_sm", one.occupancy.warps},
                             {"most_warps_per_sm", one.occupancy.most_warps},
                             {"occupancy_limit", one.occupancy.limit}};
    const std::pair<const char*, int> counts[] = {{"registers", r.registers},
                                                  {"static_shared_bytes", r.shared_bytes},
                                                  {"local_bytes", r.local_bytes},
                                                  {"spill_store_bytes", r.spill_store_bytes},
                                                  {"spill_load_bytes", r.spill_load_bytes}};
    for (const auto& [name, count] : counts) {
      kernel[name] = count < 0 ? nlohmann::json() : nlohmann::json(count);
    }
    json["kernels"].push_back(std::move(kernel));
  }
  return json;
}

}  // namespace lssar
