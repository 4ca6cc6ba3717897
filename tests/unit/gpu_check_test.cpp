// tools/gpu_check.sh against stand-ins for the programs of a bundle: what a GPU machine would run
// once, and must not find broken there.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/unit/command_runner.h"

namespace lssar {
namespace {

constexpr char kGoodCommand[] = R"(#!/bin/sh
case $1 in
  doctor)
    echo '  nvrtc     13.0.88  /usr/lib/libnvrtc.so.13'
    echo '  cuda 0    NVIDIA H200, 132 SMs, driver 580.1' ;;
  verify)
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
// --tool NAME --error-exitcode N COMMAND...
constexpr char kSanitizer[] = "#!/bin/sh\nshift 4\nexec \"$@\"\n";

class GpuCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_.path("bundle/bin"));
    std::filesystem::create_directories(folder_.path("path"));
    std::filesystem::copy_file(std::string(LSSAR_SOURCE_FOLDER) + "/tools/gpu_check.sh",
                               folder_.path("bundle/gpu_check.sh"));
    folder_.write("bundle/COMMIT", "abc123\n");
    folder_.write("bundle/tests.txt", "gpu numbers_test\nunit other_test\n");
    program("bundle/bin/lssar", kGoodCommand);
    program("bundle/bin/numbers_test", kTestProgram);
    program("bundle/bin/golden_test", kTestProgram);
    program("bundle/bin/kernel_bench", kBenchProgram);
    program("path/compute-sanitizer", kSanitizer);
  }

  void program(const std::string& name, const std::string& text) {
    const std::string path = folder_.write(name, text);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  int check() {
    const std::string line = "PATH=" + folder_.path("path") + ":$PATH sh " +
                             folder_.path("bundle/gpu_check.sh") + " " + output() + " >" +
                             folder_.path("out") + " 2>" + folder_.path("err");
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string output() const { return folder_.path("result.json"); }
  nlohmann::json result() const {
    std::ifstream file(output());
    return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  }

  CommandRunner folder_;
};

TEST_F(GpuCheck, WritesOneFileOfEverything) {
  EXPECT_EQ(check(), 1);  // the stand-in fails on one kind of data
  const nlohmann::json json = result();
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["commit"], "abc123");
  EXPECT_EQ(json["gpu"], "NVIDIA H200");
  EXPECT_EQ(json["driver"], "580.1");
  EXPECT_EQ(json["nvrtc"], "13.0.88");
  EXPECT_EQ(json["tests"][0]["passed"], 12);
  EXPECT_EQ(json["golden"].size(), 8u);      // shards
  EXPECT_EQ(json["sanitizer"].size(), 20u);  // four tools, five cases
  EXPECT_EQ(json["verify"][0]["worst_relative_l2"], "2.58e-03");
  EXPECT_EQ(json["benchmarks"][0]["figures"]["benchmarks"][0], 1);
}

TEST_F(GpuCheck, CountsAndShowsWhatFailed) {
  check();
  const nlohmann::json json = result();
  int failed = 0;
  for (const nlohmann::json& one : json["verify"]) {
    if (one["result"] == "passed") continue;
    ++failed;
    EXPECT_EQ(one["log"], "lssar: device error: a \"quoted\" text");
  }
  EXPECT_EQ(failed, 2);  // forward and backward
  EXPECT_EQ(json["failures"], 2);
}

TEST_F(GpuCheck, TestsThatOnlySkipHaveFailed) {
  program("bundle/bin/numbers_test", kSkippingProgram);
  check();
  EXPECT_EQ(result()["tests"][0]["result"], "failed");
  EXPECT_EQ(result()["failures"], 3);
}

TEST_F(GpuCheck, WithoutAGpuSaysSoAndExitsWith3) {
  program("bundle/bin/lssar", kNoGpuCommand);
  EXPECT_EQ(check(), 3);
  EXPECT_FALSE(std::filesystem::exists(output()));
  std::ifstream file(folder_.path("err"));
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "gpu_check: missing: no GPU: tried libcuda.so.1");
}

}  // namespace
}  // namespace lssar
