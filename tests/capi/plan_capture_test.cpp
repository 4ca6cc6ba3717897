// LSSAR_CAPTURE_DIR: calls of the C API as files, replayed by the command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "reference/random_inputs.h"
#include "tests/capi/run_capi.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;

class PlanCaptureTest : public testing::Test {
 protected:
  void SetUp() override { setenv("LSSAR_CAPTURE_DIR", folder_.c_str(), 1); }
  void TearDown() override {
    for (const char* name : {"LSSAR_CAPTURE_DIR", "LSSAR_CAPTURE_INPUTS", "LSSAR_CAPTURE_CALL"})
      unsetenv(name);
    lssar_set_log_callback(nullptr, nullptr, LSSAR_LOG_ERROR);
  }

  void run(uint32_t passes, Layout layout = Layout::kContiguous, bool wants_row_stats = false) {
    Result<ContextPtr> context = open_context(LSSAR_DEVICE_VIRTUAL);
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    Problem problem;
    problem.causal = true;
    problem.dtype = DType::kFp16;
    problem.head_dim = problem.head_dim_v = 16;
    problem.pass = Pass::kBackward;  // for grad_o
    const Sizes sizes = {2, 4, 2, 20, 36};
    problem.heads = 4;
    problem.kv_heads = 2;
    RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 5);
    CapiOptions options;
    options.passes = passes;
    options.layout = layout;
    options.wants_row_stats = wants_row_stats;
    const auto outputs = run_capi(context->get(), problem, sizes,
                                  {random.q, random.k, random.v, random.grad_o}, options);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  }

  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    std::error_code none;
    for (const auto& one : std::filesystem::directory_iterator(folder_, none))
      paths.push_back(one.path());
    return paths;
  }
  std::string file_of(const std::string& part) const {
    for (const std::string& path : files())
      if (path.find(part) != path.npos) return path;
    return "no file of " + part;
  }
  CommandResult replay(const std::string& path) const {
    return command_.run({"replay", path, "--device", "virtual"});
  }

  CommandRunner command_;
  std::string folder_ = command_.path("captures");
};

TEST_F(PlanCaptureTest, EveryKernelsFirstCallWithItsTensors) {
  setenv("LSSAR_CAPTURE_INPUTS", "1", 1);
  run(LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD);
  ASSERT_EQ(files().size(), 2u);
  for (const char* pass : {"forward_train", "backward"}) {
    const CommandResult result = replay(file_of(pass));
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("bit for bit as captured"));
    EXPECT_THAT(result.out, HasSubstr("batch 2 heads 4/2, captured inputs"));
    EXPECT_EQ(result.out.find("other bits"), result.out.npos) << result.out;
  }
}

TEST_F(PlanCaptureTest, OfTensorsWithGapsAndOddAddresses) {
  setenv("LSSAR_CAPTURE_INPUTS", "1", 1);
  run(LSSAR_PASS_FORWARD, Layout::kUnaligned, true);
  ASSERT_EQ(files().size(), 1u);
  const std::string path = files()[0];
  const CommandResult result = replay(path);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("o: bit for bit as captured"));
  EXPECT_THAT(result.out, HasSubstr("row_stats: bit for bit as captured"));
  const CommandResult parts = command_.run({"replay", path, "--extract", command_.path("parts")});
  EXPECT_EQ(parts.exit_code, 0) << parts.err;
  const CommandResult layout =
      command_.run({"replay", path, "--device", "virtual", "--contiguous", "--times", "2"});
  EXPECT_EQ(layout.exit_code, 0) << layout.out << layout.err;
}

TEST_F(PlanCaptureTest, WithoutTensorsSizesAndKernelsAreKept) {
  run(LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD, Layout::kLengthMajor);
  const CommandResult result = replay(file_of("backward"));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("gauss data, seed 1"));
  EXPECT_THAT(result.out, HasSubstr("seq anyxany batch 2 heads 4/2"));
}

TEST_F(PlanCaptureTest, TheCallThatIsAskedFor) {
  setenv("LSSAR_CAPTURE_CALL", "2", 1);
  run(LSSAR_PASS_FORWARD);
  EXPECT_EQ(files().size(), 0u);
  run(LSSAR_PASS_FORWARD);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(PlanCaptureTest, AVariableThatIsNotUnderstoodIsAWarningAndNothingIsCaptured) {
  std::string said;
  lssar_set_log_callback(
      [](int, const char* message, void* user) {
        *static_cast<std::string*>(user) += std::string(message) + "\n";
      },
      &said, LSSAR_LOG_WARNING);
  setenv("LSSAR_CAPTURE_CALL", "0", 1);
  run(LSSAR_PASS_FORWARD);
  EXPECT_THAT(said, HasSubstr("LSSAR_CAPTURE_CALL = 0: allowed are 1 and more"));
  unsetenv("LSSAR_CAPTURE_CALL");
  setenv("LSSAR_CAPTURE_INPUTS", "yes", 1);
  run(LSSAR_PASS_FORWARD);
  EXPECT_THAT(said, HasSubstr("LSSAR_CAPTURE_INPUTS = yes: allowed are 0, 1"));
  EXPECT_EQ(files().size(), 0u);
}

TEST_F(PlanCaptureTest, AFolderThatCannotBeMadeIsAWarning) {
  std::string said;
  lssar_set_log_callback(
      [](int, const char* message, void* user) {
        *static_cast<std::string*>(user) += std::string(message) + "\n";
      },
      &said, LSSAR_LOG_WARNING);
  command_.write("captures", "a file");
  run(LSSAR_PASS_FORWARD);
  EXPECT_THAT(said, HasSubstr("LSSAR_CAPTURE_DIR: lssar_forward_fp16_d16_p15_causal: '" + folder_));
}

}  // namespace
}  // namespace lssar
