// The subcommands with --device cpu and with targets of CPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>

#include "compile/compiler.h"
#include "device/cpu/cpu_features.h"
#include "runtime/open_device.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

#define LSSAR_NEEDS_CPU_DEVICE()                                                  \
  if (cpu_features().level.empty() || !open_compiler(CompilerChoice::kLlvm).ok()) \
  GTEST_SKIP() << "no AVX2, or no LLVM compiler"

TEST(CpuCommand, VerifyIsCorrectAndKeepsTheKernel) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  const Arguments arguments = {"verify",     "--device", "cpu",     "--seq", "100",
                               "--head-dim", "64",       "--heads", "4",     "--kv-heads",
                               "2",          "--causal", "--dtype", "fp32"};
  const std::vector<std::string> fresh = {"LSSAR_CACHE_DIR=" + command.path("fresh")};
  const CommandResult first = command.run(arguments, fresh);
  EXPECT_EQ(first.exit_code, 0) << first.out << first.err;
  EXPECT_THAT(first.out, HasSubstr("| compiled in "));
  EXPECT_THAT(first.out, HasSubstr("\ncorrect: "));
  const CommandResult second = command.run(arguments, fresh);
  EXPECT_EQ(second.exit_code, 0) << second.out << second.err;
  EXPECT_THAT(second.out, HasSubstr("| from the cache in "));
}

TEST(CpuCommand, VerifyOfTrainingIsCorrect) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  for (const char* pass : {"forward-train", "backward"}) {
    const CommandResult result =
        command.run({"verify", "--device", "cpu", "--pass", pass, "--seq", "70", "--head-dim", "32",
                     "--heads", "2", "--kv-heads", "1", "--causal", "--dtype", "bf16"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("\ncorrect: "));
  }
}

TEST(CpuCommand, VerifyTakesSequences) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  const Arguments verify = {"verify",     "--device", "cpu",     "--pass", "backward",
                            "--head-dim", "32",       "--heads", "2",      "--kv-heads",
                            "1",          "--causal", "--dtype", "bf16"};
  const auto run = [&](const Arguments& more) {
    Arguments all = verify;
    all.insert(all.end(), more.begin(), more.end());
    return command.run(all);
  };
  const CommandResult packed = run({"--lengths", "5,0:3,70,33:40"});
  EXPECT_EQ(packed.exit_code, 0) << packed.out << packed.err;
  EXPECT_THAT(packed.out, HasSubstr("\ndk[1] "));  // keys without queries
  EXPECT_THAT(packed.out, HasSubstr("\ndk[3] "));
  EXPECT_THAT(packed.out, HasSubstr("(1, 1, 40, 32)"));
  EXPECT_THAT(packed.out, HasSubstr("\ncorrect: "));
  const CommandResult sink =
      run({"--lengths", "5,40", "--score", "softmax,sink=per_head", "--p", "0"});
  EXPECT_EQ(sink.exit_code, 0) << sink.out << sink.err;
  EXPECT_THAT(sink.out, HasSubstr("\ndsink "));
  const CommandResult changed =
      run({"--lengths", "5,40", "--score", "softmax,soft_cap=3,alibi=per_head", "--p", "0"});
  EXPECT_EQ(changed.exit_code, 0) << changed.out << changed.err;
  for (const char* wrong : {"5,-1", "5:", "5,", "5,,3", ",", "x", "3000000000", "2147483647,1"}) {
    const CommandResult result = run({"--lengths", wrong});
    EXPECT_EQ(result.exit_code, 2) << wrong;
    EXPECT_THAT(result.err, HasSubstr("--lengths: '")) << wrong;
  }
  EXPECT_THAT(run({"--lengths", "5", "--seq", "4"}).err, HasSubstr("seq_q = 4"));
}

TEST(CpuCommand, PrepareAndDoctorNameTheDevice) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  const CommandResult prepared =
      command.run({"prepare", "--device", "cpu", "--head-dim", "64", "--dtype", "fp32", "--json"});
  ASSERT_EQ(prepared.exit_code, 0) << prepared.out << prepared.err;
  const CommandResult doctor = command.run({"doctor", "--json"});
  const auto report = nlohmann::json::parse(doctor.out);
  EXPECT_EQ(report["cpu"]["target"], cpu_features().level);
  EXPECT_GE(report["cpu"]["threads"].get<int>(), 1);
}

// ---- --device auto, where there is no GPU

constexpr char kSaysWhy[] = "--device auto takes the virtual device, which is slow: ";

