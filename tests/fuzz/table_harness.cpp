// Properties: a table's canonical text is a table without defects that has the same canonical text;
// merging a table with itself adds nothing; what plans choose from it is legal.
#include <fmt/format.h>

#include "autotune/model/schedule_choice.h"
#include "autotune/table/table_lines.h"
#include "autotune/table/tuning_table.h"
#include "cache/sha256.h"
#include "tests/fuzz/complain.h"
#include "tests/fuzz/readers.h"

namespace lssar::test {
namespace {

constexpr size_t kMaxInput = 128 << 10;

bool is_bare_record(std::string_view line) {
  return line.starts_with('{') && !line.starts_with("{\"check\"") && header_version(line) == 0;
}

// As docs/tuning_table.md says.
std::string with_check(std::string_view record) {
  const std::string checked =
      fmt::format("lssar tuning record {}\n", kTableVersion) + std::string(record);
  return fmt::format("{{\"check\":\"{}\",\"record\":{}}}", to_hex(sha256(checked)).substr(0, 16),
                     record);
}

std::string with_checks(std::string_view text) {
  std::string checked;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    checked += is_bare_record(line) ? with_check(line) : std::string(line);
    text.remove_prefix(line.size());
    if (text.empty()) break;
    checked += '\n';
    text.remove_prefix(1);
  }
  return checked;
}

void check_round_trip(const TuningTable& table) {
  const std::string text = table.canonical_text();
  TuningTable back = TuningTable::parse(text);
  check_that(back.defects().malformed_lines == 0, "our own lines", back.defects().first);
  check_that(back.canonical_text() == text, "another table than was written", text);
  check_that(back.merge(back) == 0, "a table has what itself has not", text);
}

void check_choice(const TuningRecord& record, const TuningTable& table) {
  record_state(record);
  const Result<Target> target = target_from_name(record.machine.target);
  if (!target.ok()) return;
  const Machine here{record.machine.device, record.machine.target, 132, "", ""};
  for (const Determinism determinism : {Determinism::kRepeatable, Determinism::kAny}) {
    const ScheduleChoice choice = choose_schedule(record.problem, record.sizes, determinism,
                                                  *target, here, {&table, &shipped_table()});
    const Status legal = validate(choice.schedule, record.problem, *target);
    if (!legal.ok()) complain("an illegal schedule is chosen", legal);
    check_that(!choice.reason.empty(), "chosen without a reason");
  }
}

}  // namespace

void run_table_input(std::string_view input) {
  if (input.size() > kMaxInput) return;
  const TuningTable table = TuningTable::parse(with_checks(input), "fuzz");
  TuningTable::parse(input, "fuzz", TableContent::kWinners);
  const TableDefects& defects = table.defects();
  check_that((defects.malformed_lines > 0 || defects.newer_version > 0) == !defects.first.empty(),
             "defects without a reason", defects.first);
  if (table.records().empty()) return;
  check_round_trip(table);
  constexpr size_t kMaxChoices = 3;
  for (size_t i = 0; i < std::min(table.records().size(), kMaxChoices); ++i) {
    check_choice(table.records()[i], table);
  }
}

}  // namespace lssar::test
