// The lssar command without errors, as a user sees it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "reference/error_rule.h"
#include "tests/command/command_runner.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class HelpOf : public ::testing::TestWithParam<const char*> {};

TEST_P(HelpOf, HasAnExampleAndTheExitCodes) {
  const CommandRunner command;
  const CommandResult result = command.run({GetParam(), "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("Example:"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("5 I/O"), std::string::npos) << result.out;
}

INSTANTIATE_TEST_SUITE_P(Subcommands, HelpOf,
                         ::testing::Values("emit", "run", "verify", "capture", "replay", "sim",
                                           "tune", "explain", "report", "inspect", "cache",
                                           "doctor"));

TEST(Command, PrintsItsVersion) {
  const CommandRunner command;
  const CommandResult result = command.run({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "1.0.0\n");
}

TEST(Emit, WritesToAFileWhatItPrints) {
  const CommandRunner command;
  const CommandResult printed = command.run({"emit", "--head-dim", "64", "--p", "15"});
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  const std::string file = command.path("kernel.cu");
  ASSERT_EQ(command.run({"emit", "--head-dim", "64", "--p", "15", "-o", file}).exit_code, 0);
  EXPECT_EQ(read_text(file), printed.out);
  EXPECT_NE(printed.out.find("__global__"), std::string::npos);
}

// As scaled_dot_product_attention and the C API's zeroed struct.
TEST(Emit, IsNotCausalUnlessAskedFor) {
  const CommandRunner command;
  const std::string plain = command.run({"emit"}).out;
  EXPECT_EQ(command.run({"emit", "--no-causal"}).out, plain);
  EXPECT_EQ(command.run({"emit", "--problem", command.write("problem.json", "{}")}).out, plain);
  EXPECT_NE(plain.find("kIsCausal = false"), std::string::npos);
  EXPECT_NE(command.run({"emit", "--causal"}).out.find("kIsCausal = true"), std::string::npos);
}

TEST(Emit, OptionsWinOverTheProblemFile) {
  const CommandRunner command;
  const std::string problem = command.write("p.json", R"({"p": 3, "dtype": "fp16"})");
  const CommandResult mixed = command.run({"emit", "--problem", problem, "--p", "15"});
  const CommandResult plain = command.run({"emit", "--dtype", "fp16", "--p", "15"});
  ASSERT_EQ(mixed.exit_code, 0) << mixed.err;
  EXPECT_EQ(mixed.out, plain.out);
}

TEST(Emit, LengthsAreRunTimeOnesUnlessGiven) {
  const CommandRunner command;
  const std::string open = command.run({"emit"}).out;
  EXPECT_EQ(command.run({"emit", "--seq", "512", "--runtime-lengths"}).out, open);
  EXPECT_NE(command.run({"emit", "--seq", "512"}).out, open);
}

TEST(Emit, CompilesWithNvccOnItsOwn) {
  if (std::system("command -v nvcc >/dev/null 2>&1 || test -x /usr/local/cuda/bin/nvcc") != 0) {
    GTEST_SKIP() << "nvcc is not on this machine";
  }
  const CommandRunner command;
  for (const char* pass : {"forward", "forward-train", "backward"}) {
    const std::string file = command.path(std::string(pass) + ".cu");
    ASSERT_EQ(command.run({"emit", "--pass", pass, "--target", "sm_90", "-o", file}).exit_code, 0);
    const std::string line = "PATH=\"$PATH:/usr/local/cuda/bin\" nvcc -cubin -arch=sm_90 -o " +
                             command.path("kernel.cubin") + " " + file;
    EXPECT_EQ(std::system(line.c_str()), 0) << pass;
  }
}

TEST(Doctor, NamesCompilersDevicesAndCache) {
  const CommandRunner command;
  const CommandResult result = command.run({"doctor"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"nvrtc", "llvm", "cuda", "cpu", "virtual", "directory"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST(Doctor, NamesWhatElseTheCommandUses) {
  const CommandRunner command;
  const CommandResult text =
      command.run({"doctor"}, {"LSSAR_NVDISASM=none", "LSSAR_TUNE_WORKER=/nowhere/worker",
                               "LSSAR_TUNING_TABLE=" + command.path("tuning.jsonl")});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"\n  worker       not found: ", "/nowhere/worker",
                           "\n  disassembler not found: ", "tuning.jsonl, not there yet",
                           "\n  LSSAR_NVDISASM=none\n"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  const CommandResult json = command.run({"doctor", "--json"}, {"LSSAR_TUNING_TABLE=none"});
  const auto report = nlohmann::json::parse(json.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << json.out;
  EXPECT_EQ(report["can_compile"], true);
  EXPECT_EQ(report["can_run"], true);
  EXPECT_EQ(report["environment"]["LSSAR_TUNING_TABLE"], "none");
  EXPECT_EQ(report["compilers"].size(), 3u);
  EXPECT_FALSE(report["tune_worker"]["path"].empty());
}

TEST(Doctor, SaysWhichVariablesAreNone) {
  const CommandRunner command;
  const std::vector<std::string> set = {"LSSAR_CACHE_DIR2=x", "LSSAR_COLOUR_SCHEME=y"};
  const CommandResult text = command.run({"doctor"}, set);
  for (const char* part :
       {"\n  LSSAR_CACHE_DIR2=x  (lssar has no such variable: did you mean LSSAR_CACHE_DIR?)\n",
        "\n  LSSAR_COLOUR_SCHEME=y  (lssar has no such variable)\n"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  const auto report =
      nlohmann::json::parse(command.run({"doctor", "--json"}, set).out, nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["unknown_variables"]["LSSAR_CACHE_DIR2"], nlohmann::json({"LSSAR_CACHE_DIR"}));
  EXPECT_EQ(report["unknown_variables"].size(), 2u);
}

TEST(Doctor, SaysHowToGetWhatIsMissing) {
  const CommandRunner command;
  const CommandResult result = command.run({"doctor"}, {"LSSAR_NVRTC_PATH=none"});
  EXPECT_NE(result.out.find("not found"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("install"), std::string::npos) << result.out;
}

TEST(Verify, PrintsATableAndTheVerdict) {
  const CommandRunner command;
  const CommandResult result =
      command.run({"verify", "--pass", "backward", "--seq", "40", "--seq-k", "50", "--heads", "2",
                   "--kv-heads", "1", "--head-dim", "32", "--p", "7", "--device", "virtual"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const char* part : {"\no ", "\ndq ", "\ndk ", "\ndv ", "\ncorrect: "}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST(Verify, ASecondTimeTakesTheKernelFromTheCache) {
  const CommandRunner command;
  const std::vector<std::string> arguments = {"verify", "--seq",    "16",     "--head-dim",
                                              "32",     "--device", "virtual"};
  const std::vector<std::string> fresh = {"LSSAR_CACHE_DIR=" + command.path("fresh")};
  EXPECT_NE(command.run(arguments, fresh).out.find("| compiled in "), std::string::npos);
  EXPECT_NE(command.run(arguments, fresh).out.find("| from the cache in "), std::string::npos);
}

TEST(Verify, QuietLeavesTheTableOnly) {
  const CommandRunner command;
  const CommandResult result =
      command.run({"verify", "--seq", "16", "--head-dim", "32", "--device", "virtual", "-q"});
  EXPECT_EQ(result.out.rfind("tensor ", 0), 0u) << result.out;
}

TEST(Verify, NamesAnOverflow) {
  const CommandRunner command;
  const CommandResult result =
      command.run({"verify", "--pass", "backward", "--data", "shifted", "--dtype", "fp16",
                   "--head-dim", "128", "--seq", "300", "--causal", "--device", "virtual", "-q"});
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_NE(result.out.find("OVERFLOW (dk overflows fp16: reference magnitude "), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find(", largest 65504; the rest is correct)"), std::string::npos);
  EXPECT_EQ(result.out.find("WRONG"), std::string::npos) << result.out;
}

TEST(Verify, LengthsOfZeroAreFine) {
  const CommandRunner command;
  const CommandResult result = command.run(
      {"verify", "--seq", "5", "--seq-k", "0", "--head-dim", "32", "--device", "virtual"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

// The command states the longest lengths, and these choose the schedule.
TEST(Verify, OfFewQueriesHasTheKernelsForThem) {
  const CommandRunner command;
  const auto key = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "verify", "--device", "virtual", "--head-dim", "32",           "--heads",
        "2",      "--causal", "--json",  "--lengths",  "1:520,0:3,2:9"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = command.run(words);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    const auto json = nlohmann::json::parse(result.out, nullptr, false);
    return json["passes"][0]["key"].get<std::string>();
  };
  const std::string split = key({});
  EXPECT_EQ(key({"--runtime-lengths", "--schedule", R"({"split_keys": 512})"}), split);
  EXPECT_NE(key({"--runtime-lengths"}), split);
}

TEST(Verify, AsJson) {
  const CommandRunner command;
  const CommandResult result =
      command.run({"verify", "--seq", "16", "--head-dim", "32", "--seed", "3", "--data", "peaky",
                   "--device", "virtual", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.out;
  EXPECT_EQ(json["passed"], true);
  EXPECT_EQ(json["problem"]["seq_q"], 16);
  EXPECT_EQ(json["seed"], 3);
  EXPECT_EQ(json["data"], "peaky");
  EXPECT_EQ(json["tensors"][0]["tensor"], "o");
  EXPECT_EQ(json["passes"][0]["key"].get<std::string>().size(), 64u);
}

TEST(Prepare, AsJson) {
  const CommandRunner command;
  const CommandResult result =
      command.run({"prepare", "--head-dim", "32", "--causal", "--device", "virtual", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.out;
  EXPECT_EQ(json["kernel"], "lssar_forward_bf16_d32_p15_causal");
  EXPECT_EQ(json["key"].get<std::string>().size(), 64u);
  EXPECT_EQ(json["problem"]["causal"], true);
  EXPECT_NE(json["command"].get<std::string>().find("lssar prepare --pass forward"),
            std::string::npos);
}

// The same numbers as from files with the same seed: those of lssar capture.
TEST(Run, OnADeviceThatComputesNothingIsAnError) {
  const CommandRunner command;
  const CommandResult result = command.run({"run", "--random", "--seq", "8", "--device", "record"});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("--device record: it notes calls"), std::string::npos) << result.err;
}

TEST(Run, OfRandomInputsNeedsNoFiles) {
  const CommandRunner command;
  const std::vector<std::string> problem = {"--pass", "backward",   "--seq",    "24",     "--heads",
                                            "2",      "--head-dim", "32",       "--seed", "5",
                                            "--data", "peaky",      "--device", "virtual"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), problem.begin(), problem.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const CommandResult random = command.run(with({"run", "--random"}, {"--out", command.path("r")}));
  ASSERT_EQ(random.exit_code, 0) << random.err;
  const std::string file = command.path("case.lssar");
  ASSERT_EQ(command.run(with({"capture"}, {"--inputs", "-o", file})).exit_code, 0);
  ASSERT_EQ(command.run({"replay", file, "--extract", command.path("parts")}).exit_code, 0);
  for (const std::string name : {"q", "k", "v"}) {
    const std::string mine = read_text(command.path("r") + "/d" + name + ".npy");
    EXPECT_FALSE(mine.empty());
    EXPECT_TRUE(mine == read_text(command.path("parts/outputs/grad_" + name + ".npy"))) << name;
  }
  EXPECT_EQ(command.run(with({"run", "--random"}, {})).exit_code, 0);  // nothing is kept
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {"run", "--seq", "8", "--device", "virtual"},
           {"run", "--random", "--device", "virtual"},
           {"run", "--random", "--q", file, "--k", file, "--v", file}}) {
    EXPECT_EQ(command.run(bad).exit_code, 2);
  }
}

// The files of a golden case go through the command; its results are compared like everybody's.
class RunGolden : public ::testing::Test {
 protected:
  void run(const std::string& name, const std::string& pass,
           const std::vector<std::string>& more = {}) {
    Result<GoldenCase> loaded = load_golden_case(name);
    ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
    case_ = *loaded;
    const std::string folder = golden_data_folder() + "/" + name + "/";
    std::vector<std::string> arguments = {"run",
                                          "--pass",
                                          pass,
                                          "--q",
                                          folder + "q.npy",
                                          "--k",
                                          folder + "k.npy",
                                          "--v",
                                          folder + "v.npy",
                                          "--out",
                                          command_.path("results"),
                                          "--p",
                                          std::to_string(case_.problem.p),
                                          "--dtype",
                                          dtype_name(case_.problem.dtype),
                                          case_.problem.causal ? "--causal" : "--no-causal",
                                          "--offset",
                                          std::to_string(case_.problem.offset),
                                          "--device",
                                          "virtual"};
    if (pass == "backward") {
      arguments.insert(arguments.end(), {"--do", folder + "do.npy"});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = command_.run(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    printed_ = result.out;
  }

  void expect_close(const std::string& file, OutputTensor tensor) {
    const Result<NpyArray<float>> actual = read_npy_float32(command_.path("results/" + file));
    ASSERT_TRUE(actual.ok()) << actual.status().to_string();
    const Result<ReferenceOutputs> expected = golden_reference(case_);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    const TensorError error = compare(reference_values(*expected, tensor), actual->values,
                                      allowed_error(case_.problem, tensor, *expected));
    EXPECT_TRUE(error.passed) << file << ": " << error.to_string();
  }

  CommandRunner command_;
  GoldenCase case_;
  std::string printed_;
};

TEST_F(RunGolden, ForwardWithFewerKvHeads) {
  run("gqa_4_2", "forward");
  expect_close("o.npy", OutputTensor::kO);
  EXPECT_FALSE(std::filesystem::exists(command_.path("results/dq.npy")));
}

TEST_F(RunGolden, BackwardWithACacheOfKeys) {
  run("cache_7_of_60", "backward");
  expect_close("dq.npy", OutputTensor::kDq);
  expect_close("dk.npy", OutputTensor::kDk);
  expect_close("dv.npy", OutputTensor::kDv);
  EXPECT_FALSE(std::filesystem::exists(command_.path("results/o.npy")));
}

TEST_F(RunGolden, PrintsCountersByKernel) {
  run("gqa_4_2", "forward", {"--counters"});
  EXPECT_NE(printed_.find("kernel lssar_forward: 1 launch\n"), std::string::npos) << printed_;
  EXPECT_NE(printed_.find("special function"), std::string::npos) << printed_;
  EXPECT_NE(printed_.find("wavefronts"), std::string::npos) << printed_;
}

TEST_F(RunGolden, PrintsOneJsonObject) {
  run("gqa_4_2", "backward", {"--counters", "--json"});
  const auto json = nlohmann::json::parse(printed_, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << printed_;
  EXPECT_EQ(json["passes"].size(), 2u);
  const nlohmann::json& total = json["counters"]["total"];
  uint64_t launches = 0;
  for (const nlohmann::json& kernel : json["counters"]["kernels"]) {
    launches += kernel["launches"].get<uint64_t>();
  }
  EXPECT_EQ(total["launches"], launches);
  EXPECT_GT(total["global"]["read"]["sectors"], 0);
  expect_close("dq.npy", OutputTensor::kDq);
}

TEST_F(RunGolden, JsonHasNoCountersUnlessAskedFor) {
  run("gqa_4_2", "forward", {"--json"});
  const auto json = nlohmann::json::parse(printed_, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << printed_;
  EXPECT_FALSE(json.contains("counters"));
}

}  // namespace
}  // namespace lssar