class CpuCommandAuto : public testing::Test {
 protected:
  void SetUp() override {
    LSSAR_NEEDS_CPU_DEVICE();
    if (list_gpus().ok()) GTEST_SKIP() << "auto is this machine's GPU";
  }
  CommandResult verify(const Arguments& more, const Arguments& environment = {""}) const {
    Arguments all = {"verify", "--seq", "40", "--head-dim", "16", "--dtype", "fp32"};
    all.insert(all.end(), more.begin(), more.end());
    Arguments variables = {"LSSAR_DEVICE="};
    for (const std::string& variable : environment)
      if (!variable.empty()) variables.push_back(variable);
    return command_.run(all, variables);
  }

  CommandRunner command_;
};

TEST_F(CpuCommandAuto, TakesTheCpuForWhatItHas) {
  for (const Arguments& more : {Arguments{}, Arguments{"--device", "auto"},
                                Arguments{"--target", "x86-64-v3"}, Arguments{"--p", "0"}}) {
    const CommandResult result = verify(more);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr(" for x86-64-v"));
    EXPECT_THAT(result.err, Not(HasSubstr("virtual")));
  }
}

TEST_F(CpuCommandAuto, WarnsOfTheCacheOnce) {
  const CommandResult result =
      verify({}, {"LSSAR_CACHE_LAYERS=/none", "LSSAR_CACHE_DIR=/proc/none"});
  for (const char* text : {"a layer is not used", "entries stay in memory"}) {
    const size_t at = result.err.find(text);
    ASSERT_NE(at, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find(text, at + 1), std::string::npos) << result.err;
  }
}

TEST_F(CpuCommandAuto, SaysWhyItIsVirtual) {
  // NVRTC may make the GPU's kernel.
  const CommandResult no_compiler = verify({}, {"LSSAR_LLVM_PATH=none"});
  EXPECT_THAT(no_compiler.err, HasSubstr(kSaysWhy));
  EXPECT_THAT(no_compiler.err, HasSubstr("LSSAR_LLVM_PATH=none"));
}

// A command that asks for a GPU's kernels gets them, without a message.
TEST_F(CpuCommandAuto, IsVirtualForAGpusKernels) {
  for (const Arguments& more :
       {Arguments{"--target", "sm_80"}, Arguments{"--schedule", "{\"load_path\": \"plain\"}"}}) {
    const CommandResult result = verify(more);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr(" for sm_80"));
    EXPECT_THAT(result.err, Not(HasSubstr(kSaysWhy)));
  }
  const CommandResult waits = verify({}, {"LSSAR_DEBUG_WAITS=1000000"});
  EXPECT_THAT(waits.out, HasSubstr(" for sm_80"));
}

TEST_F(CpuCommandAuto, LssarDeviceIsTheDefault) {
  EXPECT_THAT(verify({}, {"LSSAR_DEVICE=virtual"}).out, HasSubstr(" for sm_80"));
  EXPECT_THAT(verify({"--device", "cpu"}, {"LSSAR_DEVICE=virtual"}).out,
              HasSubstr(" for x86-64-v"));
  const CommandResult wrong = verify({}, {"LSSAR_DEVICE=none"});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.out << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("LSSAR_DEVICE: device = none: allowed are auto"));
}

// ---- Captures

TEST(CpuCommand, ACaptureIsReplayedOnTheCpuOnly) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  const std::string file = command.path("case.lssar");
  const CommandResult captured =
      command.run({"capture", "--device", "cpu", "--seq", "40", "--head-dim", "16", "--dtype",
                   "fp32", "--inputs", "-o", file});
  ASSERT_EQ(captured.exit_code, 0) << captured.out << captured.err;
  for (const char* device : {"auto", "cpu"}) {
    const CommandResult replayed = command.run({"replay", file, "--device", device});
    EXPECT_EQ(replayed.exit_code, 0) << replayed.out << replayed.err;
    EXPECT_THAT(replayed.out, HasSubstr("the captured image (object by llvm"));
    EXPECT_THAT(replayed.out, HasSubstr("bit for bit as captured"));
  }
  const CommandResult elsewhere = command.run({"replay", file, "--device", "virtual"});
  EXPECT_EQ(elsewhere.exit_code, 2) << elsewhere.out << elsewhere.err;
  EXPECT_THAT(elsewhere.err,
              HasSubstr("--device virtual: the capture is of a kernel for x86-64-v"));
}

