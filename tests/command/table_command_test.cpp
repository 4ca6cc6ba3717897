// lssar table: ls, show, export, import, merge, prune.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "autotune/table/table_lines.h"
#include "autotune/table/tuning_table.h"
#include "tests/autotune/sample_records.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::Not;

class TableCommand : public ::testing::Test {
 protected:
  std::string write_table(const std::string& name, const std::vector<TuningRecord>& records) {
    std::string text = header_line();
    for (const TuningRecord& record : records) text += record_line(record);
    return command_.write(name, text);
  }

  // What the command printed; it must have succeeded.
  std::string run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "table");
    const CommandResult result = command_.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    err_ = result.err;
    return result.out;
  }

  static std::vector<TuningRecord> load(const std::string& path) {
    const auto table = TuningTable::load(path);
    EXPECT_TRUE(table.ok()) << table.status().message();
    return table.ok() ? table->records() : std::vector<TuningRecord>();
  }

  static TuningRecord loser() {
    TuningRecord record = sample_record();
    record.chosen = false;
    record.ms = 2.5;
    record.verdict = Verdict::kWrong;
    record.reason = "o[7] = 3, expected 4";
    return record;
  }

  static TuningRecord stale() {
    TuningRecord record = sample_record(h200(), 1024);
    record.source_hash = "0000000000000000";
    return record;
  }

  static TuningRecord illegal() {
    TuningRecord record = sample_record(h200(), 512);
    record.schedule.softplus_degree = 99;
    return record;
  }

  CommandRunner command_;
  std::string err_;
};

// Escape sequences, a line of its own, C1 and turned letters.
TEST_F(TableCommand, AStrangersTextMovesNoCursor) {
  const std::string nasty = "A\x1b[2J\a\r\n* x\xc2\x9b" "31m\xe2\x80\xae";
  const std::string shown = "A\\x1b[2J\\x07\\x0d\\n* x\\u009b31m\\u202e";
  TuningRecord record = sample_record();
  record.machine.device = record.machine.driver = record.machine.compiler = nasty;
  record.reason = record.search = nasty;
  record.terms[nasty] = 1;
  const std::string table = write_table("t.jsonl", {record});
  const auto expect_plain = [](const std::string& text) {
    for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << text;
  };
  const std::string listed = run({"ls", "--table", table});
  EXPECT_EQ(std::count(listed.begin(), listed.end(), '\n'), 2) << listed;
  EXPECT_THAT(listed, HasSubstr(shown + " sm_90a"));
  expect_plain(listed);
  const std::string all = run({"show", "--table", table});
  for (const char* before : {"  ", "reason    ", ", ", "driver \""})
    EXPECT_THAT(all, HasSubstr(before + shown));
  expect_plain(all);
  for (const char* what : {"ls", "show"}) {
    const std::string json = run({what, "--json", "--table", table});
    expect_plain(json);
    EXPECT_EQ(nlohmann::json::parse(json)[0]["machine"]["device"], nasty);
  }
  const CommandResult missing = command_.run({"table", "ls", "--table", "no\x1b[2J.jsonl"});
  EXPECT_EQ(missing.exit_code, 5);
  EXPECT_THAT(missing.err, HasSubstr("'no\\x1b[2J.jsonl' is missing"));
}

TEST_F(TableCommand, StandardOutputIsNoTable) {
  for (const char* what : {"ls", "prune"}) {
    const CommandResult result = command_.run({"table", what, "--table", "-"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr("--table = -: a table is read and written"));
  }
}

TEST_F(TableCommand, LsHasALineForEveryBucketAndGpu) {
  TuningRecord earlier = sample_record();
  earlier.time = "2025-01-01T00:00:00Z";
  earlier.ms = 9;
  const std::string table =
      write_table("t.jsonl", {loser(), sample_record(), earlier, sample_record(a100()), stale()});
  const std::string out = run({"ls", "--table", table});
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 4) << out;
  EXPECT_THAT(out, HasSubstr("forward causal bf16 d 64 dv 64 p 15 gqa 1 seq 4096x4096 slices 16 "
                             "repeatable  NVIDIA H200 sm_90a 132 SMs  measured 1.25 ms +- 0.01  "
                             "2026-11-21T13:16:13Z  hopper cp_async forward"));
  EXPECT_THAT(out, HasSubstr("NVIDIA A100 sm_80 108 SMs"));
  EXPECT_THAT(out, HasSubstr("NOT USED: of another generator\n"));
  EXPECT_THAT(out, Not(HasSubstr("measured 9 ms")));
  EXPECT_THAT(out, HasSubstr("3 buckets, 5 records\n"));
}

TEST_F(TableCommand, LsAsJsonHasTheWinners) {
  const std::string table = write_table("t.jsonl", {loser(), sample_record()});
  const auto json = nlohmann::json::parse(run({"ls", "--json", "--table", table}));
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(*record_from_json(json[0]), sample_record());
}

