// lssar inspect as a user sees it. Machine code needs a disassembler, which tests do not: what is
// said without one is tested, and what is shown with one where it is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using Environment = std::vector<std::string>;
using testing::Not;

std::vector<std::string> inspect(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"inspect", "--head-dim", "64",    "--device",
                                        "virtual", "--target",   "sm_80", "--causal"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(InspectCommand, ShowsResourcesCountsAndTheLinesThatLoseMost) {
  const CommandRunner command;
  const CommandResult result = command.run(inspect({"--seq", "130"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"lssar_forward_bf16_d64_p15_causal, key ", "limited by",
                           "Counted on the virtual device: batch 1, heads 1, 130 queries, 130 keys",
                           "special function", "Lines of the source that lose most"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("a line that is not known")));
}

TEST(InspectCommand, TheDiffOfTwoPowersIsThePowerChainAndNothingElse) {
  const CommandRunner command;
  const CommandResult result =
      command.run(inspect({"--diff", "p=3", "p=15", "--no-count", "--seq", "512"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  std::string line, changed;
  bool in_diff = true;
  while (std::getline(lines, line)) {
    in_diff = in_diff && line.rfind("lssar_", 0) != 0;  // the tables begin with a kernel's name
    const bool is_heading = line.rfind("---", 0) == 0 || line.rfind("+++", 0) == 0;
    if (in_diff && !is_heading && !line.empty() && (line[0] == '+' || line[0] == '-'))
      changed += line + "\n";
  }
  EXPECT_EQ(changed,
            "-  static constexpr int kPower = 3;\n"
            "+  static constexpr int kPower = 15;\n"
            "-    return u2 * u;\n"
            "+    const float u4 = u2 * u2;\n"
            "+    const float u5 = u4 * u;\n"
            "+    const float u10 = u5 * u5;\n"
            "+    return u10 * u5;\n")
      << result.out;
}

TEST(InspectCommand, DiffsOfSchedulesAndTargetsNameWhatIsNoField) {
  const CommandRunner command;
  const CommandResult schedule =
      command.run(inspect({"--diff", "forward.stages=2", "forward.stages=3", "--no-count"}));
  ASSERT_EQ(schedule.exit_code, 0) << schedule.err;
  EXPECT_THAT(schedule.out, HasSubstr("shared bytes"));
  const CommandResult wrong =
      command.run(inspect({"--diff", "forward.stags=2", "p=3", "--no-count"}));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("'forward.stags' is no field"));
}

TEST(InspectCommand, AnEditedFileIsInspected) {
  const CommandRunner command;
  const std::string file = command.path("kernel.cu");
  ASSERT_EQ(command.run({"emit", "--head-dim", "64", "--seq", "96", "-o", file}).exit_code, 0);
  std::ofstream(file, std::ios::app) << "// edited by hand\n";
  const CommandResult source =
      command.run({"inspect", file, "--device", "virtual", "--view", "source"});
  ASSERT_EQ(source.exit_code, 0) << source.err;
  EXPECT_THAT(source.out, HasSubstr("// edited by hand"));
  const CommandResult result = command.run({"inspect", file, "--device", "virtual", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_FALSE(json["counted"]["lines"].empty());
  EXPECT_EQ(json["counted"]["sizes"]["seq_q"], 96);
}

TEST(InspectCommand, AFileThatLssarDidNotWriteIsRefused) {
  const CommandRunner command;
  const std::string file = command.write("other.cu", "__global__ void k() {}\n");
  const CommandResult result = command.run({"inspect", file, "--device", "virtual"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("no line \"// request:"));
}

TEST(InspectCommand, AKeyOfTheCacheIsAKernel) {
  const CommandRunner command;
  const CommandResult first = command.run(inspect({"--no-count", "--json"}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string key = nlohmann::json::parse(first.out)["key"];
  const CommandResult again =
      command.run({"inspect", key, "--device", "virtual", "--no-count", "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out)["key"], key);
  const CommandResult none = command.run({"inspect", std::string(64, '0'), "--device", "virtual"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("no such entry"));
}

// `lssar cache ls` prints 16 digits.
TEST(InspectCommand, TheFirstDigitsOfAKeyAreEnoughWhereTheyAreOneKernels) {
  const CommandRunner command;
  const Environment cache = {"LSSAR_CACHE_DIR=" + command.path("keys")};
  ASSERT_EQ(command.run(inspect({"--no-count"}), cache).exit_code, 0);
  const std::string listed = command.run({"cache", "ls"}, cache).out;
  const CommandResult one =
      command.run({"inspect", listed.substr(0, 16), "--device", "virtual", "--no-count"}, cache);
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("lssar_forward_bf16_d64_p15_causal, key "));
  // Two entries that begin alike.
  const std::string key =
      nlohmann::json::parse(command.run({"cache", "ls", "--json"}, cache).out)[0]["key"];
  const std::string twin = key.substr(0, 60) + (key.ends_with("beef") ? "feed" : "beef");
  std::filesystem::copy_file(command.path("keys/entries/" + key),
                             command.path("keys/entries/" + twin));
  const CommandResult two =
      command.run({"inspect", key.substr(0, 16), "--device", "virtual", "--no-count"}, cache);
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_THAT(two.err, HasSubstr("2 entries of the binary cache begin like this: "));
  EXPECT_THAT(two.err, HasSubstr(key));
  EXPECT_THAT(two.err, HasSubstr(twin));
  EXPECT_EQ(command.run({"inspect", "0000", "--device", "virtual", "--no-count"}, cache).exit_code,
            2);
}

TEST(InspectCommand, WithoutADisassemblerItSaysHowToGetOne) {
  const CommandRunner command;
  const CommandResult result = command.run(inspect({"--no-count"}), {"LSSAR_NVDISASM=none"});
  const CommandResult side = command.run(inspect({"--view", "side"}), {"LSSAR_NVDISASM=none"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no machine code: "));
  EXPECT_EQ(side.exit_code, 3);
}

}  // namespace
}  // namespace lssar
