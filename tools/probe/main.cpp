// schedule_probe: asks a GPU the questions of tools/probes.json, one at a time.
//
//   schedule_probe LIST                                prints each probe's name and its hash
//   schedule_probe LIST NAME FILE [DEVICE [TARGET]]    runs one; its figures go to FILE as JSON
//
// DEVICE: cuda (default), virtual. Exit code: 0 done, 1 it failed (the reason is one line on
// standard error), 2 wrong usage.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/output_file.h"
#include "cache/location.h"
#include "tools/probe/probe_run.h"

namespace lssar::probe {
namespace {

constexpr char kUsage[] = "usage: schedule_probe LIST [NAME FILE [DEVICE [TARGET]]]\n";

Status list(const std::vector<Probe>& probes) {
  std::string text;
  for (const Probe& probe : probes)
    text += fmt::format("{} {}\n", probe.name, definition_hash(probe));
  return write_output_file("-", text);
}

Result<const Probe*> find_probe(const std::vector<Probe>& probes, const std::string& name) {
  std::string names;
  for (const Probe& probe : probes) {
    if (probe.name == name) return &probe;
    names += " " + probe.name;
  }
  return invalid_argument(fmt::format("name = {}: allowed are{}", name, names));
}

Status run(const std::vector<std::string>& words) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<Probe> probes, read_probes(words[0]));
  if (words.size() == 1) return list(probes);
  LSSAR_ASSIGN_OR_RETURN(const Probe* const probe, find_probe(probes, words[1]));
  RunOptions options;
  if (words.size() > 3) {
    LSSAR_ASSIGN_OR_RETURN(options.device, parse_device_choice(words[3]));
  }
  if (words.size() > 4) options.target = words[4];
  const std::string cache = find_cache_location("").directory;
  options.cache_directory = cache.empty() ? "none" : cache;
  LSSAR_ASSIGN_OR_RETURN(const nlohmann::json figures, run_probe(*probe, options));
  return write_output_file(words[2], figures.dump() + "\n");
}

}  // namespace
}  // namespace lssar::probe

int main(int argc, char** argv) {
  using namespace lssar;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words.size() == 2 || words.size() > 5) {
    std::fputs(probe::kUsage, stderr);
    return 2;
  }
  const Status status = probe::run(words);
  if (status.ok()) return 0;
  const std::string text = "schedule_probe: " + status.to_string() + "\n";
  std::fputs(text.c_str(), stderr);
  return 1;
}
