// tools/gpu_check.sh against stand-ins for the programs of a bundle: what a GPU machine would run
// once, and must not find broken there.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/command/command_runner.h"

namespace lssar {
namespace {

constexpr char kGoodCommand[] = R"(#!/bin/sh
case $1 in
  doctor)
    echo '  nvrtc     13.0.88  /usr/lib/libnvrtc.so.13'
    echo '  cuda 0    NVIDIA H200, 132 SMs, driver CUDA 13.0' ;;
  verify)
    [ -z "$GPU_CHECK_TEST_LOG" ] || echo "$*" >>"$GPU_CHECK_TEST_LOG"
    case "$*" in *"--data ties"*) echo 'lssar: device error: a "quoted" text' >&2; exit 4 ;; esac
    echo 'lssar_forward: NVIDIA H200 for sm_90a, nvrtc 13.0.88 | compiled in 8 ms | ran in 0.5 ms'
    echo 'o       (1, 1, 16, 64)     1.58e-03   3.00e-03   2.2e-02  [0, 0, 9, 4]  ok'
    echo 'dq      (1, 1, 16, 64)     2.58e-03   5.00e-03   2.2e-02  [0, 0, 9, 4]  ok' ;;
esac
)";
constexpr char kNoGpuCommand[] = R"(#!/bin/sh
echo 'lssar: missing: no GPU: tried libcuda.so.1' >&2
exit 3
)";
constexpr char kTestProgram[] = "#!/bin/sh\necho '[  PASSED  ] 12 tests.'\n";
constexpr char kSkippingProgram[] =
    "#!/bin/sh\necho '[  PASSED  ] 0 tests.'\necho '[  SKIPPED ] 3 tests, listed below:'\n";
constexpr char kBenchProgram[] = R"(#!/bin/sh
for word in "$@"; do
  case $word in --benchmark_out=*) printf '{"benchmarks": [\n 1]}\n' >"${word#*=}" ;; esac
done
)";
// What looks for torch, what asks for the checks' names, the checks.
constexpr char kPython[] = R"(#!/bin/sh
case "$*" in
  *'import torch'*) ;;
  *gpu_python.py) echo gradients; echo jax ;;
  *gradients) case $LSSAR_LIBRARY in */bundle/lib) echo 'dq: 2e-03' ;; *) exit 1 ;; esac ;;
  *jax) echo 'not here: no jax'; exit 77 ;;
esac
)";
// LIST [NAME FILE cuda]. It waits for what nvidia-smi samples meanwhile.
constexpr char kProbeProgram[] = R"(#!/bin/sh
if [ $# -eq 1 ]; then
  cat "$1"
  exit
fi
echo "$2" >>"$GPU_CHECK_TEST_LOG.probes"
[ "$2" != "$GPU_CHECK_TEST_KILLED" ] || { kill -9 "$GPU_CHECK_TEST_PID"; exit 1; }
[ "$2" != "$GPU_CHECK_TEST_BROKEN" ] || { echo 'device error: lost' >&2; exit 1; }
for i in $(seq 500); do [ -s "${3%.figures}.states" ] && break; sleep 0.01; done
printf '{"device":\n "%s on %s"}\n' "$2" "$4" >"$3"
)";
constexpr char kNvidiaSmi[] = R"(#!/bin/sh
case "$*" in
  *driver_version*) echo 580.159.04 ;;
  *clocks.sm*) printf '1755, 2619, 650.12, 61\n[N/A], 2619, 650.12, 61\n'; exec sleep 10 ;;
esac
)";
// --tool NAME --error-exitcode N COMMAND...
constexpr char kSanitizer[] = "#!/bin/sh\nshift 4\nexec \"$@\"\n";

class GpuCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_.path("bundle/bin"));
    std::filesystem::create_directories(folder_.path("bundle/tools"));
    std::filesystem::create_directories(folder_.path("path"));
    std::filesystem::copy_file(std::string(LSSAR_SOURCE_FOLDER) + "/tools/gpu_check.sh",
                               folder_.path("bundle/gpu_check.sh"));
    folder_.write("bundle/COMMIT", "abc123\n");
    folder_.write("bundle/tests.txt", "gpu numbers_test\nunit other_test\n");
    program("bundle/bin/lssar", kGoodCommand);
    program("bundle/bin/numbers_test", kTestProgram);
    for (const char* name :
         {"golden_test", "hopper_schedules_test", "epsilon_test", "packed_heads_test"})
      program(std::string("bundle/bin/") + name, kTestProgram);
    program("bundle/bin/kernel_bench", kBenchProgram);
    program("path/compute-sanitizer", kSanitizer);
    folder_.write("bundle/tools/gpu_python.py", "");
    program("path/python3", kPython);
    program("path/nvidia-smi", kNvidiaSmi);
    program("bundle/bin/schedule_probe", kProbeProgram);
    folder_.write("bundle/tools/probes.json", "one 11\ntwo 22\nthree 33\n");
  }

  void program(const std::string& name, const std::string& text) {
    const std::string path = folder_.write(name, text);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  // `parts`: all where it is empty. `variables`: for the stand-ins, "A=1 B=2".
  int check(const std::string& parts = "", const std::string& variables = "") {
    const std::string line = "exec env PATH=" + folder_.path("path") + ":$PATH " + variables +
                             " GPU_CHECK_TEST_PID=$$ GPU_CHECK_TEST_LOG=" + folder_.path("calls") +
                             " sh " + folder_.path("bundle/gpu_check.sh") + " " + output() + " " +
                             parts + " >" + folder_.path("out") + " 2>" + folder_.path("err");
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // The probes that ran since the last call.
  std::string probes_run() {
    std::ifstream file(folder_.path("calls.probes"));
    std::string names;
    for (std::string name; std::getline(file, name);) names += (names.empty() ? "" : " ") + name;
    std::filesystem::remove(folder_.path("calls.probes"));
    return names;
  }

  std::string first_line(const std::string& name) const {
    std::ifstream file(folder_.path(name));
    std::string line;
    std::getline(file, line);
    return line;
  }

  // The words of each call of `lssar verify`, once.
  std::set<std::vector<std::string>> calls() const {
    std::set<std::vector<std::string>> all;
    std::ifstream file(folder_.path("calls"));
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      all.insert({std::istream_iterator<std::string>(words), {}});
    }
    return all;
  }

  std::string output() const { return folder_.path("result.json"); }
  nlohmann::json result() const {
    std::ifstream file(output());
    return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  }

  CommandRunner folder_;
};

TEST_F(GpuCheck, WritesOneFileOfEverything) {
  folder_.write("bundle/tests.txt", "gpu numbers_test\ngpu gpu_attention_test\nunit other_test\n");
  program("bundle/bin/gpu_attention_test", kTestProgram);
  EXPECT_EQ(check(), 1);  // the stand-in fails on one kind of data
  const nlohmann::json json = result();
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["commit"], "abc123");
  EXPECT_EQ(json["gpu"], "NVIDIA H200");
  EXPECT_EQ(json["driver"], "CUDA 13.0");
  EXPECT_EQ(json["driver_version"], "580.159.04");
  EXPECT_EQ(json["nvrtc"], "13.0.88");
  EXPECT_EQ(json["target"], "sm_90a");
  EXPECT_EQ(json["first"].size(), 11u);
  EXPECT_EQ(json["tests"][0]["passed"], 12);
  EXPECT_EQ(json["tests"].size(), 9u);       // a program, and eight shards of one
  EXPECT_EQ(json["golden"].size(), 8u);      // shards
  EXPECT_EQ(json["schedules"].size(), 24u);  // shards
  EXPECT_EQ(json["sanitizer"].size(), 60u);  // four tools; six cases of each pass, three of one
  EXPECT_EQ(json["python"][0]["result"], "passed");
  EXPECT_EQ(json["python"][1]["result"], "not here");
  EXPECT_EQ(json["python"][1]["log"], "not here: no jax");
  EXPECT_EQ(json["verify"][0]["worst_relative_l2"], "2.58e-03");
  EXPECT_EQ(json["probes"].size(), 3u);
  EXPECT_EQ(json["benchmarks"][0]["figures"]["benchmarks"][0], 1);
  // What failed: one kind of data, forward and backward.
  int failed = 0;
  for (const nlohmann::json& one : json["verify"]) {
    if (one["result"] == "passed") continue;
    ++failed;
    EXPECT_EQ(one["log"], "lssar: device error: a \"quoted\" text");
  }
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(json["failures"], 2);
  EXPECT_EQ(json["stopped"], false);
}