void expect_refused(const Arguments& arguments, const std::string& part, int exit_code = 2) {
  const CommandRunner command;
  const CommandResult result = command.run(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(part));
}

// A key that `lssar cache ls` prints, without any option.
TEST(CpuCommand, InspectShowsACachedKernel) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  const std::vector<std::string> cache = {"LSSAR_CACHE_DIR=" + command.path("keys")};
  const Arguments verify = {"verify", "--device", "cpu", "--seq", "8", "--head-dim", "16"};
  ASSERT_EQ(command.run(verify, cache).exit_code, 0);
  const std::string key = command.run({"cache", "ls"}, cache).out.substr(0, 16);
  const CommandResult result = command.run({"inspect", key, "--device", "cpu"}, cache);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rows per block"));
  const CommandResult on_gpu = command.run({"inspect", key, "--device", "virtual"}, cache);
  EXPECT_EQ(on_gpu.exit_code, 2) << on_gpu.out;
  EXPECT_THAT(on_gpu.err, HasSubstr("device cpu has this one"));
}

TEST(CpuCommand, WhatItDoesNotDoIsAnError) {
  LSSAR_NEEDS_CPU_DEVICE();
  const Arguments verify = {"verify", "--device", "cpu", "--seq", "8", "--head-dim", "16"};
  const auto with = [&](const Arguments& more) {
    Arguments all = verify;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_refused(with({"--compiler", "nvrtc"}), "the kernels of a CPU target need llvm");
  expect_refused(with({"--target", "sm_80"}), "with device = cpu allowed are x86-64-v3");
  expect_refused({"inspect", "--device", "cpu", "--head-dim", "16", "--view", "ptx"},
                 "allowed are summary, source and sass");
  expect_refused({"run", "--random", "--device", "cpu", "--counters", "--seq", "8", "--out", "o"},
                 "--device cpu does not count");
  if (cpu_features().level == "x86-64-v3")
    expect_refused(with({"--target", "x86-64-v4"}), "it lacks AVX-512");
}

TEST(CpuCommand, ExplainEstimatesEitherTarget) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  for (const char* target : {"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"}) {
    const CommandResult result =
        command.run({"explain", "--device", "cpu", "--target", target, "--head-dim", "64",
                     "--dtype", "bf16", "--seq", "512", "--no-compile", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    const nlohmann::json json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json["target"], target);
    EXPECT_GT(json["estimate"]["terms_ms"]["evaluation"], 0);
    EXPECT_TRUE(json["cpu_model"]["is_measured"]);
    EXPECT_GT(json["cpu_model"]["fma_gflops_per_core"], 0);
    EXPECT_GT(json["combinations"], 50);
  }
}

TEST(CpuCommand, InspectCountsTheInstructionsOfProducts) {
  LSSAR_NEEDS_CPU_DEVICE();
  if (std::system("objdump --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no objdump";
  const CommandRunner command;
  // Code for AVX-512 is compiled and shown on any machine.
  const CommandResult result = command.run({"inspect", "--device", "cpu", "--target", "x86-64-v4",
                                            "--head-dim", "64", "--dtype", "fp32", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_TRUE(json["problems"].empty()) << json["problems"];
  EXPECT_EQ(json["kernels"][1]["entry"], "lssar_forward");
  int tiles = 0;  // loops of products with all of the 3 x 4 accumulators, none in memory
  for (const nlohmann::json& kernel : json["machine_code"])
    for (const nlohmann::json& loop : kernel["loops"])
      tiles += loop["hot"] && loop["every_iteration"]["fma"] == 12 &&
               !loop["every_iteration"].contains("local");
  EXPECT_GT(tiles, 0) << json["machine_code"];
}

// Loops of products of pairs: two coordinates of `rows` queries and 64 keys, or two keys of as many
// rows and 64 columns, in at most this many instructions, and nothing of them in memory.
void expect_pairs(const std::string& pass, int rows, int least_loops, int most_instructions) {
  const CommandRunner command;
  std::vector<std::string> arguments = {
      "inspect",    "--device", "cpu",     "--target", "x86-64-v4-bf16", "--pass", pass,
      "--head-dim", "64",       "--dtype", "bf16"};
  const CommandResult listing = [&] {
    std::vector<std::string> more = arguments;
    more.insert(more.end(), {"--view", "sass"});
    return command.run(more);
  }();
  EXPECT_THAT(listing.out, HasSubstr("vdpbf16ps"));
  arguments.push_back("--json");
  const CommandResult result = command.run(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  int loops = 0;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  for (const nlohmann::json& kernel : json["machine_code"])
    for (const nlohmann::json& loop : kernel["loops"]) {
      const nlohmann::json& counts = loop["every_iteration"];
      if (!loop["hot"] || counts.value("fma", 0) != 4 * rows) continue;
      int instructions = 0;
      for (const auto& [name, count] : counts.items()) instructions += count.get<int>();
      EXPECT_LE(instructions, most_instructions) << counts;
      EXPECT_FALSE(counts.contains("local")) << counts;
      ++loops;
    }
  EXPECT_GE(loops, least_loops) << json["machine_code"];
}

TEST(CpuCommand, InspectFindsProductsOfPairs) {
  LSSAR_NEEDS_CPU_DEVICE();
  if (std::system("objdump --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no objdump";
  // Scores, and those computed again. The loop of values also fetches later ones.
  expect_pairs("forward", 3, 2, 24);
  expect_pairs("backward", 6, 4, 54);  // scores, g v, dk and dv; in float32 dq
}

TEST(CpuCommand, ReportIsOnePage) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  const CommandResult result = command.run({"report", "--device", "cpu", "--head-dim", "16",
                                            "--seq", "64", "--dtype", "fp32", "-o", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("multiply-adds, all threads"));
  EXPECT_THAT(result.out, HasSubstr("\"memories\":[\"L2\",\"memory\"]"));
}

// What it keeps for packed sequences, verify takes for others of about the same lengths.
TEST(CpuCommand, TunesPackedSequences) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  const std::string table = command.path("tuning.jsonl");
  const std::vector<std::string> problem = {"--device",   "cpu",          "--dtype", "fp32",
                                            "--head-dim", "16",           "--heads", "2",
                                            "--causal",   "--rotary-dim", "8",       "--invariant"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), problem.begin(), problem.end());
    const CommandResult result = command.run(arguments, {"LSSAR_TUNING_TABLE=" + table});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return result.out;
  };
  const std::string tuned = run({"tune", "--lengths", "5:7,0,60,33", "--budget", "quick", "-q"});
  EXPECT_THAT(tuned, HasSubstr("seq 64x64 slices 8 repeatable varlen rotary invariant"));
  EXPECT_THAT(tuned, HasSubstr("measured on"));
  const std::string verified = run({"verify", "--lengths", "57,9,3,0"});
  EXPECT_THAT(verified, HasSubstr("schedule: tuned (exact: measured"));
  EXPECT_THAT(verified, HasSubstr("correct: "));
  EXPECT_THAT(run({"verify", "--seq", "60", "--batch", "4"}), HasSubstr("schedule: default ("));
}

TEST(CpuCommand, TuneListsTheSpaceOfEitherTarget) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  const CommandResult result =
      command.run({"tune", "--device", "cpu", "--target", cpu_features().level, "--head-dim", "64",
                   "--dtype", "fp32", "--list"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("cpu.rows+cpu.panel_keys"));
  EXPECT_THAT(result.out, HasSubstr("cpu.block_keys+cpu.kept_keys"));
  EXPECT_THAT(result.out, Not(HasSubstr("portable")));
}

TEST(CpuCommand, VerifiesAnyScoreFunction) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  for (const char* pass : {"forward", "backward"}) {
    const CommandResult result = command.run(
        {"verify", "--pass", pass, "--device", "cpu", "--seq", "24", "--head-dim", "16", "--dtype",
         "fp32", "--score", "phi=relu(x)^2 + 0.1*tanh(x),normalizer=sum_abs", "--p", "3"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr(" for x86-64-v"));
  }
}

TEST(CpuCommand, WithoutLlvmItSaysWhatIsMissing) {
  LSSAR_NEEDS_CPU_DEVICE();
  const CommandRunner command;
  const CommandResult result = command.run(
      {"verify", "--device", "cpu", "--seq", "8", "--head-dim", "16"}, {"LSSAR_LLVM_PATH=none"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("LSSAR_LLVM_PATH=none"));
}

TEST(CpuCommand, EmitPrintsCpp) {
  const CommandRunner command;
  const CommandResult result =
      command.run({"emit", "--target", "x86-64-v4", "--head-dim", "64", "--dtype", "fp32"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("-march=x86-64-v4"));
  EXPECT_THAT(result.out, HasSubstr("extern \"C\" void lssar_forward("));
}

}  // namespace
}  // namespace lssar
