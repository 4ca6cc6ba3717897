// The subcommands with --device cpu and with targets of CPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "compile/compiler.h"
#include "device/cpu/cpu_features.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;
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

// A GPU also refuses it, for a reason of its own.
TEST(CpuCommand, AutoIsNotCpu) {
  const CommandRunner command;
  const CommandResult result =
      command.run({"verify", "--seq", "8", "--head-dim", "16", "--target", "x86-64-v3"});
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("x86-64-v3"));
}

void expect_refused(const Arguments& arguments, const std::string& part, int exit_code = 2) {
  const CommandRunner command;
  const CommandResult result = command.run(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(part));
}

TEST(CpuCommand, WhatItDoesNotDoIsAnError) {
  LSSAR_NEEDS_CPU_DEVICE();
  const Arguments verify = {"verify", "--device", "cpu", "--seq", "8", "--head-dim", "16"};
  const auto with = [&](const Arguments& more) {
    Arguments all = verify;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_refused({"emit", "--target", "x86-64-v3", "--head-dim", "16", "--pass", "row-sums"},
                 "there are kernels for forward, forward-train and backward only");
  expect_refused(with({"--p", "65"}), "problem.p = 65");
  expect_refused(with({"--score", "phi=relu(x)"}), "the default score function");
  expect_refused(with({"--compiler", "nvrtc"}), "the kernels of a CPU target need llvm");
  expect_refused(with({"--target", "sm_80"}), "with device = cpu allowed are x86-64-v3");
  expect_refused({"inspect", "--device", "cpu", "--head-dim", "16"}, "allowed are targets of GPUs");
  expect_refused({"explain", "--device", "cpu", "--head-dim", "16", "--seq", "64"},
                 "there is no cost model for CPUs");
  expect_refused({"tune", "--device", "cpu", "--head-dim", "16", "--seq", "64"},
                 "there is no cost model for CPUs");
  expect_refused({"run", "--random", "--device", "cpu", "--counters", "--seq", "8", "--out", "o"},
                 "--device cpu does not count");
  if (cpu_features().level == "x86-64-v3")
    expect_refused(with({"--target", "x86-64-v4"}), "it lacks AVX-512");
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
