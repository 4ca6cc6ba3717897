#include "tools/lssar/options/kernel_variation.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cache/entry_source.h"
#include "codegen/emitted_file.h"
#include "runtime/debug/override.h"

namespace lssar::command {
namespace {

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
  constexpr size_t kLeastDigits = 4, kDigits = 2 * std::tuple_size_v<Sha256Digest>;
  std::error_code error;
  return text.size() >= kLeastDigits && text.size() <= kDigits &&
         text.find_first_not_of("0123456789abcdef") == text.npos &&
         !std::filesystem::exists(text, error);
}

namespace {

Result<std::string> whole_key(Store& store, const std::string& digits) {
  std::vector<std::string> places;
  for (const CacheLayer& layer : store.layers()) {
    if (layer.problem.empty()) places.push_back(layer.path);
  }
  if (!store.directory().empty()) places.push_back(store.directory());
  std::set<std::string> keys;
  for (const std::string& place : places) {
    LSSAR_ASSIGN_OR_RETURN(const auto source, EntrySource::open(posix_file_system(), place));
    LSSAR_ASSIGN_OR_RETURN(const std::vector<StoredEntry> entries, source->list());
    for (const StoredEntry& entry : entries) {
      const std::string key = to_hex(entry.key);
      if (key.starts_with(digits)) keys.insert(key);
    }
  }
  if (keys.size() == 1) return *keys.begin();
  if (keys.empty()) {
    return invalid_argument(
        fmt::format("key {}: no such entry in the binary cache '{}' (lssar cache ls lists them)",
                    digits, store.directory()));
  }
  return invalid_argument(fmt::format("key {}: {} entries of the binary cache begin like this: {}",
                                      digits, keys.size(), fmt::join(keys, ", ")));
}

}  // namespace

Result<KernelVariation> kernel_of_key(Store& store, const std::string& digits) {
  LSSAR_ASSIGN_OR_RETURN(const std::string key, whole_key(store, digits));
  const std::shared_ptr<const CacheEntry> entry = store.find(key);
  if (entry == nullptr) {
    return invalid_argument(fmt::format(
        "key {}: its entry in the binary cache cannot be used (lssar cache verify)", key));
  }
  const auto json = nlohmann::json::parse(entry->metadata, nullptr, false);
  if (!json.is_object() || !json.contains("problem") || !json.contains("schedule") ||
      !json.contains("target")) {
    return invalid_argument(fmt::format("key {}: not the entry of a kernel", key));
  }
  KernelVariation kernel;
  LSSAR_ASSIGN_OR_RETURN(kernel.problem, problem_from_json(json["problem"]));
  LSSAR_ASSIGN_OR_RETURN(kernel.choice.schedule, schedule_from_json(json["schedule"], Schedule()));
  kernel.choice.origin = ScheduleOrigin::kGiven;
  kernel.choice.reason = "given by the cache's entry " + key;
  LSSAR_ASSIGN_OR_RETURN(kernel.target, target_from_json(json["target"]));
  return kernel;
}

Result<KernelVariation> kernel_of_file(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const std::string text, read_file(path, {.max_bytes = kMaxSourceBytes}));
  LSSAR_ASSIGN_OR_RETURN(EmittedFile file, read_emitted(text, path));
  return KernelVariation{file.problem,
                         file.target,
                         {file.schedule, ScheduleOrigin::kGiven, "given by " + path},
                         std::move(file.source)};
}

Result<KernelVariation> varied(const KernelVariation& base, const std::string& text,
                               const ChooseSchedule& choose) {
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
  if (base.choice.origin != ScheduleOrigin::kGiven) {
    LSSAR_ASSIGN_OR_RETURN(kernel.choice, choose(kernel.problem, kernel.target));
  }
  if (!of_schedule.empty()) {
    kernel.choice.origin = ScheduleOrigin::kGiven;
    kernel.choice.reason = "given by --diff, over what is " + kernel.choice.reason;
  }
  nlohmann::json schedule = to_json(kernel.choice.schedule);
  for (const auto& [field, value] : of_schedule) {
    if (!schedule.contains(pointer_of(field))) {
      return invalid_argument(fmt::format(
          "--diff: '{}' is no field of the problem or the schedule, nor target", field));
    }
    schedule[pointer_of(field)] = value;
  }
  LSSAR_ASSIGN_OR_RETURN(kernel.choice.schedule,
                         schedule_from_json(schedule, kernel.choice.schedule));
  LSSAR_RETURN_IF_ERROR(validate(kernel.choice.schedule, kernel.problem, kernel.target));
  return kernel;
}

}  // namespace lssar::command
