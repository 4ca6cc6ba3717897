// lssar capture and lssar replay, as two users do it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/npy.h"
#include "runtime/capture.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::Not;

class CaptureCommand : public testing::Test {
 protected:
  // GQA, and other numbers of queries than of keys.
  void capture(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"capture", "--head-dim", "32",      "--seq", "40",
                                          "--seq-k", "70",         "--heads", "4",     "--kv-heads",
                                          "2",       "--device",   "virtual", "-o",    path_,
                                          "--causal"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = command_.run(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  CommandResult replay(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"replay", path_, "--device", "virtual"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return command_.run(arguments);
  }
  void replace_in_source(const std::string& from, const std::string& to) {
    Result<Capture> capture = read_capture(path_);
    ASSERT_TRUE(capture.ok()) << capture.status().to_string();
    std::string& text = capture->kernels.back().source.source;
    ASSERT_NE(text.find(from), text.npos);
    text.replace(text.find(from), from.size(), to);
    ASSERT_TRUE(write_capture(path_, *capture).ok());
  }

  CommandRunner command_;
  std::string path_ = command_.path("case.lssar");
};

TEST_F(CaptureCommand, AForwardIsReplayedBitForBit) {
  capture({"--inputs"});
  const CommandResult result = replay();
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const char* part :
       {"| the captured image (ptx by", "o: bit for bit as captured", "o, captured",
        "the generator makes the same source today", "warp instructions", "not a GPU's time",
        "correct: forward causal bf16 d 32 dv 32 p 15 offset 1 seq 40x70 batch 1 heads 4/2, "
        "captured inputs"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
}

TEST_F(CaptureCommand, ABackwardTakesWhatItsForwardSaved) {
  capture({"--pass", "backward", "--inputs", "--dtype", "fp16"});
  const CommandResult result = replay({"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.out;
  EXPECT_EQ(json["kernels"].size(), 1u);  // no forward is run
  EXPECT_EQ(json["captured_tensors"][0]["tensor"], "o");
  EXPECT_EQ(json["captured_tensors"][1]["tensor"], "saved_o");
  ASSERT_EQ(json["bits"].size(), 3u);
  for (const auto& tensor : json["bits"]) {
    EXPECT_EQ(tensor["different"], 0) << tensor;
    EXPECT_GT(tensor["elements"], 0) << tensor;
  }
  EXPECT_EQ(json["passed"], true);
  EXPECT_EQ(json["timing"]["is_gpu_time"], false);
}

TEST_F(CaptureCommand, WithoutInputsSeededOnesAreMade) {
  capture({"--pass", "backward", "--dtype", "fp32"});
  const CommandResult result = replay({"--seed", "7", "--times", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("lssar_forward_train_fp32_d32_p15_causal: virtual device"));
  EXPECT_THAT(result.out, HasSubstr("gauss data, seed 7"));
  EXPECT_THAT(result.out, HasSubstr("(median of 2)"));
  EXPECT_THAT(result.out, Not(HasSubstr("as captured")));
}

TEST_F(CaptureCommand, TheVirtualDeviceTakesTheTargetOfTheCapture) {
  capture({"--target", "sm_90a", "--inputs"});
  const CommandResult result = replay();
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("for sm_90a | the captured image"));
  EXPECT_THAT(result.out, HasSubstr("o: bit for bit as captured"));
  const CommandResult other = replay({"--target", "sm_80"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("captured for sm_90a, here on sm_80"));
}

TEST_F(CaptureCommand, LaunchesOfPackedHeadsAreKept) {
  capture({"--target", "sm_90a", "--schedule", R"({"pack_gqa": true})"});
  const Result<Capture> capture = read_capture(path_);
  ASSERT_TRUE(capture.ok()) << capture.status().to_string();
  const std::vector<LaunchStep>& steps = capture->kernel().source.steps;
  EXPECT_EQ(steps, emit_kernel(capture->kernel().problem, capture->kernel().schedule,
                               *target_from_name("sm_90a"))
                       ->steps);
  EXPECT_TRUE(std::any_of(steps.begin(), steps.end(), [](const LaunchStep& step) {
    return step.grid_rows == GridRows::kPackedQueries;
  }));
  const CommandResult result = replay();
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST_F(CaptureCommand, AnotherTargetCompilesTheCapturedSource) {
  capture({"--inputs"});
  replace_in_source("static constexpr int kPower = 15;", "static constexpr int kPower = 14 + 1;");
  const CommandResult result = replay({"--target", "sm_90"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("the captured source for sm_90 by "));
  EXPECT_THAT(result.out, HasSubstr("since the captured image is a ptx for sm_80"));
  EXPECT_THAT(result.out, HasSubstr("NOT the source that the generator makes today"));
}

TEST_F(CaptureCommand, AWrongSourceIsCaughtAndNamed) {
  capture({"--inputs"});
  replace_in_source("static constexpr float kOffset = 1.0f;",
                    "static constexpr float kOffset = 0.5f;");
  const CommandResult wrong = replay({"--recompile"});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  for (const char* part :
       {"WRONG NUMBERS: forward", "elements have other bits than captured",
        "lssar_forward_bf16_d32_p15_causal: NOT the source that the generator makes today",
        "lssar inspect DIR/lssar_forward_bf16_d32_p15_causal.cu --diff"}) {
    EXPECT_THAT(wrong.out, HasSubstr(part));
  }
  // What the generator makes today is right, on the same inputs.
  const CommandResult today = replay({"--regenerate"});
  EXPECT_EQ(today.exit_code, 0) << today.out << today.err;
  EXPECT_THAT(today.out, HasSubstr("o: bit for bit as captured"));
}

TEST_F(CaptureCommand, ExtractWritesWhatOtherSubcommandsTake) {
  capture({"--inputs"});
  const std::string folder = command_.path("parts");
  const CommandResult extracted = replay({"--extract", folder});
  ASSERT_EQ(extracted.exit_code, 0) << extracted.err;
  const std::string source = folder + "/lssar_forward_bf16_d32_p15_causal.cu";
  const CommandResult inspected = command_.run(
      {"inspect", source, "--device", "virtual", "--no-count", "--diff", source, "target=sm_80"});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, Not(HasSubstr("\n+")));
  const CommandResult run = command_.run(
      {"run", "--device", "virtual", "--problem", folder + "/problem.json", "--schedule",
       folder + "/schedule.json", "--q", folder + "/inputs/q.npy", "--k", folder + "/inputs/k.npy",
       "--v", folder + "/inputs/v.npy", "--out", command_.path("again")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto bytes = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const std::string again = bytes(command_.path("again/o.npy"));
  EXPECT_FALSE(again.empty());
  EXPECT_EQ(again, bytes(folder + "/outputs/o.npy"));
}

// They are float32 where q, k and v have 16 bits.
TEST_F(CaptureCommand, ExtractWritesSlopesAndSinks) {
  capture({"--inputs", "--score", "softmax,sink=per_head,alibi=per_head", "--p", "0"});
  const std::string folder = command_.path("parts");
  const CommandResult extracted = replay({"--extract", folder});
  ASSERT_EQ(extracted.exit_code, 0) << extracted.err;
  for (const char* name : {"sink", "alibi_slopes"}) {
    const auto array = read_npy_float32(folder + "/inputs/" + name + ".npy");
    ASSERT_TRUE(array.ok()) << array.status().to_string();
    EXPECT_EQ(array->values.size(), 4u) << name;
  }
}

TEST_F(CaptureCommand, SlopesDoNotComeFromFiles) {
  capture({"--inputs"});
  const std::string folder = command_.path("parts");
  ASSERT_EQ(replay({"--extract", folder}).exit_code, 0);
  const CommandResult run = command_.run(
      {"run", "--device", "virtual", "--score", "softmax,alibi=per_head", "--q",
       folder + "/inputs/q.npy", "--k", folder + "/inputs/k.npy", "--v", folder + "/inputs/v.npy",
       "--out", command_.path("again")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("score.alibi = per_head: no option gives its values"));
}

TEST_F(CaptureCommand, DamagedFilesAreErrorsThatNameThem) {
  capture({"--inputs"});
  std::string bytes;
  {
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    bytes = text.str();
  }
  for (size_t size = 0; size < bytes.size(); size += bytes.size() / 97 + 1) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes.substr(0, size);
    const Result<Capture> capture = read_capture(path_);
    ASSERT_EQ(capture.status().code(), StatusCode::kIoError) << size;
    ASSERT_THAT(capture.status().message(), HasSubstr(path_)) << size;
  }
  for (size_t at = 0; at < bytes.size(); at += bytes.size() / 97 + 1) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << damaged;
    ASSERT_EQ(read_capture(path_).status().code(), StatusCode::kIoError) << at;
  }
  const CommandResult result = replay();
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("part 'tensor/"));
}

TEST_F(CaptureCommand, WhatDoesNotFitIsRefused) {
  const CommandResult range = command_.run(
      {"capture", "--pass", "row-sums", "--seq", "8", "--device", "virtual", "-o", path_});
  EXPECT_EQ(range.exit_code, 2);
  EXPECT_THAT(range.err, HasSubstr("pass = row-sums: allowed are forward"));
  const CommandResult pass = command_.run({"capture", "--pass", "x", "-o", path_});
  EXPECT_THAT(pass.err, HasSubstr("pass = \"x\": allowed are forward, forward-train and backward"));
  const CommandResult no_length = command_.run({"capture", "--device", "virtual", "-o", path_});
  EXPECT_EQ(no_length.exit_code, 2);
  EXPECT_THAT(no_length.err, HasSubstr("seq: not given"));
  capture({"--inputs"});
  const CommandResult seed = replay({"--seed", "3"});
  EXPECT_EQ(seed.exit_code, 2);
  EXPECT_THAT(seed.err, HasSubstr("the capture has inputs of its own"));
}

}  // namespace
}  // namespace lssar
