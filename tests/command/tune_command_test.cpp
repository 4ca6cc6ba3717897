// The command `lssar tune`: what it prints and keeps, and what it refuses.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/command/command_runner.h"

namespace lssar {
namespace {

class TuneCommand : public testing::Test {
 protected:
  CommandResult tune(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"tune",  "--device", "virtual", "--head-dim", "32",
                                          "--seq", "96",       "--p",     "3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return command_.run(arguments);
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(command_.path(name)) << text;
  }
  void expect_refused(const CommandResult& result, int exit_code, const std::string& text) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  }

  CommandRunner command_;
};

TEST_F(TuneCommand, FindsKeepsAndKnowsNextTime) {
  const std::string table = command_.path("tuning.jsonl");
  const std::string json = command_.path("found.json");
  const CommandResult first = tune({"--budget", "quick", "--table", table, "--json", json});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  for (const char* text : {"predicted, not measured", "Why the others fell", "not legal",
                           "Their resources", "The default takes", "kept in "}) {
    EXPECT_NE(first.out.find(text), std::string::npos) << text << first.out;
  }
  for (const char* text : {"tunes for sm_80 on the virtual device: times are predicted", "blocks"})
    EXPECT_NE(first.err.find(text), std::string::npos) << first.err;

  std::stringstream text;
  text << std::ifstream(json).rdbuf();
  const nlohmann::json found = nlohmann::json::parse(text.str());
  ASSERT_EQ(found.size(), 1u);
  uint64_t rejected = 0;
  for (const auto& [rule, count] : found[0]["rejected_by_rule"].items()) {
    rejected += count.get<uint64_t>();
  }
  EXPECT_EQ(found[0]["combinations"].get<uint64_t>(),
            found[0]["candidates"].size() + rejected + found[0]["duplicates"].get<uint64_t>());
  EXPECT_EQ(found[0]["winner"]["evidence"], "predicted");
  const bool was_cut = first.out.find("The budget ran out") != std::string::npos;
  for (const std::string from : {"tuned", "default"}) {
    std::vector<std::string> prepare = {"prepare", "--device", "virtual", "--head-dim", "32",
                                        "--seq",   "96",       "--p",     "3",          "--json"};
    if (from == "default") prepare.push_back("--untuned");
    const CommandResult prepared = command_.run(prepare, {"LSSAR_TUNING_TABLE=" + table});
    const auto kernel = nlohmann::json::parse(prepared.out, nullptr, false);
    ASSERT_TRUE(kernel.is_object()) << prepared.err;
    EXPECT_EQ(kernel["schedule_from"], from);
    // On a busy machine the budget may end a search that has timed nothing but the default.
    if (from == "tuned" || !was_cut) {
      EXPECT_EQ(kernel["schedule"] == found[0]["winner"]["schedule"], from == "tuned");
    }
  }

  // On a busy machine the budget may end a search: the next one goes on.
  CommandResult second = tune({"--budget", "quick", "--table", table, "-q"});
  for (int i = 0; i < 5 && second.out.find("The budget ran out") != std::string::npos; ++i)
    second = tune({"--budget", "quick", "--table", table, "-q"});
  if (second.out.find("the table has the answer already") == std::string::npos)
    second = tune({"--budget", "quick", "--table", table, "-q"});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.err, "");
  EXPECT_NE(second.out.find("the table has the answer already"), std::string::npos) << second.out;
}

TEST_F(TuneCommand, ListsTheSpace) {
  const CommandResult listed = tune({"--list"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  for (const char* text : {"algorithm", "block", "thread", "forward.block_cols"}) {
    EXPECT_NE(listed.out.find(text), std::string::npos) << text << listed.out;
  }
}

// The problem's own rules leave only what changes no bit, and no Hopper kernel.
TEST_F(TuneCommand, ListsTheSpaceOfFeatures) {
  const CommandResult packed = command_.run(
      {"tune", "--device", "virtual", "--target", "sm_90a", "--lengths", "5,0,300:301", "--list"});
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_NE(packed.out.find(" varlen "), std::string::npos) << packed.out;
  EXPECT_NE(packed.out.find("hopper, persistent: schedule.hopper.persistent"), std::string::npos)
      << packed.out;
  EXPECT_EQ(packed.out.find("split_keys"), std::string::npos) << packed.out;
  const CommandResult few = command_.run({"tune", "--device", "virtual", "--target", "sm_90a",
                                          "--lengths", "1:700,2:90", "--list"});
  EXPECT_EQ(few.exit_code, 0) << few.err;
  EXPECT_NE(few.out.find("split_keys [512,256,1024,2048]"), std::string::npos) << few.out;
  const CommandResult invariant =
      command_.run({"tune", "--device", "virtual", "--target", "sm_90a", "--invariant", "--list"});
  EXPECT_EQ(invariant.exit_code, 0) << invariant.err;
  EXPECT_NE(invariant.out.find("hopper: schedule.variant = hopper: not with problem.invariant"),
            std::string::npos)
      << invariant.out;
}

TEST_F(TuneCommand, RefusesSequencesThatAreNone) {
  const auto refuse = [&](const std::vector<std::string>& more, const std::string& text) {
    std::vector<std::string> arguments = {"tune", "--device", "virtual", "--table", "none"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refused(command_.run(arguments), 2, text);
  };
  refuse({"--lengths", "5,x"}, "--lengths: 'x'");
  refuse({"--lengths", "5", "--seq", "64"}, "--lengths: given, but seq_q = 64");
  refuse({"--lengths", "5", "--batch", "2"}, "--lengths: given, but batch = 2; allowed is 1");
  refuse({"--lengths", "0,0"}, "seq_q = 0: tuning needs work to time");
  refuse({"--lengths", "5:0,0:3"}, "lengths = 5:0,0:3: tuning needs work to time");
  refuse({"--lengths", "5,7:6", "--rotary-dim", "32"}, "lengths[1] = 7:6: allowed with rotary_dim");
  write("one.json", "[{}]");
  refuse({"--lengths", "5", "--problems", command_.path("one.json")},
         "--lengths: given with --problems");
}

TEST_F(TuneCommand, RefusesWhatItDoesNotKnow) {
  expect_refused(tune({"--budget", "huge"}), 2, "budget = \"huge\": allowed are");
  expect_refused(command_.run({"tune", "--determinism", "maybe"}), 2, "determinism = \"maybe\"");
  const std::string table = command_.path("tuning.jsonl");
  expect_refused(tune({"--target", "sm_1", "--table", table}), 2, "sm_1");
  // The environment of these tests has no tuning table.
  expect_refused(tune({"--budget", "quick"}), 2, "--table: not given");
  expect_refused(tune({"--table", "-"}), 2, "--table = -: a table is read and written");
  EXPECT_FALSE(std::filesystem::exists("-"));
  expect_refused(tune({"--problems", command_.path("none.json")}), 5, "none.json");
  write("object.json", "{}");
  expect_refused(tune({"--problems", command_.path("object.json")}), 2,
                 "allowed is a JSON array of at least one problem");
  write("bad.json", "[{\"head_dim\": 64}, {\"head_dim\": 7}]");
  expect_refused(tune({"--problems", command_.path("bad.json")}), 2, "bad.json[1]: head_dim = 7");
  std::filesystem::create_directory(command_.path("folder"));
  expect_refused(tune({"--budget", "quick", "--table", command_.path("folder")}), 5, "folder");
}

}  // namespace
}  // namespace lssar