TEST_F(GpuCheck, RunsWgmmaFormsFirstOnHopper) {
  EXPECT_EQ(check("first"), 0);
  const nlohmann::json first = result()["first"];
  std::set<std::string> backwards;
  for (const nlohmann::json& one : first) {
    const std::string options = one["options"];
    EXPECT_FALSE(one["checks"].get<std::string>().empty());
    if (options.find("\"dq_mode\"") != std::string::npos) backwards.insert(options);
  }
  for (const std::string mode : {"atomic", "ordered"})
    EXPECT_EQ(
        backwards.count("--pass backward --head-dim 64 --schedule {\"dq_mode\":\"" + mode + "\"}"),
        1u);
  std::ifstream out(folder_.path("out"));
  const std::string text(std::istreambuf_iterator<char>(out), {});
  EXPECT_NE(text.find("passed: --pass forward --head-dim 32: right operand MN-major"),
            std::string::npos)
      << text;
}

TEST_F(GpuCheck, PartsThatAreNotWantedAreEmpty) {
  EXPECT_EQ(check("tests golden"), 0);
  const nlohmann::json json = result();
  EXPECT_EQ(json["parts"], "tests golden");
  EXPECT_EQ(json["golden"].size(), 8u);
  for (const char* part :
       {"first", "schedules", "verify", "python", "sanitizer", "probes", "benchmarks"})
    EXPECT_TRUE(json[part].is_array() && json[part].empty()) << part;
  EXPECT_EQ(check("golden else"), 2);
  EXPECT_EQ(
      first_line("err"),
      "gpu_check: part else: allowed are first tests golden schedules verify python sanitizer "
      "probes benchmarks");
}

TEST_F(GpuCheck, OnOtherGpusThereIsNothingOfHopper) {
  std::string command = kGoodCommand;
  command.replace(command.find("sm_90a"), 6, "sm_80");
  program("bundle/bin/lssar", command);
  EXPECT_EQ(check("first schedules probes"), 0);
  EXPECT_EQ(result()["target"], "sm_80");
  EXPECT_TRUE(result()["probes"].empty());
  EXPECT_TRUE(result()["first"].empty());
  EXPECT_TRUE(result()["schedules"].empty());
  std::ifstream out(folder_.path("out"));
  std::string line;
  std::getline(out, line);
  std::getline(out, line);
  EXPECT_EQ(line, "gpu_check: first: nothing to do: it is for sm_90a, this GPU is sm_80");
}

// By the command itself, which finds no GPU only after it has understood its options; and what
// makes the same kernels for a target takes the schedules.
TEST_F(GpuCheck, ItsOptionsAreTheCommands) {
  check("first verify sanitizer");
  const auto all = calls();
  EXPECT_GE(all.size(), 90u);
  size_t num_schedules = 0;
  for (const std::vector<std::string>& call : all) {
    const CommandResult found = folder_.run(call, {"CUDA_VISIBLE_DEVICES="});
    EXPECT_EQ(found.exit_code, 3) << testing::PrintToString(call) << found.err;
    if (std::find(call.begin(), call.end(), "--schedule") == call.end()) continue;
    std::vector<std::string> emit = call;
    emit[0] = "emit";
    emit.erase(std::remove(emit.begin(), emit.end(), "-q"), emit.end());
    const auto device = std::find(emit.begin(), emit.end(), "--device");
    emit.erase(device, device + 2);
    for (const char* target : {"sm_80", "sm_90a"}) {
      std::vector<std::string> arguments = emit;
      arguments.insert(arguments.end(), {"--target", target});
      const CommandResult made = folder_.run(arguments);
      EXPECT_EQ(made.exit_code, 0) << testing::PrintToString(arguments) << made.err;
    }
    ++num_schedules;
  }
  EXPECT_GE(num_schedules, 10u);
}

TEST_F(GpuCheck, TestsThatOnlySkipHaveFailed) {
  program("bundle/bin/numbers_test", kSkippingProgram);
  EXPECT_EQ(check("tests"), 1);
  EXPECT_EQ(result()["tests"][0]["result"], "failed");
  EXPECT_EQ(result()["failures"], 1);
}

