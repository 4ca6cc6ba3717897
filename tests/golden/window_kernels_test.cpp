// Kernels of problems with windows against the float64 reference: what rows see, and that tiles
// outside are not visited.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "codegen/visible_keys.h"
#include "score/score_text.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

constexpr uint32_t kAllPasses = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;

CapiOptions with_schedule(const char* json = "") {
  CapiOptions options;
  options.passes = kAllPasses;
  options.alignment = 16;
  options.schedule_json = json;
  return options;
}

CheckDevice with_compiler(lssar_compiler compiler) {
  CheckDevice device;
  device.compiler = compiler;
  return device;
}

Problem make_problem(DType dtype, bool causal, int64_t left, int64_t right) {
  Problem problem;
  problem.head_dim = problem.head_dim_v = 32;
  problem.dtype = dtype;
  problem.causal = causal;
  problem.window_left = left;
  problem.window_right = right;
  return problem;
}

// Two heads share keys. Tiles have 64 rows and columns or fewer.
void check_lengths(const Problem& problem, const CapiOptions& options, const CheckDevice& device) {
  for (const auto& [q, k] : {std::pair<int64_t, int64_t>{1, 1},
                             {1, 200},
                             {63, 63},
                             {65, 64},
                             {131, 200},
                             {150, 20},
                             {64, 0},
                             {0, 9}})
    check_against_reference(problem, make_sizes(1, 2, 1, q, k), InputKind::kGauss, options, device);
}

// dq is summed in the order of the key tiles that see a query tile.
TEST(Windows, SlideWithSinks) {
  Problem problem = make_problem(DType::kBf16, true, 70, -1);
  problem.window_sinks = 5;
  check_lengths(problem, with_schedule(), with_compiler(LSSAR_COMPILER_NVRTC));
}

// Rows of at most three keys, which need both parts of dS'.
TEST(Windows, OfFewKeys) {
  for (const InputKind kind : {InputKind::kGauss, InputKind::kClustered})
    check_against_reference(make_problem(DType::kBf16, true, 2, -1), make_sizes(1, 2, 1, 130, 130),
                            kind, with_schedule());
}

TEST(Windows, LookAheadInChunksBehindAPrefix) {
  Problem problem = make_problem(DType::kFp32, false, 20, 33);
  problem.chunk = 50;
  problem.prefix = 10;
  check_lengths(problem, with_schedule(R"({"dq_mode": "split"})"),
                with_compiler(LSSAR_COMPILER_LLVM));
}

// Most rows of the prefix are in front of its keys. Tiles between prefix and chunk are skipped.
TEST(Windows, OfSoftmaxInChunks) {
  Problem problem = make_problem(DType::kFp16, true, -1, -1);
  problem.score = *parse_score("softmax");
  problem.p = 0;
  problem.chunk = 100;
  problem.prefix = 70;
  check_lengths(problem, with_schedule(), with_compiler(LSSAR_COMPILER_NVRTC));
}

// With epsilon as a pass of its own.
TEST(Windows, OfAReweightedExpression) {
  Problem problem = make_problem(DType::kBf16, false, 40, 10);
  problem.score = *parse_score("phi=relu(x)^2,normalizer=sum_abs,scale=log_dim_log_length");
  problem.p = 3;
  problem.window_sinks = 2;
  check_lengths(problem, with_schedule(), with_compiler(LSSAR_COMPILER_LLVM));
}

TEST(Windows, OfPackedHeads) {
  Problem problem = make_problem(DType::kBf16, true, 30, -1);
  problem.window_sinks = 1;
  CapiOptions options = with_schedule(R"({"variant": "portable", "pack_gqa": true})");
  options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN;
  check_against_reference(problem, make_sizes(1, 3, 1, 40, 170), InputKind::kGauss, options);
  check_against_reference(problem, make_sizes(1, 71, 1, 5, 100), InputKind::kGauss, options);
}

}  // namespace
}  // namespace lssar
