#include "tools/probe/probe_list.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/json_text.h"
#include "cache/sha256.h"
#include "tools/probe/model_constants.h"

namespace lssar::probe {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;
constexpr size_t kMostProbes = 100, kMostSettings = 32;
constexpr int kMostRounds = 1000;
constexpr double kMostSeconds = 60;
constexpr int64_t kMostSize = 1 << 20;

Status read_edits(JsonFields& fields, const std::string& where, Setting* setting) {
  const nlohmann::json* const list = fields.list("edits", kMostSettings);
  if (list == nullptr) return {};
  for (size_t i = 0; i < list->size(); ++i) {
    JsonFields edit((*list)[i], fmt::format("{}.edits[{}]", where, i));
    SourceEdit one;
    edit.require("from");
    edit.read("from", one.from);
    edit.require("to");
    edit.read("to", one.to);
    LSSAR_RETURN_IF_ERROR(edit.finish());
    if (one.from.empty()) return invalid_argument(edit.path("from") + ": allowed is a text");
    setting->edits.push_back(std::move(one));
  }
  return {};
}

Status read_settings(const nlohmann::json& list, const std::string& where, Probe* probe) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}.settings[{}]", where, i);
    JsonFields fields(list[i], place);
    Setting setting;
    fields.require("name");
    fields.read("name", setting.name);
    fields.read("cold_l2", setting.cold_l2);
    const nlohmann::json* const schedule = fields.object("schedule");
    if (schedule != nullptr) setting.schedule = *schedule;
    LSSAR_RETURN_IF_ERROR(read_edits(fields, place, &setting));
    LSSAR_RETURN_IF_ERROR(fields.finish());
    for (const Setting& other : probe->settings) {
      if (other.name != setting.name) continue;
      return invalid_argument(
          fmt::format("{} = {}: another setting has that name", fields.path("name"), setting.name));
    }
    probe->settings.push_back(std::move(setting));
  }
  if (!probe->settings.empty()) return {};
  return invalid_argument(where + ".settings: allowed is at least one");
}

Status read_constants(const nlohmann::json& list, const std::string& where, Probe* probe) {
  for (size_t i = 0; i < list.size(); ++i) {
    JsonFields fields(list[i], fmt::format("{}.constants[{}]", where, i));
    ConstantRange range;
    fields.require("name");
    fields.read("name", range.name);
    fields.require("low");
    fields.read("low", range.low);
    fields.require("high");
    fields.read("high", range.high);
    fields.read_absent("ratio");  // tools/probe_results.py compares the two settings that it names
    LSSAR_RETURN_IF_ERROR(fields.finish());
    if (find_constant(range.name) == nullptr) {
      return invalid_argument(fmt::format("{} = {}: allowed are {}", fields.path("name"),
                                          range.name, constant_names()));
    }
    if (!(range.low < range.high)) {
      return invalid_argument(fmt::format("{} = {}: allowed is more than low, which is {}",
                                          fields.path("high"), range.high, range.low));
    }
    probe->constants.push_back(std::move(range));
  }
  return {};
}

Status read_sizes(JsonFields& fields, Probe* probe) {
  int64_t batch = 0, heads = 0, length = 0;
  fields.need_whole("batch", 1, kMostSize, batch);
  fields.need_whole("heads", 1, kMostSize, heads);
  fields.need_whole("length", 1, kMostSize, length);
  probe->sizes = {batch, heads, heads, length, length};
  return fields.status();
}

Status read_repetition(JsonFields& fields, Probe* probe) {
  fields.need_whole("rounds", 1, kMostRounds, probe->rounds);
  fields.read("seconds", probe->seconds);
  LSSAR_RETURN_IF_ERROR(fields.status());
  if (probe->seconds >= 0 && probe->seconds <= kMostSeconds) return {};
  return invalid_argument(fmt::format("{} = {}: allowed are 0 to {}", fields.path("seconds"),
                                      probe->seconds, kMostSeconds));
}

Result<Probe> read_probe(const nlohmann::json& json, const std::string& where) {
  Probe probe;
  probe.definition = json;
  JsonFields fields(json, where);
  fields.require("name");
  fields.read("name", probe.name);
  fields.read_absent("question");  // for people, and tools/probe_results.py
  fields.read_absent("expect");
  LSSAR_RETURN_IF_ERROR(read_sizes(fields, &probe));
  LSSAR_RETURN_IF_ERROR(read_repetition(fields, &probe));
  std::string data = input_kind_name(probe.data);
  fields.read("data", data);
  const nlohmann::json* const settings = fields.need_list("settings", kMostSettings);
  const nlohmann::json* const constants = fields.list("constants", kMostSettings);
  fields.require("problem");
  const nlohmann::json* const problem = fields.object("problem");
  LSSAR_RETURN_IF_ERROR(fields.finish());
  LSSAR_ASSIGN_OR_RETURN(probe.data, parse_input_kind(data));
  Result<Problem> parsed = problem_from_json(*problem);
  if (!parsed.ok()) return parsed.status().with_context(where);
  probe.problem = *parsed;
  LSSAR_RETURN_IF_ERROR(read_settings(*settings, where, &probe));
  if (constants != nullptr) LSSAR_RETURN_IF_ERROR(read_constants(*constants, where, &probe));
  return probe;
}

// Names of files, and words of a shell.
bool is_plain_name(const std::string& name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_plain);
}

Status check_names(const std::vector<Probe>& probes, const std::string& path) {
  for (size_t i = 0; i < probes.size(); ++i) {
    const std::string& name = probes[i].name;
    if (!is_plain_name(name)) {
      return invalid_argument(
          fmt::format("{}: probes[{}].name = {}: allowed are a to z, 0 to 9 and _", path, i, name));
    }
    for (size_t k = 0; k < i; ++k) {
      if (probes[k].name != name) continue;
      return invalid_argument(
          fmt::format("{}: probes[{}].name = {}: probes[{}] has that name", path, i, name, k));
    }
  }
  return {};
}

}  // namespace

std::string definition_hash(const Probe& probe) {
  return to_hex(sha256(probe.definition.dump())).substr(0, kShownHashDigits);
}

Result<std::vector<Probe>> read_probes(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const std::string text, read_file(path, {.max_bytes = kMaxFileBytes}));
  LSSAR_ASSIGN_OR_RETURN(const nlohmann::json json, parse_json(text, path));
  JsonFields fields(json, path);
  fields.read_only("format", "lssar-probes");
  const nlohmann::json* const list = fields.need_list("probes", kMostProbes);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  std::vector<Probe> probes;
  for (size_t i = 0; i < list->size(); ++i) {
    LSSAR_ASSIGN_OR_RETURN(Probe probe,
                           read_probe((*list)[i], fmt::format("{}: probes[{}]", path, i)));
    probes.push_back(std::move(probe));
  }
  LSSAR_RETURN_IF_ERROR(check_names(probes, path));
  return probes;
}

}  // namespace lssar::probe
