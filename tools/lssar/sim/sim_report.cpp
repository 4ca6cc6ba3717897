#include "tools/lssar/sim/sim_report.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "base/output_file.h"
#include "device/counters_text.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

std::string extents(const uint32_t (&v)[3]) {
  return fmt::format("{} x {} x {}", v[0], v[1], v[2]);
}

float element_value(const SimData& data, const std::vector<std::byte>& bytes, size_t element) {
  const size_t size = sim_type_bytes(data.argument.type);
  return decode_elements(data.argument.type, {bytes.data() + element * size, size})[0];
}

SimDifference compare_output(const SimData& data, const std::vector<std::byte>& first,
                             const std::vector<std::byte>& second) {
  const size_t size = sim_type_bytes(data.argument.type);
  SimDifference difference;
  for (size_t i = first.size() / size; i-- > 0;) {
    if (std::memcmp(first.data() + i * size, second.data() + i * size, size) == 0) continue;
    ++difference.elements;
    difference.element = i;
  }
  if (difference.elements == 0) return difference;
  difference.first_value = element_value(data, first, difference.element);
  difference.second_value = element_value(data, second, difference.element);
  return difference;
}

std::string describe(const SimLaunch& launch, const SimDifference& d) {
  return fmt::format("{} differs between seeds {} and {} in {} elements, first at {}: {} and {}",
                     launch.data[d.argument].argument.output_file, d.first_seed, d.second_seed,
                     d.elements, d.element, d.first_value, d.second_value);
}

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) result += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return result;
}

std::string describe_reports(size_t count) {
  return count == 0 ? "no report" : count == 1 ? "1 report:" : fmt::format("{} reports:", count);
}

// Prints which argument each address of a report belongs to.
void print_memory(std::FILE* to, const SimLaunch& launch, const SimRun& run) {
  for (size_t i = 0; i < launch.data.size(); ++i) {
    const SimData& data = launch.data[i];
    if (!data.has_memory()) continue;
    print_text(to, "  memory {:#x} to {:#x}: {}\n", run.memory[i], run.memory[i] + data.bytes,
               data.argument.text);
  }
}

nlohmann::json counters_to_json(const SimRun& run) {
  if (run.counters.counters.detailed) return counters_json({run.counters})["total"];
  return {{"warp_instructions", run.counters.counters.warp_instructions}};
}

nlohmann::json run_to_json(const SimRun& run) {
  return {{"seed", run.seed},
          {"ms", run.ms},
          {"counters", counters_to_json(run)},
          {"reports", run.reports}};
}

nlohmann::json outputs_to_json(const SimLaunch& launch, const SimResult& result) {
  nlohmann::json outputs = nlohmann::json::array();
  for (size_t i = 0; i < launch.data.size(); ++i) {
    const SimArgument& argument = launch.data[i].argument;
    if (!argument.writes) continue;
    outputs.push_back({{"argument", i},
                       {"file", argument.output_file},
                       {"dtype", sim_type_name(argument.type)},
                       {"shape", launch.data[i].shape},
                       {"written", result.written}});
  }
  return outputs;
}

nlohmann::json differences_to_json(const SimLaunch& launch, const SimResult& result) {
  nlohmann::json all = nlohmann::json::array();
  for (const SimDifference& d : result.differences) {
    all.push_back({{"argument", d.argument},
                   {"file", launch.data[d.argument].argument.output_file},
                   {"seeds", {d.first_seed, d.second_seed}},
                   {"elements", d.elements},
                   {"first_element", d.element}});
  }
  return all;
}

}  // namespace

std::vector<SimDifference> compare_sim_runs(const SimLaunch& launch, const SimRun& first,
                                            const SimRun& run) {
  std::vector<SimDifference> differences;
  for (size_t i = 0; i < launch.data.size(); ++i) {
    SimDifference d = compare_output(launch.data[i], first.outputs[i], run.outputs[i]);
    if (d.elements == 0) continue;
    d.argument = i;
    d.first_seed = first.seed;
    d.second_seed = run.seed;
    differences.push_back(d);
  }
  return differences;
}

