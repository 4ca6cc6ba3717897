// The tuning table's file: format, defects, versions, merge and export.
#include "autotune/table/tuning_table.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "autotune/table/table_lines.h"
#include "tests/autotune/sample_records.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

constexpr char kHeader[] = "{\"format\":\"lssar-tuning-table\",\"version\":1}\n";
constexpr char kNewerHeader[] = "{\"format\":\"lssar-tuning-table\",\"version\":2}\n";

class Table : public ::testing::Test {
 protected:
  TuningTable load() const {
    auto table = TuningTable::load(path_);
    EXPECT_TRUE(table.ok()) << table.status().message();
    return table.ok() ? std::move(table).value() : TuningTable();
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "tuning.jsonl";
};

TEST_F(Table, WhatIsAppendedIsReadBackInOrder) {
  const std::vector<TuningRecord> records = many_records(5);
  ASSERT_TRUE(append_records(path_, {records[0]}).ok());
  ASSERT_TRUE(append_records(path_, {records.begin() + 1, records.end()}).ok());
  const TuningTable table = load();
  EXPECT_EQ(table.records(), records);
  EXPECT_EQ(table.defects().malformed_lines, 0);
  EXPECT_EQ(table.name(), path_);
  const std::string text = slurp(path_);
  EXPECT_TRUE(text.starts_with(kHeader));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
}

TEST_F(Table, AMissingFileIsAnEmptyTable) {
  EXPECT_TRUE(load().records().empty());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Table, AFolderIsAnErrorToReadAndToAppendTo) {
  EXPECT_EQ(TuningTable::load(folder_.path()).status().code(), StatusCode::kIoError);
  EXPECT_EQ(append_records(folder_.path(), many_records(1)).code(), StatusCode::kIoError);
}

TEST_F(Table, AppendMakesPrivateFoldersAndAPrivateFile) {
  const std::string deep = folder_ / "a/b/tuning.jsonl";
  ASSERT_TRUE(append_records(deep, many_records(1)).ok());
  struct stat info = {};
  ASSERT_EQ(::stat(deep.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((folder_ / "a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(Table, TruncatedAtEveryByteOfItsLastRecordItLosesOnlyThat) {
  const std::vector<TuningRecord> records = many_records(3);
  ASSERT_TRUE(append_records(path_, records).ok());
  const std::string whole = slurp(path_);
  const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  const std::vector<TuningRecord> first_two(records.begin(), records.begin() + 2);
  for (size_t size = last; size < whole.size(); ++size) {
    const TuningTable table = TuningTable::parse(whole.substr(0, size));
    // The last byte is the line's end: without it the record is whole.
    const bool is_whole = size == whole.size() - 1;
    EXPECT_EQ(table.records(), is_whole ? records : first_two) << size;
    EXPECT_EQ(table.defects().malformed_lines, is_whole || size == last ? 0 : 1) << size;
  }
}

TEST_F(Table, AnAppendAfterATruncationAtAnyByteIsRead) {
  const TuningRecord record = sample_record();
  const std::string whole = kHeader + record_line(record);
  const TuningRecord next = many_records(1, 77)[0];
  const size_t header = std::string(kHeader).size();
  for (size_t size = 0; size < whole.size(); ++size) {
    // Within the record's middle every byte is like the next.
    const bool is_middle = size > header + 60 && size + 30 < whole.size();
    if (is_middle && size % 29 != 0) continue;
    spill(path_, whole.substr(0, size));
    ASSERT_TRUE(append_records(path_, {next}).ok()) << size;
    const TuningTable table = load();
    ASSERT_FALSE(table.records().empty()) << size;
    EXPECT_EQ(table.records().back(), next) << size;
    EXPECT_EQ(table.records().size(), size == whole.size() - 1 ? 2u : 1u) << size;
    EXPECT_TRUE(slurp(path_).starts_with(kHeader)) << size;
  }
}

TEST_F(Table, FlippedBitsNeverMakeARecordThatWasNotWritten) {
  const std::vector<TuningRecord> records = many_records(3);
  std::string text = kHeader;
  for (const TuningRecord& record : records) text += record_line(record);
  int damaged = 0;
  for (size_t i = 0; i < text.size(); i += 3) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    const TuningTable table = TuningTable::parse(changed);
    for (const TuningRecord& record : table.records()) {
      EXPECT_NE(std::find(records.begin(), records.end(), record), records.end()) << i;
    }
    EXPECT_LE(table.records().size(), records.size());
    EXPECT_TRUE(table.defects().malformed_lines > 0 || table.defects().newer_version > 0) << i;
    if (table.records().size() < records.size()) ++damaged;
  }
  EXPECT_GT(damaged, 100);
}

TEST_F(Table, ADigitThatWasEditedIsNoticed) {
  std::string text = kHeader + record_line(sample_record());
  const size_t at = text.find("\"ms\":1.25");
  ASSERT_NE(at, std::string::npos);
  text[at + 7] = '9';
  const TuningTable table = TuningTable::parse(text);
  EXPECT_TRUE(table.records().empty());
  EXPECT_EQ(table.defects().first, "line 2: its checksum is another: it was torn or changed");
}

TEST_F(Table, LinesThatAreNoRecordsAreCountedAndSkipped) {
  const TuningRecord record = sample_record();
  const std::string text = kHeader + std::string("# mine\n") + record_line(record) + "\n{}\n";
  const TuningTable table = TuningTable::parse(text);
  EXPECT_EQ(table.records(), std::vector<TuningRecord>{record});
  EXPECT_EQ(table.defects().malformed_lines, 2);
  EXPECT_EQ(table.defects().first, "line 2: not a record's line");
}

TEST_F(Table, TwoFilesOneAfterTheOtherAreATable) {
  const std::vector<TuningRecord> records = many_records(2);
  const std::string text = kHeader + record_line(records[0]) + kHeader + record_line(records[1]);
  const TuningTable table = TuningTable::parse(text);
  EXPECT_EQ(table.records(), records);
  EXPECT_EQ(table.defects().malformed_lines, 0);
}

// As git writes it out on Windows.
TEST_F(Table, LinesMayEndInCrlf) {
  const std::vector<TuningRecord> records = many_records(2);
  std::string text = kHeader + record_line(records[0]);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\r\n");
  spill(path_, text);
  ASSERT_TRUE(append_records(path_, {records[1]}).ok());
  EXPECT_EQ(load().records(), records);
  EXPECT_EQ(load().defects().malformed_lines, 0);
}

TEST_F(Table, OfANewerFormatNothingIsReadOrWritten) {
  const std::string text = kNewerHeader + record_line(sample_record());
  spill(path_, text);
  const auto table = TuningTable::load(path_);
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(table.status().message().find("version 2 of the format: this library knows 1"),
            std::string::npos)
      << table.status().message();
  const Status appended = append_records(path_, many_records(1));
  EXPECT_EQ(appended.code(), StatusCode::kUnsupported);
  EXPECT_NE(appended.message().find("nothing was written"), std::string::npos);
  const auto rewritten = rewrite_table(path_, folder_ / "old", [](TuningTable t) { return t; });
  EXPECT_EQ(rewritten.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(slurp(path_), text);
}

TEST_F(Table, AnotherKindOfFileIsNotAppendedTo) {
  const std::string text = "export PATH=/bin\n";
  spill(path_, text);
  const Status status = append_records(path_, many_records(1));
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("does not begin as a tuning table"), std::string::npos);
  EXPECT_EQ(slurp(path_), text);
}

TEST_F(Table, MayBeReadWithoutWhatLost) {
  std::vector<TuningRecord> records = many_records(4);
  records[1].chosen = records[2].chosen = false;
  records[3].reason = "\"chosen\":false";  // quoted in the file, and no field
  ASSERT_TRUE(append_records(path_, records).ok());
  spill(path_, slurp(path_) + "torn");
  const auto winners = TuningTable::load(path_, TableContent::kWinners);
  ASSERT_TRUE(winners.ok()) << winners.status().message();
  EXPECT_EQ(winners->records(), (std::vector<TuningRecord>{records[0], records[3]}));
  EXPECT_EQ(winners->defects().malformed_lines, 1);
  EXPECT_EQ(load().records(), records);
}

TEST_F(Table, MergeAddsWhatIsNotThereYet) {
  const std::vector<TuningRecord> records = many_records(4);
  TuningTable a, b;
  a.add(records[0]);
  a.add(records[1]);
  b.add(records[1]);
  b.add(records[2]);
  b.add(records[2]);
  EXPECT_EQ(a.merge(b), 1);
  EXPECT_EQ(a.records(), std::vector<TuningRecord>(records.begin(), records.begin() + 3));
  EXPECT_EQ(a.merge(b), 0);
}

TEST_F(Table, ExportIsTheSameForTheSameRecordsAndReadsBack) {
  std::vector<TuningRecord> records = many_records(6);
  records.push_back(sample_record(a100(), 1024));
  TuningTable one, other;
  for (const TuningRecord& record : records) one.add(record);
  std::reverse(records.begin(), records.end());
  for (const TuningRecord& record : records) other.add(record);
  other.add(records[0]);  // once more
  EXPECT_EQ(one.canonical_text(), other.canonical_text());
  const TuningTable again = TuningTable::parse(one.canonical_text());
  EXPECT_EQ(again.records().size(), records.size());
  EXPECT_EQ(again.canonical_text(), one.canonical_text());
}

TEST_F(Table, RewriteKeepsTheOldBytesAsABackupAndTheModeOfTheFile) {
  const std::vector<TuningRecord> records = many_records(3);
  ASSERT_TRUE(append_records(path_, records).ok());
  spill(path_, slurp(path_) + "torn");
  ::chmod(path_.c_str(), 0640);
  const std::string old = slurp(path_);
  const auto changed = rewrite_table(path_, folder_ / "old", [](const TuningTable& table) {
    EXPECT_EQ(table.defects().malformed_lines, 1);
    TuningTable kept;
    kept.add(table.records()[1]);
    return kept;
  });
  ASSERT_TRUE(changed.ok()) << changed.status().message();
  EXPECT_TRUE(*changed);
  EXPECT_EQ(slurp(folder_ / "old"), old);
  EXPECT_EQ(load().records(), std::vector<TuningRecord>{records[1]});
  EXPECT_EQ(load().defects().malformed_lines, 0);
  struct stat info = {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_EQ(names_in(folder_.path()).size(), 2u) << "a temporary was left";
}

// Else the second of two prunes would put the pruned file over the backup of the first.
TEST_F(Table, RewriteThatChangesNothingWritesNothing) {
  ASSERT_TRUE(append_records(path_, many_records(2)).ok());
  spill(folder_ / "old", "what was there before");
  const auto changed = rewrite_table(path_, folder_ / "old", [](TuningTable t) { return t; });
  ASSERT_TRUE(changed.ok()) << changed.status().message();
  EXPECT_FALSE(*changed);
  EXPECT_EQ(slurp(folder_ / "old"), "what was there before");
}

TEST_F(Table, RewriteOfALinkRewritesTheFileItNames) {
  ASSERT_TRUE(append_records(path_, many_records(2)).ok());
  const std::string link = folder_ / "link";
  std::filesystem::create_symlink(path_, link);
  ASSERT_TRUE(rewrite_table(link, "", [](const TuningTable&) { return TuningTable(); }).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(load().records().empty());
}

class DefaultPath : public ::testing::Test {
 protected:
  void TearDown() override {
    if (was_set_) {
      ::setenv("LSSAR_TUNING_TABLE", old_.c_str(), 1);
    } else {
      ::unsetenv("LSSAR_TUNING_TABLE");
    }
  }
  const bool was_set_ = std::getenv("LSSAR_TUNING_TABLE") != nullptr;
  const std::string old_ = was_set_ ? std::getenv("LSSAR_TUNING_TABLE") : "";
};

TEST_F(DefaultPath, IsInTheCacheUnlessTheEnvironmentSaysOtherwise) {
  ::unsetenv("LSSAR_TUNING_TABLE");
  EXPECT_EQ(default_table_path("/c"), "/c/tuning.jsonl");
  EXPECT_EQ(default_table_path(""), "");
  ::setenv("LSSAR_TUNING_TABLE", "/shared/table.jsonl", 1);
  EXPECT_EQ(default_table_path("/c"), "/shared/table.jsonl");
  EXPECT_EQ(default_table_path(""), "/shared/table.jsonl");
  ::setenv("LSSAR_TUNING_TABLE", "none", 1);
  EXPECT_EQ(default_table_path("/c"), "");
  ::setenv("LSSAR_TUNING_TABLE", "", 1);
  EXPECT_EQ(default_table_path("/c"), "/c/tuning.jsonl");
}

TEST(ShippedTable, HasNoLineThatIsNoRecord) {
  const TableDefects& defects = shipped_table().defects();
  EXPECT_EQ(defects.malformed_lines, 0) << defects.first;
  EXPECT_EQ(defects.newer_version, 0) << defects.first;
  EXPECT_EQ(shipped_table().name(), "shipped table");
}

}  // namespace
}  // namespace lssar
