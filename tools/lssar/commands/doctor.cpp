// lssar doctor: what is on this machine, and how to get what is missing.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tools/lssar/commands/doctor_report.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

using nlohmann::json;

// Prints further lines of `state` (what was tried, for example) under its first.
void print_row(const std::string& what, std::string state) {
  constexpr const char* kIndent = "\n               ";
  for (size_t at = state.find('\n'); at != std::string::npos; at = state.find('\n', at + 1)) {
    state.replace(at, 1, kIndent);
  }
  print_text("  {:<12} {}\n", what, state);
}

std::string text_of(const json& value) { return value.get<std::string>(); }

// Prints `found`, unless there is a problem.
void print_state(const std::string& what, const json& row, const std::string& found) {
  const std::string problem = text_of(row.at("problem"));
  print_row(what, problem.empty() ? found : problem);
}

void print_compilers(const json& compilers) {
  print_text("Compilers\n");
  for (const json& row : compilers) {
    print_state(text_of(row.at("name")), row,
                text_of(row.at("version")) + "  " + text_of(row.at("path")));
  }
}

std::string cpu_text(const json& cpu) {
  const auto kib = [&](const char* name) { return cpu.at(name).get<int64_t>() / 1024; };
  const auto rate = [&](const char* name) { return cpu.at(name).get<double>(); };
  const double pairs = rate("pair_gflops_per_core");
  const std::string of_pairs = pairs == 0 ? "" : fmt::format(", {:.1f} in pairs of bf16", pairs);
  return fmt::format(
      "{}, {} cores, of which {} may be used\n{}: {}\ncaches (0: not known): {} and {} KiB per "
      "core, {} KiB shared\nmeasured now, one core: {:.1f} GFLOP/s in float32{}; reads {:.0f} GB/s "
      "from the second-level cache, {:.0f} from the third, {:.0f} from memory",
      text_of(cpu.at("name")), cpu.at("cores").get<int>(), cpu.at("threads").get<int>(),
      text_of(cpu.at("target")), text_of(cpu.at("instructions")), kib("l1_bytes"), kib("l2_bytes"),
      kib("l3_bytes"), rate("fma_gflops_per_core"), of_pairs, rate("l2_gbps_per_core"),
      rate("l3_gbps_per_core"), rate("memory_gbps_per_core"));
}

void print_devices(const json& report) {
  print_text("Devices\n");
  const json& gpus = report.at("gpus");
  if (const std::string problem = text_of(report.at("gpus_problem")); !problem.empty())
    print_row("cuda", problem);
  for (size_t i = 0; i < gpus.size(); ++i) {
    const json& gpu = gpus[i];
    print_row(fmt::format("cuda {}", i),
              fmt::format("{}, {} SMs, driver {}\n{}\n{}", text_of(gpu.at("name")),
                          gpu.at("sms").get<int>(), text_of(gpu.at("driver")),
                          text_of(gpu.at("limits")), text_of(gpu.at("kernels"))));
  }
  const json& cpu = report.at("cpu");
  print_state("cpu", cpu, cpu_text(cpu));
  const json& device = report.at("virtual");
  print_state(
      "virtual", device,
      fmt::format("{}, {} threads", text_of(device.at("name")), device.at("threads").get<int>()));
}

void print_places(const json& report) {
  print_text("Cache\n");
  const json& cache = report.at("cache");
  for (const json& row : cache.at("layers"))
    print_state("layer", row, text_of(row.at("path")) + ", " + text_of(row.at("kind")));
  constexpr double kMiB = 1 << 20;
  print_state(
      "directory", cache,
      fmt::format("{}, usable, {} files, {:.1f} MiB", text_of(cache.at("directory")),
                  cache.at("files").get<uint64_t>(), cache.at("bytes").get<uint64_t>() / kMiB));
  print_text("Tuning\n");
  const json& table = report.at("tuning_table");
  print_state("table", table,
              fmt::format("{}, {} records", text_of(table.at("path")),
                          table.at("records").get<uint64_t>()));
  print_state("worker", report.at("tune_worker"), text_of(report.at("tune_worker").at("path")));
  print_text("Inspection\n");
  print_state("disassembler", report.at("disassembler"),
              text_of(report.at("disassembler").at("path")));
}

void print_environment(const json& report) {
  print_text("Environment\n");
  const json& unknown = report.at("unknown_variables");
  for (const auto& [name, value] : report.at("environment").items()) {
    print_text("  {}={}", name, text_of(value));
    if (unknown.contains(name)) {
      const auto similar = unknown.at(name).get<std::vector<std::string>>();
      print_text("  (lssar has no such variable{}{}{})", similar.empty() ? "" : ": did you mean ",
                 fmt::join(similar, " or "), similar.empty() ? "" : "?");
    }
    print_text("\n");
  }
  if (report.at("environment").empty()) print_text("  no variable LSSAR_... is set\n");
}

void print_findings(const json& report) {
  print_text("lssar {}\n", text_of(report.at("version")));
  print_compilers(report.at("compilers"));
  print_devices(report);
  print_places(report);
  print_environment(report);
}

Result<int> doctor(bool as_json) {
  const json report = doctor_report();
  if (as_json) {
    print_json(report);
  } else {
    print_findings(report);
  }
  if (!report.at("can_compile").get<bool>())
    return missing("no compiler: neither NVRTC nor LLVM was found (see above)");
  if (!report.at("can_run").get<bool>())
    return missing("no device: the virtual device cannot be opened (see above)");
  return static_cast<int>(kDone);
}

}  // namespace

void add_doctor(CLI::App& app, Action* action) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* sub = app.add_subcommand(
      "doctor", "Say which compilers, devices, cache, tuning table and tools are found here");
  sub->add_flag("--json", *as_json, "print one JSON object instead of text")->group("Output");
  sub->footer(
      "\nExits 3 where kernels cannot be compiled or run at all.\n\nExample:\n"
      "  lssar doctor\n\n" +
      exit_code_help());
  sub->callback([as_json, action] { *action = [as_json] { return doctor(*as_json); }; });
}

}  // namespace lssar::command
