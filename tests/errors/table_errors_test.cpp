// Every failure of `lssar table`: its exit code, and one line that names what is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/command/command_runner.h"

namespace lssar {
namespace {

constexpr char kNewer[] = "{\"format\":\"lssar-tuning-table\",\"version\":2}\n";

class TableErrors : public ::testing::Test {
 protected:
  void expect_failure(std::vector<std::string> arguments, int exit_code, const std::string& text,
                      const std::vector<std::string>& environment = {}) {
    arguments.insert(arguments.begin(), "table");
    const CommandResult result = command_.run(arguments, environment);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    EXPECT_EQ(result.err.rfind("lssar: ", 0), 0u) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  }

  CommandRunner command_;
};

TEST_F(TableErrors, NothingToDo) { expect_failure({}, 2, "no subcommand: allowed are ls"); }

TEST_F(TableErrors, UnknownThingToDo) { expect_failure({"polish"}, 2, "polish"); }

TEST_F(TableErrors, NoTable) {
  expect_failure({"ls"}, 2, "no tuning table: LSSAR_TUNING_TABLE is none",
                 {"LSSAR_TUNING_TABLE=none"});
}

TEST_F(TableErrors, TableThatIsNamedAndMissing) {
  const std::string path = command_.path("none.jsonl");
  expect_failure({"ls", "--table", path}, 5, "none.jsonl' is missing");
  expect_failure({"show", "--table", path}, 5, "is missing");
  expect_failure({"export", "-", "--table", path}, 5, "is missing");
  expect_failure({"prune", "--table", path}, 5, "none.jsonl");
}

TEST_F(TableErrors, FileToImportMissing) {
  expect_failure({"import", command_.path("none.jsonl"), "--table", command_.path("t.jsonl")}, 5,
                 "none.jsonl' is missing");
  EXPECT_FALSE(std::filesystem::exists(command_.path("t.jsonl")));
}

TEST_F(TableErrors, FileToMergeMissing) {
  expect_failure({"merge", command_.path("none.jsonl"), "-o", command_.path("t.jsonl")}, 5,
                 "none.jsonl' is missing");
  EXPECT_FALSE(std::filesystem::exists(command_.path("t.jsonl")));
}

TEST_F(TableErrors, FileOfANewerVersion) {
  const std::string newer = command_.write("newer.jsonl", kNewer);
  const std::string table = command_.path("t.jsonl");
  expect_failure({"ls", "--table", newer}, 2, "version 2 of the format: this library knows 1");
  expect_failure({"import", newer, "--table", table}, 2, "version 2 of the format");
  expect_failure({"merge", newer, "-o", table}, 2, "version 2 of the format");
  expect_failure({"prune", "--table", newer}, 2, "version 2 of the format");
  EXPECT_FALSE(std::filesystem::exists(table));
}

TEST_F(TableErrors, FileOfAnotherKind) {
  const std::string other = command_.write("notes.txt", "not a table\n");
  expect_failure({"ls", "--table", other}, 2, "has no record: 1 lines are no records");
  expect_failure({"import", other, "--table", command_.path("t.jsonl")}, 2, "has no record");
  expect_failure({"prune", "--table", other}, 5, "does not begin as a tuning table");
}

TEST_F(TableErrors, OutputThatCannotBeWritten) {
  const std::string table =
      command_.write("t.jsonl", "{\"format\":\"lssar-tuning-table\",\"version\":1}\n");
  expect_failure({"export", command_.path("no/such/folder"), "--table", table}, 5, "no/such");
  expect_failure({"merge", table, "-o", command_.path("no/such/folder")}, 5, "no/such");
}

}  // namespace
}  // namespace lssar
