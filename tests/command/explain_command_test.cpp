// lssar explain as a user sees it: on the virtual device, for a target no machine need have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kSmall = {"explain", "--head-dim", "64",      "--seq",
                                         "512",     "--device",   "virtual", "--target",
                                         "sm_80",   "--table",    "none",    "--causal"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(ExplainCommand, ShowsChoiceLimitKernelsAndWhatElseThereWas) {
  const CommandRunner command;
  const CommandResult result = command.run(kSmall);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"problem    forward causal bf16 d 64", "Estimated ", "instruction slots",
                           "lssar_forward ", "limited by", "Evidence: ", "1  chosen",
                           "slower by the model", "not legal, e.g. schedule."}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
}

TEST(ExplainCommand, JsonIsOneObjectWithTheSameCounts) {
  const CommandRunner command;
  const CommandResult result = command.run(with(kSmall, {"--json", "--shown", "4"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["candidates"].size(), 4u);
  EXPECT_EQ(json["candidates"][0]["standing"], "chosen");
  EXPECT_FALSE(json["choice"]["reason"].get<std::string>().empty());
  ASSERT_FALSE(json["kernels"]["kernels"].empty());
  EXPECT_GT(json["kernels"]["kernels"].back()["blocks_per_sm"].get<int>(), 0);
}

TEST(ExplainCommand, AGivenScheduleIsExplainedToo) {
  const CommandRunner command;
  const std::string schedule = command.write("s.json", R"({"softplus_degree": 5})");
  const CommandResult result = command.run(with(kSmall, {"--schedule", schedule, "--no-compile"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("schedule   given by the caller"));
  EXPECT_THAT(result.out, HasSubstr("against the default: softplus_degree 5"));
}

// Kernels of expressions read no polynomial degree and no evaluator, so nothing shows these fields.
TEST(ExplainCommand, ShowsTheScoreFunctionAndTheFieldsThatItsKernelsRead) {
  const CommandRunner command;
  const std::vector<std::string> softmax = {"--score",    "softmax", "--p",      "0",
                                            "--head-dim", "64",      "--device", "virtual",
                                            "--target",   "sm_90a"};
  const CommandResult result =
      command.run(with({"explain", "--seq", "512", "--table", "none", "--no-compile"}, softmax));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("computes   s = 1 / sqrt(d) q.k"));
  const CommandResult emitted =
      command.run({"emit", "--score", "softmax", "--p", "0", "--target", "sm_90a"});
  ASSERT_EQ(emitted.exit_code, 0) << emitted.err;
  EXPECT_THAT(emitted.out, HasSubstr("// s = 1 / sqrt(d) q.k"));
  for (const std::string& text : {result.out, emitted.out})
    EXPECT_THAT(text, testing::Not(HasSubstr("softplus_degree")));
  for (const char* field : {"hopper.evaluator", "hopper.score_cols", "hopper.stagger"})
    EXPECT_THAT(emitted.out, testing::Not(HasSubstr(field)));
}

TEST(ExplainCommand, ATableThatCannotBeReadIsAnError) {
  const CommandRunner command;
  const std::string table =
      command.write("t.jsonl", R"({"format":"lssar-tuning-table","version":99})");
  const CommandResult result =
      command.run({"explain", "--device", "virtual", "--table", table, "--no-compile"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("version 99"));
}

}  // namespace
}  // namespace lssar