Status check_sim_outputs(const SimLaunch& launch) {
  for (const SimData& data : launch.data) {
    if (data.argument.writes) LSSAR_RETURN_IF_ERROR(check_output_file(data.argument.output_file));
  }
  return {};
}

Status write_sim_outputs(const SimLaunch& launch, const SimRun& run) {
  std::vector<OutputFile> files;
  for (size_t i = 0; i < launch.data.size(); ++i) {
    const SimData& data = launch.data[i];
    if (!data.argument.writes) continue;
    const std::string& path = data.argument.output_file;
    LSSAR_ASSIGN_OR_RETURN(
        const std::string bytes,
        npy_float32_bytes(path, data.shape, decode_elements(data.argument.type, run.outputs[i])));
    LSSAR_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(path));
    LSSAR_RETURN_IF_ERROR(file.append(bytes));
    files.push_back(std::move(file));
  }
  return commit_all(std::move(files));
}

bool writes_standard_output(const SimLaunch& launch) {
  return std::any_of(launch.data.begin(), launch.data.end(), [](const SimData& data) {
    return data.argument.writes && is_standard_output(data.argument.output_file);
  });
}

void print_sim_text(const SimLaunch& launch, const SimResult& result) {
  std::FILE* const to = writes_standard_output(launch) ? stderr : stdout;
  const LaunchConfig& config = launch.config;
  print_text(to,
             "{}: grid {}, block {}, cluster {}, {} bytes of dynamic shared memory | {}, {}, {}\n",
             launch.entry, extents(config.grid), extents(config.block), extents(config.cluster),
             config.shared_bytes, result.runs[0].device_name, launch.device.target.name(),
             launch.device.strict ? "strict" : "fast");
  size_t reported = 0;
  for (const SimRun& run : result.runs) {
    print_text(to, "seed {}: {:.3f} ms, {} warp instructions, {}\n", run.seed, run.ms,
               run.counters.counters.warp_instructions, describe_reports(run.reports.size()));
    if (run.reports.empty()) continue;
    for (const std::string& text : run.reports) print_text(to, "{}\n", indented(text));
    print_memory(to, launch, run);
    ++reported;
  }
  for (const SimDifference& d : result.differences) print_text(to, "{}\n", describe(launch, d));
  if (result.runs.size() > 1) {
    print_text(to, "{} seeds, {} with reports\n", result.runs.size(), reported);
  }
  for (const SimData& data : launch.data) {
    if (!data.argument.writes) continue;
    print_text(to, "{} {}: {} {}\n",
               result.written ? "wrote" : "not written:", data.argument.output_file,
               sim_type_name(data.argument.type), npy_shape_string(data.shape));
  }
  if (result.with_counters) print_text(to, "\n{}", counters_table({result.runs[0].counters}));
}

void print_sim_json(const SimLaunch& launch, const SimResult& result) {
  const LaunchConfig& config = launch.config;
  nlohmann::json runs = nlohmann::json::array();
  nlohmann::json reports = nlohmann::json::array();
  for (const SimRun& run : result.runs) {
    runs.push_back(run_to_json(run));
    for (const std::string& text : run.reports) {
      reports.push_back({{"seed", run.seed}, {"text", text}});
    }
  }
  const nlohmann::json all = {{"kernel", launch.entry},
                              {"device", result.runs[0].device_name},
                              {"target", launch.device.target.name()},
                              {"strict", launch.device.strict},
                              {"grid", config.grid},
                              {"block", config.block},
                              {"cluster", config.cluster},
                              {"shared_bytes", config.shared_bytes},
                              {"reports", reports},
                              {"counters", counters_to_json(result.runs[0])},
                              {"outputs", outputs_to_json(launch, result)},
                              {"differences", differences_to_json(launch, result)},
                              {"runs", runs}};
  // Reports quote PTX, which may have any bytes.
  print_json(all);
}

}  // namespace lssar::command
