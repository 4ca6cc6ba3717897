#include "tools/lssar/kernel_variation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "codegen/emitted_file.h"

namespace lssar::command {
namespace {

constexpr uint64_t kMaxSourceBytes = uint64_t{16} << 20;

using Assignment = std::pair<std::string, nlohmann::json>;

Result<std::vector<Assignment>> parse_assignments(const std::string& text) {
  std::vector<Assignment> all;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, end - at);
    const size_t equals = one.find('=');
    if (equals == one.npos || equals == 0) {
      return invalid_argument(fmt::format(
          "--diff: '{}': allowed are FIELD=VALUE, several joined by ',', and FILE.cu", text));
    }
    const std::string value = one.substr(equals + 1);
    nlohmann::json json = nlohmann::json::parse(value, nullptr, false);
    if (json.is_discarded()) json = value;
    all.emplace_back(one.substr(0, equals), std::move(json));
    at = end + 1;
  }
  return all;
}

// "forward.block_cols" as "/forward/block_cols".
nlohmann::json::json_pointer pointer_of(std::string field) {
  std::replace(field.begin(), field.end(), '.', '/');
  return nlohmann::json::json_pointer("/" + field);
}

}  // namespace

bool is_cache_key(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Result<KernelVariation> kernel_of_key(Store& store, const std::string& key) {
  const std::shared_ptr<const CacheEntry> entry = store.find(key);
  if (entry == nullptr) {
    return invalid_argument(
        fmt::format("key {}: no such entry in the binary cache '{}' (lssar "
                    "cache ls lists them)",
                    key, store.directory()));
  }
  const auto json = nlohmann::json::parse(entry->metadata, nullptr, false);
  if (!json.is_object() || !json.contains("problem") || !json.contains("schedule") ||
      !json.contains("target")) {
    return invalid_argument(fmt::format("key {}: not the entry of a kernel", key));
  }
  KernelVariation kernel;
  LSSAR_ASSIGN_OR_RETURN(kernel.problem, problem_from_json(json["problem"]));
  LSSAR_ASSIGN_OR_RETURN(kernel.schedule, schedule_from_json(json["schedule"], Schedule()));
  LSSAR_ASSIGN_OR_RETURN(kernel.target, target_from_json(json["target"]));
  return kernel;
}

Result<KernelVariation> kernel_of_file(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const std::string text, read_file(path, {.max_bytes = kMaxSourceBytes}));
  LSSAR_ASSIGN_OR_RETURN(EmittedFile file, read_emitted(text, path));
  return KernelVariation{file.problem, file.schedule, file.target, false, std::move(file.source)};
}

Result<KernelVariation> varied(const KernelVariation& base, const std::string& text) {
  if (text.size() > 3 && text.compare(text.size() - 3, 3, ".cu") == 0) return kernel_of_file(text);
  LSSAR_ASSIGN_OR_RETURN(const std::vector<Assignment> assignments, parse_assignments(text));
  KernelVariation kernel = base;
  kernel.source.reset();
  nlohmann::json problem = to_json(base.problem);
  std::vector<Assignment> of_schedule;
  for (const auto& [field, value] : assignments) {
    if (field == "target") {
      LSSAR_ASSIGN_OR_RETURN(kernel.target, target_from_json(value));
    } else if (problem.contains(pointer_of(field))) {
      problem[pointer_of(field)] = value;
    } else {
      of_schedule.emplace_back(field, value);
    }
  }
  LSSAR_ASSIGN_OR_RETURN(kernel.problem, problem_from_json(problem));
  if (base.has_default_schedule) kernel.schedule = default_schedule(kernel.problem, kernel.target);
  nlohmann::json schedule = to_json(kernel.schedule);
  for (const auto& [field, value] : of_schedule) {
    if (!schedule.contains(pointer_of(field))) {
      return invalid_argument(fmt::format(
          "--diff: '{}' is no field of the problem or the schedule, nor target", field));
    }
    schedule[pointer_of(field)] = value;
  }
  LSSAR_ASSIGN_OR_RETURN(kernel.schedule, schedule_from_json(schedule, kernel.schedule));
  LSSAR_RETURN_IF_ERROR(validate(kernel.schedule, kernel.problem, kernel.target));
  return kernel;
}

}  // namespace lssar::command
