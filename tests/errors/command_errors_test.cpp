// Every failure of the command: its exit code, and one line that names what is wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/npy.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

// One line, from the command itself, with `text` in it.
void expect_failure(const CommandResult& result, int exit_code, const std::string& text) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.err.rfind("lssar: ", 0), 0u) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
}

void write_tensor(const std::string& path, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 37) % 19) - 9.0f;
  ASSERT_TRUE(write_npy_float32(path, shape, values).ok());
}

class CommandErrors : public ::testing::Test {
 protected:
  CommandRunner command_;
};

class RunErrors : public CommandErrors {
 protected:
  void SetUp() override {
    write_tensor(command_.path("q.npy"), {1, 2, 8, 32});
    write_tensor(command_.path("k.npy"), {1, 2, 8, 32});
    write_tensor(command_.path("v.npy"), {1, 2, 8, 32});
    write_tensor(command_.path("do.npy"), {1, 2, 8, 32});
  }

  CommandResult run(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run",
                                          "--q",
                                          command_.path("q.npy"),
                                          "--k",
                                          command_.path("k.npy"),
                                          "--v",
                                          command_.path("v.npy"),
                                          "--out",
                                          command_.path("results")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return command_.run(arguments);
  }
};

TEST_F(CommandErrors, NoSubcommand) { expect_failure(command_.run({}), 2, "subcommand"); }

TEST_F(CommandErrors, UnknownSubcommand) { expect_failure(command_.run({"fly"}), 2, "fly"); }

TEST_F(CommandErrors, UnknownOption) {
  expect_failure(command_.run({"emit", "--colour", "red"}), 2, "--colour");
}

TEST_F(CommandErrors, OptionThatIsNoNumber) {
  expect_failure(command_.run({"emit", "--head-dim", "wide"}), 2, "wide");
}

TEST_F(CommandErrors, HeadDimOutOfRange) {
  expect_failure(command_.run({"emit", "--head-dim", "7"}), 2, "head_dim = 7");
}

TEST_F(CommandErrors, UnknownDtypeListsTheKnownOnes) {
  const CommandResult result = command_.run({"emit", "--dtype", "int8"});
  expect_failure(result, 2, "int8");
  EXPECT_NE(result.err.find("bf16"), std::string::npos) << result.err;
}

TEST_F(CommandErrors, UnknownPass) {
  expect_failure(command_.run({"emit", "--pass", "sideways"}), 2, "sideways");
}

TEST_F(CommandErrors, BadWindow) {
  const char* const allowed = "allowed are two numbers, L,R, from -1 to 2147483647";
  for (const char* text : {"5", "5,", ",5", "5,x", "5,6,7", "-2,0", "5,2147483648"})
    expect_failure(command_.run({"emit", std::string("--window=") + text}), 2, allowed);
  expect_failure(command_.run({"emit", "--chunk=-1"}), 2, "whole numbers from 0 to 2147483647");
}

TEST_F(CommandErrors, InvariantFixesTheOrderOfSums) {
  expect_failure(command_.run({"emit", "--invariant", "--target", "sm_90a", "--schedule",
                               R"({"variant": "hopper"})"}),
                 2, "schedule.variant = hopper: not with problem.invariant");
  expect_failure(command_.run({"prepare", "--invariant", "--device", "virtual", "--schedule",
                               R"({"forward": {"block_cols": 32}})"}),
                 2, "schedule.forward.block_cols = 32: allowed is 64 with problem.invariant");
}

TEST_F(CommandErrors, HopperRefusesToStaggerAWindow) {
  expect_failure(command_.run({"emit", "--window", "5,0", "--target", "sm_90a", "--schedule",
                               R"({"hopper": {"stagger": 2}})"}),
                 2, "schedule.hopper.stagger = 2: with problem.window_left");
}

TEST_F(CommandErrors, UnknownTargetListsTheKnownOnes) {
  const CommandResult result = command_.run({"emit", "--target", "sm_75"});
  expect_failure(result, 2, "sm_75");
  EXPECT_NE(result.err.find("sm_80"), std::string::npos) << result.err;
}

