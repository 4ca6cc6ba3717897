#include "autotune/table/tuning_table.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "autotune/table/record_time.h"
#include "autotune/table/table_lines.h"
#include "base/file.h"
#include "cache/sha256.h"

namespace lssar {

// Made at build time from shipped_table.jsonl.
extern const std::string_view kShippedTable;

namespace {

constexpr char kFileName[] = "tuning.jsonl";
constexpr char kNone[] = "none";
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

// Calls `line(number, text)` for every line. The last one may have no '\n'.
template <typename Line>
void for_each_line(std::string_view text, const Line& line) {
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view content = text.substr(0, end);
    if (content.ends_with('\r')) content.remove_suffix(1);  // a checkout with CRLF
    line(number, content);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

// Whether the line, which may be anything, is a loser's. It only looks at the text, which costs a
// hundredth of parsing it.
bool is_loser(std::string_view line) {
  return line.find("\"chosen\":false") != std::string_view::npos &&
         line.find("\"chosen\":true") == std::string_view::npos;
}

int newest_header(std::string_view text) {
  int version = 0;
  for_each_line(
      text, [&](int, std::string_view line) { version = std::max(version, header_version(line)); });
  return version;
}

}  // namespace

TuningTable TuningTable::parse(std::string_view text, const std::string& name,
                               TableContent content) {
  TuningTable table;
  table.name_ = name;
  if (const int version = newest_header(text); version > kTableVersion) {
    table.defects_.newer_version = version;
    table.defects_.first = fmt::format("it has version {} of the format: this library knows {}",
                                       version, kTableVersion);
    return table;
  }
  for_each_line(text, [&](int number, std::string_view line) {
    if (line.empty() || header_version(line) != 0) return;
    if (content == TableContent::kWinners && is_loser(line)) return;
    Result<TuningRecord> record = parse_record_line(line);
    if (record.ok()) return table.add(std::move(record).value());
    if (table.defects_.malformed_lines++ == 0) {
      table.defects_.first = fmt::format("line {}: {}", number, record.status().message());
    }
  });
  return table;
}

Result<TuningTable> TuningTable::load(const std::string& path, TableContent content) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0 && errno == ENOENT) {
    TuningTable empty;
    empty.name_ = path;
    return empty;
  }
  LSSAR_ASSIGN_OR_RETURN(const std::string text, read_file(path, {.max_bytes = kMaxFileBytes}));
  TuningTable table = parse(text, path, content);
  if (table.defects_.newer_version != 0) {
    return unsupported(fmt::format("tuning table '{}': {}", path, table.defects_.first));
  }
  return table;
}

int TuningTable::merge(const TuningTable& other) {
  std::set<Sha256Digest> known;  // of the records' texts, about 2 KB each
  for (const TuningRecord& record : records_) known.insert(sha256(record_text(record)));
  int added = 0;
  for (const TuningRecord& record : other.records_) {
    if (!known.insert(sha256(record_text(record))).second) continue;
    add(record);
    ++added;
  }
  return added;
}

std::string TuningTable::canonical_text() const {
  // By bucket, GPU and time, so that related records are neighbours; equal ones by their text.
  using Key = std::tuple<std::string, std::string, std::string, std::string, size_t, std::string>;
  std::set<std::pair<Key, std::string>> lines;
  // Texts of records with the last time of all, which keep their order, by which came first.
  std::map<std::string, size_t> last_ones;
  for (const TuningRecord& record : records_) {
    const Machine& machine = record.machine;
    const std::string text = record_text(record);
    size_t place = 0;
    if (is_last_time(record.time))
      place = last_ones.try_emplace(text, last_ones.size()).first->second;
    lines.insert(
        {{to_string(record.bucket), machine.target, machine.device, record.time, place, text},
         record_line(record)});
  }
  std::string text = header_line();
  for (const auto& [key, line] : lines) text += line;
  return text;
}

std::string default_table_path(const std::string& cache_directory) {
  const char* given = std::getenv("LSSAR_TUNING_TABLE");
  if (given != nullptr && *given != '\0') return std::string(given) == kNone ? "" : given;
  return cache_directory.empty() ? "" : cache_directory + "/" + kFileName;
}

const TuningTable& shipped_table() {
  static const TuningTable table = TuningTable::parse(kShippedTable, "shipped table");
  return table;
}

}  // namespace lssar
