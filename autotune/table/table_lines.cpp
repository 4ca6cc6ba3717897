#include "autotune/table/table_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cache/sha256.h"

namespace lssar {
namespace {

using nlohmann::json;

constexpr std::string_view kHeaderStart = "{\"format\":\"lssar-tuning-table\",\"version\":";
// A record's line: kCheck, digits, kRecord, the record's JSON, '}'.
constexpr std::string_view kCheck = "{\"check\":\"";
constexpr std::string_view kRecord = "\",\"record\":";
constexpr size_t kCheckDigits = 16;

// The checksum includes the version of the table. So a line of another version never passes, even
// if its text means something here.
std::string check_of(std::string_view record) {
  std::string bytes = fmt::format("lssar tuning record {}\n", kTableVersion);
  bytes += record;
  return to_hex(sha256(bytes)).substr(0, kCheckDigits);
}

}  // namespace

std::string header_line() { return fmt::format("{}{}}}\n", kHeaderStart, kTableVersion); }

int header_version(std::string_view line) {
  if (!line.starts_with(kHeaderStart)) return 0;
  const json header = json::parse(line, nullptr, false);
  if (header.is_discarded()) return 0;
  const json& version = header.at("version");
  constexpr int kMostVersions = 1'000'000;
  if (!version.is_number_integer() || version < 1 || version > kMostVersions) return 0;
  return version.get<int>();
}

std::string record_text(const TuningRecord& record) {
  // It contains messages of other programs, which need not be UTF-8.
  return to_json(record).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string record_line(const TuningRecord& record) {
  const std::string text = record_text(record);
  return fmt::format("{}{}{}{}}}\n", kCheck, check_of(text), kRecord, text);
}

Result<TuningRecord> parse_record_line(std::string_view line) {
  constexpr size_t kRecordAt = kCheck.size() + kCheckDigits + kRecord.size();
  if (line.size() <= kRecordAt || !line.starts_with(kCheck) ||
      line.substr(kCheck.size() + kCheckDigits, kRecord.size()) != kRecord || line.back() != '}') {
    return invalid_argument("not a record's line");
  }
  const std::string_view text = line.substr(kRecordAt, line.size() - kRecordAt - 1);
  if (line.substr(kCheck.size(), kCheckDigits) != check_of(text)) {
    return invalid_argument("its checksum is another: it was torn or changed");
  }
  LSSAR_ASSIGN_OR_RETURN(const json object, parse_json(text, "record"));
  return record_from_json(object);
}

}  // namespace lssar