TEST_F(CommandErrors, EmitIntoAMissingFolder) {
  expect_failure(command_.run({"emit", "-o", command_.path("nowhere/kernel.cu")}), 5, "nowhere");
}

TEST_F(CommandErrors, ProblemFileMissing) {
  expect_failure(command_.run({"emit", "--problem", command_.path("none.json")}), 5, "none.json");
}

TEST_F(CommandErrors, ProblemFileThatIsNotJson) {
  const std::string file = command_.write("problem.json", "{\"head_dim\": ");
  const CommandResult result = command_.run({"emit", "--problem", file});
  expect_failure(result, 2, "problem.json: not JSON: line 1, column 14: the text ends too early");
  EXPECT_EQ(result.err.find("json.exception"), std::string::npos) << result.err;
}

// Silently the last one of them, or the words of the JSON library, are no help.
TEST_F(CommandErrors, ProblemFileWithAKeyTwice) {
  const std::string file = command_.write("problem.json", "{\"p\": 3, \"p\": 4}");
  expect_failure(command_.run({"emit", "--problem", file}), 2,
                 "problem.json: \"p\": the object has this key twice");
}

TEST_F(CommandErrors, ProblemFileWithAnUnknownField) {
  const std::string file = command_.write("problem.json", "{\"head_dimension\": 64}");
  expect_failure(command_.run({"emit", "--problem", file}), 2, "head_dimension");
}

TEST_F(CommandErrors, ScheduleThatIsNotLegal) {
  const std::string file = command_.write("schedule.json", "{\"softplus_degree\": 99}");
  expect_failure(command_.run({"emit", "--schedule", file}), 2, "softplus_degree = 99");
}

TEST_F(CommandErrors, ScheduleFileWithAnUnknownField) {
  const std::string file = command_.write("schedule.json", "{\"speed\": 9}");
  expect_failure(command_.run({"emit", "--schedule", file}), 2, "speed");
}

TEST_F(CommandErrors, VerifyNeedsALength) {
  expect_failure(command_.run({"verify", "--head-dim", "32"}), 2, "seq");
}

TEST_F(CommandErrors, VerifyWithUnknownData) {
  expect_failure(command_.run({"verify", "--seq", "8", "--data", "salt"}), 2, "salt");
}

TEST_F(CommandErrors, UnknownDevice) {
  expect_failure(command_.run({"verify", "--seq", "8", "--device", "abacus"}), 2, "abacus");
}

TEST_F(CommandErrors, UnknownCompiler) {
  expect_failure(command_.run({"verify", "--seq", "8", "--compiler", "pencil"}), 2, "pencil");
}

TEST_F(CommandErrors, CompilerMissing) {
  expect_failure(command_.run({"verify", "--seq", "8", "--head-dim", "32", "--device", "virtual",
                               "--compiler", "nvrtc"},
                              {"LSSAR_NVRTC_PATH=none"}),
                 3, "NVRTC");
}

TEST_F(CommandErrors, NoCompilerAtAll) {
  expect_failure(command_.run({"verify", "--seq", "8", "--head-dim", "32", "--device", "virtual"},
                              {"LSSAR_NVRTC_PATH=none", "LSSAR_LLVM_PATH=none"}),
                 3, "LLVM");
}

TEST_F(CommandErrors, DoctorWithoutACompiler) {
  expect_failure(command_.run({"doctor"}, {"LSSAR_NVRTC_PATH=none", "LSSAR_LLVM_PATH=none"}), 3,
                 "no compiler");
}

TEST_F(CommandErrors, NumbersThatAreWrongExitWithOne) {
  // A polynomial of degree 3 errs by 4e-4, far beyond what fp32 allows.
  const std::string file = command_.write("schedule.json", "{\"softplus_degree\": 3}");
  const CommandResult result =
      command_.run({"verify", "--causal", "--seq", "24", "--head-dim", "32", "--dtype", "fp32",
                    "--device", "virtual", "--schedule", file});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.out.find("WRONG"), std::string::npos) << result.out;
}