// timeout(1) passes the signal on to all processes of the check's group, as Ctrl-C does.
TEST_F(GpuCheck, ASignalLeavesWhatWasDone) {
  const std::string begun = folder_.path("begun");
  program("bundle/bin/numbers_test", "#!/bin/sh\necho $$ >" + begun + "\nexec sleep 300\n");
  const std::string line = "PATH=" + folder_.path("path") + ":$PATH timeout 600 sh " +
                           folder_.path("bundle/gpu_check.sh") + " " + output() +
                           " first tests golden >" + folder_.path("out") +
                           " 2>&1 & for i in $(seq 1200); do [ -s " + begun +
                           " ] && break; sleep 0.05; done; kill $!; wait";
  ASSERT_NE(std::system(("sh -c '" + line + "'").c_str()), -1);
  nlohmann::json json = result();
  for (int i = 0; i < 400 && !json.is_object(); ++i) {  // timeout ends before it
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    json = result();
  }
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["stopped"], true);
  EXPECT_EQ(json["first"].size(), 11u);
  EXPECT_EQ(json["first"][0]["result"], "passed");
  EXPECT_EQ(json["tests"][0]["result"], "out of time");
  EXPECT_TRUE(json["golden"].empty());
  EXPECT_EQ(json["failures"], 1);
  EXPECT_NE(std::system(("kill -0 $(cat " + begun + ") 2>/dev/null").c_str()), 0) << "still runs";
}

TEST_F(GpuCheck, AProbeHasItsFiguresAndWhatTheGpuDidMeanwhile) {
  EXPECT_EQ(check("probes"), 0);
  EXPECT_EQ(probes_run(), "one two three");
  const nlohmann::json json = result();
  ASSERT_EQ(json["probes"].size(), 3u);
  EXPECT_EQ(json["stopped"], false);
  const nlohmann::json& second = json["probes"][1];
  EXPECT_EQ(second["name"], "two");
  EXPECT_EQ(second["result"], "passed");
  EXPECT_EQ(second["figures"]["device"], "two on cuda");
  const nlohmann::json state = {
      {"sm_mhz", 1755}, {"mem_mhz", 2619}, {"watts", 650.12}, {"celsius", 61}};
  EXPECT_EQ(second["gpu_states"], nlohmann::json::array({state}));
}

TEST_F(GpuCheck, ProbesThatTheFileHasAreNotAskedAgain) {
  EXPECT_EQ(check("probes"), 0);
  const nlohmann::json before = result()["probes"];
  probes_run();
  folder_.write("bundle/tools/probes.json", "one 11\ntwo 23\nthree 33\n");  // another question
  EXPECT_EQ(check("probes golden"), 0);
  EXPECT_EQ(probes_run(), "two");
  EXPECT_EQ(first_line("out"),
            "gpu_check: probes: 2 of 3 are in " + output() + " already, and kept");
  const nlohmann::json after = result()["probes"];
  ASSERT_EQ(after.size(), 3u);
  EXPECT_EQ(after[0]["kept"], true);
  EXPECT_EQ(after[0]["date"], before[0]["date"]);
  EXPECT_EQ(after[2]["figures"], before[2]["figures"]);
  EXPECT_FALSE(after[1].contains("kept"));
  EXPECT_EQ(check("probes"), 0);
  EXPECT_EQ(probes_run(), "");
  folder_.write("bundle/COMMIT", "abc124\n");
  EXPECT_EQ(check("probes"), 0);
  EXPECT_EQ(probes_run(), "one two three");
}

TEST_F(GpuCheck, AKilledRunIsContinued) {
  EXPECT_EQ(check("probes", "GPU_CHECK_TEST_KILLED=three"), -1);
  EXPECT_EQ(probes_run(), "one two three");
  const nlohmann::json killed = result();
  ASSERT_EQ(killed["probes"].size(), 2u);
  EXPECT_EQ(killed["stopped"], true);
  // Killed again, before it has asked anything.
  EXPECT_EQ(check("probes", "GPU_CHECK_TEST_KILLED=three"), -1);
  EXPECT_EQ(probes_run(), "three");
  EXPECT_EQ(check("probes"), 0);
  EXPECT_EQ(probes_run(), "three");
  const nlohmann::json json = result();
  EXPECT_EQ(json["stopped"], false);
  ASSERT_EQ(json["probes"].size(), 3u);
  EXPECT_EQ(json["probes"][0]["figures"], killed["probes"][0]["figures"]);
}

