#include "tools/lssar/commands/cache_places.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "base/file.h"
#include "cache/location.h"
#include "tools/lssar/terminal/terminal.h"

namespace lssar::command {
namespace {

std::string text_at(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "?";
}

}  // namespace

Result<std::unique_ptr<DiskLayer>> open_directory(const CacheCommandOptions& options,
                                                  uint64_t max_bytes) {
  const CacheLocation location = find_cache_location(options.directory);
  if (location.directory.empty()) {
    return missing(location.problem.empty()
                       ? fmt::format("no cache directory: {} is none", location.source)
                       : fmt::format("no cache directory: {}", location.problem));
  }
  std::string problem;
  auto layer = DiskLayer::open(posix_file_system(), location.directory, max_bytes, &problem);
  if (layer == nullptr) return io_error(fmt::format("{} (from {})", problem, location.source));
  return layer;
}

Result<std::unique_ptr<EntrySource>> open_place(const CacheCommandOptions& options) {
  if (!options.path.empty()) return EntrySource::open(posix_file_system(), options.path);
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DiskLayer> layer, open_directory(options));
  return EntrySource::open(posix_file_system(), layer->directory());
}

EntryTitle title_of(const CacheEntry& entry) {
  const nlohmann::json json = nlohmann::json::parse(entry.metadata, nullptr, false);
  if (!json.is_object()) return {};
  return {text_at(json, "kernel"), text_at(json, "target"), text_at(json, "image"),
          text_at(json, "compiler") + " " + text_at(json, "compiler_version")};
}

nlohmann::json to_json(const CheckedEntry& checked) {
  nlohmann::json json = {{"key", to_hex(checked.stored.key)},
                         {"bytes", checked.stored.bytes},
                         {"used_ns", checked.stored.used_ns},
                         {"problem", checked.problem}};
  if (!checked.problem.empty()) return json;
  const EntryTitle title = title_of(checked.entry);
  json["kernel"] = title.kernel;
  json["target"] = title.target;
  json["image"] = title.image;
  json["compiler"] = title.compiler;
  json["payload_bytes"] = checked.entry.payload.size();
  return json;
}

std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string time_text(int64_t time_ns) {
  if (time_ns == 0) return "-";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}Z",
                     fmt::gmtime(static_cast<std::time_t>(time_ns / kNsPerSecond)));
}

void print_problem(const std::string& text) { print_message(stderr, "lssar: " + text); }

}  // namespace lssar::command