TEST_F(RunErrors, InputFileMissing) {
  std::filesystem::remove(command_.path("k.npy"));
  expect_failure(run({}), 5, "k.npy");
}

TEST_F(RunErrors, InputFileTruncated) {
  std::filesystem::resize_file(command_.path("k.npy"), 200);
  expect_failure(run({}), 2, "k.npy");
}

TEST_F(RunErrors, InputFileThatIsNoNpy) {
  command_.write("v.npy", "not an array");
  expect_failure(run({}), 2, "v.npy");
}

TEST_F(RunErrors, TensorWithThreeDimensions) {
  write_tensor(command_.path("q.npy"), {2, 8, 32});
  expect_failure(run({}), 2, "3 dimensions");
}

TEST_F(RunErrors, KeysThatDoNotFitTheQueries) {
  write_tensor(command_.path("k.npy"), {1, 2, 8, 64});
  expect_failure(run({}), 2, "--k");
}

TEST_F(RunErrors, ValuesThatDoNotFitTheKeys) {
  write_tensor(command_.path("v.npy"), {1, 2, 9, 32});
  expect_failure(run({}), 2, "--v");
}

TEST_F(RunErrors, KvHeadsThatDoNotDivideHeads) {
  write_tensor(command_.path("q.npy"), {1, 3, 8, 32});
  expect_failure(run({}), 2, "kv_heads = 2");
}

TEST_F(RunErrors, HeadDimOfFilesNotSupported) {
  for (const char* name : {"q.npy", "k.npy", "v.npy"})
    write_tensor(command_.path(name), {1, 1, 4, 12});
  expect_failure(run({}), 2, "head_dim = 12");
}

TEST_F(RunErrors, SizeOptionThatDisagreesWithTheFiles) {
  expect_failure(run({"--seq", "9"}), 2, "--seq = 9");
}

TEST_F(RunErrors, SizeInTheProblemFileThatDisagrees) {
  const std::string file = command_.write("problem.json", "{\"heads\": 4, \"kv_heads\": 2}");
  expect_failure(run({"--problem", file}), 2, "heads = 4");
}

TEST_F(RunErrors, BackwardWithoutGradient) {
  expect_failure(run({"--pass", "backward"}), 2, "--do");
}

TEST_F(RunErrors, ForwardWithGradient) {
  expect_failure(run({"--do", command_.path("do.npy")}), 2, "--do");
}

TEST_F(RunErrors, ForwardForTrainingIsNoPassOfRun) {
  expect_failure(run({"--pass", "forward-train"}), 2, "forward-train");
}

TEST_F(RunErrors, PassesOverRangesOfKeysAreForPrograms) {
  expect_failure(run({"--pass", "row-sums"}), 2, "pass = row-sums: its results are merged by a");
}

TEST_F(RunErrors, OutputFolderThatIsAFile) {
  command_.write("results", "in the way");
  expect_failure(run({}), 5, "results");
}

TEST_F(RunErrors, OutputFileThatIsAFolderLeavesNothing) {
  std::filesystem::create_directories(command_.path("results/dk.npy/full"));
  expect_failure(
      run({"--pass", "backward", "--do", command_.path("do.npy"), "--device", "virtual", "-q"}), 5,
      "dk.npy");
  EXPECT_FALSE(std::filesystem::exists(command_.path("results/dq.npy")));
  EXPECT_FALSE(std::filesystem::exists(command_.path("results/dv.npy")));
}

TEST_F(RunErrors, InputsAreRefusedBeforeTheFolderIsMade) {
  run({"--seq", "9"});
  EXPECT_FALSE(std::filesystem::exists(command_.path("results")));
}

TEST_F(RunErrors, CountersOnAGpu) {
  expect_failure(run({"--counters", "--device", "cuda"}), 2, "--counters");
}

}  // namespace
}  // namespace lssar