TEST_F(GpuCheck, AProbeThatFailedIsAskedAgain) {
  EXPECT_EQ(check("probes", "GPU_CHECK_TEST_BROKEN=two"), 1);
  const nlohmann::json json = result();
  ASSERT_EQ(json["probes"].size(), 3u);
  EXPECT_EQ(json["failures"], 1);
  EXPECT_EQ(json["probes"][1]["result"], "failed");
  EXPECT_EQ(json["probes"][1]["log"], "device error: lost");
  probes_run();
  EXPECT_EQ(check("probes"), 0);
  EXPECT_EQ(probes_run(), "two");
}

TEST_F(GpuCheck, WithoutTheProgramOfProbesThePartHasFailed) {
  std::filesystem::remove(folder_.path("bundle/bin/schedule_probe"));
  EXPECT_EQ(check("probes"), 1);
  EXPECT_EQ(result()["probes"][0]["result"], "failed");
}

// The real program, whose kernels the virtual device runs; then the script that reads the file, and
// does not take counted times for measured ones.
TEST_F(GpuCheck, ProbesRunOnTheVirtualDevice) {
  const std::string real =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "schedule_probe";
  if (!std::filesystem::exists(real)) GTEST_SKIP() << real << ": not built";
  program("bundle/bin/schedule_probe", "#!/bin/sh\n[ $# -gt 1 ] || exec " + real +
                                           " \"$1\"\nexec " + real +
                                           " \"$1\" \"$2\" \"$3\" virtual sm_90a\n");
  const std::string list = folder_.write("bundle/tools/probes.json", R"({"format": "lssar-probes",
    "probes": [{"name": "forward", "question": "", "problem": {"pass": "forward", "head_dim": 64},
      "batch": 1, "heads": 1, "length": 128, "rounds": 2,
      "constants": [{"name": "hidden_alone", "low": 0, "high": 1,
                     "ratio": ["no overlap", "default"]}],
      "expect": [{"what": "no overlap over default", "ratio": ["no overlap", "default"], "low": 0,
                  "high": 9, "source": "a test", "means": "nothing"},
                 {"what": "TFLOP/s", "tflops": "default", "low": 0, "high": 1000,
                  "source": "a test", "means": "nothing"}],
      "settings": [{"name": "default"},
                   {"name": "no overlap", "schedule": {"hopper": {"overlap": false}}}]}]})");
  EXPECT_EQ(check("probes"), 0);
  const nlohmann::json json = result();
  ASSERT_EQ(json["probes"].size(), 1u);
  const nlohmann::json& figures = json["probes"][0]["figures"];
  EXPECT_EQ(figures["evidence"], "predicted");
  ASSERT_EQ(figures["settings"].size(), 2u);
  for (const nlohmann::json& setting : figures["settings"]) {
    EXPECT_EQ(setting["verdict"], "ok") << setting;
    EXPECT_GT(setting["median_ms"], 0.0);
  }
  EXPECT_EQ(check("probes"), 0);
  EXPECT_EQ(result()["probes"][0]["kept"], true);

  if (std::system("command -v python3 >/dev/null") != 0) return;
  const std::string line = "python3 -B " LSSAR_SOURCE_FOLDER "/tools/probe_results.py --probes " +
                           list + " >" + folder_.path("out") + " 2>" + folder_.path("err") + " ";
  EXPECT_EQ(WEXITSTATUS(std::system((line + output()).c_str())), 2);
  EXPECT_EQ(first_line("err"), "probe_results: " + output() +
                                   ": probes[0].figures.evidence = \"predicted\": allowed is "
                                   "\"measured\"");
  // The same figures as if an H200 had them.
  nlohmann::json measured = result();
  measured["probes"][0]["figures"]["evidence"] = "measured";
  measured["probes"][0]["figures"]["device"] = "NVIDIA H200";
  const std::string file = folder_.write("measured.json", measured.dump());
  EXPECT_EQ(WEXITSTATUS(std::system((line + file).c_str())), 0) << first_line("err");
  EXPECT_EQ(first_line("out"), "# What the probes say of NVIDIA H200");
}

TEST_F(GpuCheck, WithoutAGpuSaysSoAndExitsWith3) {
  program("bundle/bin/lssar", kNoGpuCommand);
  EXPECT_EQ(check(), 3);
  EXPECT_FALSE(std::filesystem::exists(output()));
  EXPECT_EQ(first_line("err"), "gpu_check: missing: no GPU: tried libcuda.so.1");
}

}  // namespace
}  // namespace lssar