TEST_F(TableCommand, ShowHasEveryCandidateOfTheBucketsThatHaveAllWords) {
  const std::string table =
      write_table("t.jsonl", {loser(), sample_record(), sample_record(a100())});
  const std::string out = run({"show", "--table", table, "causal", "H200"});
  EXPECT_THAT(out, HasSubstr("* ok  measured 1.25 ms"));
  EXPECT_THAT(out, HasSubstr("  wrong  measured 2.5 ms"));
  EXPECT_LT(out.find("1.25 ms"), out.find("2.5 ms")) << "the fastest first";
  EXPECT_THAT(out, HasSubstr("o[7] = 3, expected 4"));
  EXPECT_THAT(out, HasSubstr("168 registers"));
  EXPECT_THAT(out, Not(HasSubstr("A100")));
  const auto json = nlohmann::json::parse(run({"show", "--json", "--table", table, "A100"}));
  EXPECT_EQ(json.size(), 1u);
  EXPECT_THAT(run({"show", "--table", table, "fp16"}), HasSubstr("no record of such a bucket"));
}

TEST_F(TableCommand, TheUsersOwnTableNeedNotBeThereYet) {
  const CommandResult result =
      command_.run({"table", "ls"}, {"LSSAR_TUNING_TABLE=" + command_.path("none.jsonl")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("none.jsonl: not there yet"));
}

TEST_F(TableCommand, TheTableOfTheEnvironmentIsTheDefault) {
  const std::string table = write_table("t.jsonl", {sample_record()});
  const CommandResult result = command_.run({"table", "ls"}, {"LSSAR_TUNING_TABLE=" + table});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 buckets, 1 records"));
}

TEST_F(TableCommand, ExportIsCanonicalAndMayLeaveOutWhatLost) {
  const std::vector<TuningRecord> records = {sample_record(a100()), loser(), sample_record()};
  const std::string table = write_table("t.jsonl", records);
  const std::string all = command_.path("all.jsonl");
  EXPECT_THAT(run({"export", all, "--table", table}), HasSubstr("exported 3 of 3 records"));
  TuningTable expected;
  for (const TuningRecord& record : records) expected.add(record);
  std::ifstream in(all);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), expected.canonical_text());

  const std::string text = run({"export", "-", "--chosen", "--table", table});
  EXPECT_THAT(err_, HasSubstr("exported 2 of 3 records"));
  EXPECT_EQ(TuningTable::parse(text).records().size(), 2u);
}

TEST_F(TableCommand, ImportAddsWhatIsNewAndSaysWhatItDidWithTheRest) {
  const std::string table = write_table("mine.jsonl", {sample_record()});
  const std::string given =
      write_table("given.jsonl", {sample_record(), sample_record(a100()), stale(), illegal()});
  std::ofstream(given, std::ios::app) << "torn";
  const std::string out = run({"import", given, "--table", table});
  EXPECT_THAT(out, HasSubstr("added 3, known already 1, malformed 1\n"));
  EXPECT_THAT(out, HasSubstr("this version cannot use 2: 1 of another generator, 1 not legal"));
  EXPECT_THAT(err_, HasSubstr("given.jsonl: 1 lines are no records (line 6: not a record's line)"));
  EXPECT_EQ(load(table).size(), 4u);
  EXPECT_THAT(run({"import", given, "--table", table}), HasSubstr("added 0, known already 4"));
  EXPECT_EQ(load(table).size(), 4u);
}

TEST_F(TableCommand, ImportMakesTheTable) {
  const std::string given = write_table("given.jsonl", {sample_record()});
  const std::string table = command_.path("new/mine.jsonl");
  EXPECT_THAT(run({"import", given, "--table", table}), HasSubstr("added 1"));
  EXPECT_EQ(load(table), std::vector<TuningRecord>{sample_record()});
}

TEST_F(TableCommand, MergeIsTheSameInAnyOrder) {
  const std::string a = write_table("a.jsonl", {sample_record(), loser()});
  const std::string b = write_table("b.jsonl", {sample_record(a100()), sample_record()});
  const std::string out = run({"merge", a, b, "-o", command_.path("ab.jsonl")});
  EXPECT_THAT(out, HasSubstr("b.jsonl: 2 records, 1 of them new"));
  const std::string ab = run({"merge", a, b, "-o", "-"});
  EXPECT_EQ(ab, run({"merge", b, a, "-o", "-"}));
  EXPECT_EQ(TuningTable::parse(ab).records().size(), 3u);
  EXPECT_EQ(load(command_.path("ab.jsonl")).size(), 3u);
}

TEST_F(TableCommand, PruneDropsWhatIsOfNoUseAndKeepsTheOldFile) {
  const std::string table = write_table("t.jsonl", {sample_record(), stale(), illegal(), loser()});
  std::ofstream(table, std::ios::app) << "torn";
  EXPECT_THAT(run({"prune", "--dry-run", "--table", table}),
              HasSubstr("would keep 2, drop 3: 1 of another generator, 1 not legal, 1 lines"));
  EXPECT_EQ(load(table).size(), 4u);
  EXPECT_FALSE(std::filesystem::exists(table + ".bak"));

  EXPECT_THAT(run({"prune", "--table", table}), HasSubstr("kept 2, dropped 3"));
  EXPECT_EQ(load(table), (std::vector<TuningRecord>{sample_record(), loser()}));
  EXPECT_EQ(load(table + ".bak").size(), 4u);
  EXPECT_THAT(run({"prune", "--table", table}), Not(HasSubstr("backup")));
  EXPECT_EQ(load(table + ".bak").size(), 4u) << "a prune of nothing replaced the backup";
  std::filesystem::remove(table + ".bak");
  EXPECT_THAT(run({"prune", "--no-backup", "--table", table}), HasSubstr("kept 2, dropped 0"));
  EXPECT_FALSE(std::filesystem::exists(table + ".bak"));
}

}  // namespace
}  // namespace lssar
