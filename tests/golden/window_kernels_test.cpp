// Kernels of problems with windows against the float64 reference: what rows see, and that tiles
// outside are not visited.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include <nlohmann/json.hpp>

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

// Keys [first, end) are not numbers, and no row sees them. All results are the same as with
// numbers, even where a tile also has keys that are seen.
void check_unseen(const Problem& problem, const Sizes& sizes, int64_t first, int64_t end,
                  const CapiOptions& options, const CheckDevice& device = {}) {
  RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 5);
  const auto run = [&] {
    return run_capi(shared_context(device), problem, sizes, {in.q, in.k, in.v, in.grad_o}, options);
  };
  const auto usual = run();
  for (int64_t head = 0; head < sizes.kv_heads; ++head) {
    const int64_t at = (head * sizes.seq_k + first) * problem.head_dim;
    const int64_t count = (end - first) * problem.head_dim;
    std::fill_n(in.k.begin() + at, count, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(in.v.begin() + at, count, std::numeric_limits<float>::infinity());
  }
  const auto poisoned = run();
  ASSERT_TRUE(usual.ok() && poisoned.ok()) << usual.status().to_string();
  EXPECT_EQ(usual->o, poisoned->o);
  EXPECT_EQ(usual->o_train, poisoned->o_train);
  EXPECT_EQ(usual->grad_q, poisoned->grad_q);
  EXPECT_EQ(usual->grad_k, poisoned->grad_k);
  EXPECT_EQ(usual->grad_v, poisoned->grad_v);
}

// dq is summed in the order of the key tiles that see a query tile.
TEST(Windows, SlideWithSinks) {
  Problem problem = make_problem(DType::kBf16, true, 70, -1);
  problem.window_sinks = 5;
  check_lengths(problem, with_schedule(), with_compiler(LSSAR_COMPILER_NVRTC));
  check_unseen(problem, make_sizes(1, 2, 1, 61, 200), 5, 200 - 61 - 70, with_schedule(),
               with_compiler(LSSAR_COMPILER_NVRTC));
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
  check_unseen(problem, make_sizes(1, 2, 1, 40, 200), 10, 150,
               with_schedule(R"({"dq_mode": "split"})"), with_compiler(LSSAR_COMPILER_LLVM));
}

// Most rows of the prefix are in front of its keys. Tiles between prefix and chunk are skipped.
TEST(Windows, OfSoftmaxInChunks) {
  Problem problem = make_problem(DType::kFp16, true, -1, -1);
  problem.score = *parse_score("softmax");
  problem.p = 0;
  problem.chunk = 100;
  problem.prefix = 70;
  check_lengths(problem, with_schedule(), with_compiler(LSSAR_COMPILER_NVRTC));
  check_unseen(problem, make_sizes(1, 2, 1, 20, 150), 70, 100, with_schedule(),
               with_compiler(LSSAR_COMPILER_NVRTC));
}

// With epsilon as a pass of its own.
TEST(Windows, OfAReweightedExpression) {
  Problem problem = make_problem(DType::kBf16, false, 40, 10);
  problem.score = *parse_score("phi=relu(x)^2,normalizer=sum_abs,scale=log_dim_log_length");
  problem.p = 3;
  problem.window_sinks = 2;
  check_lengths(problem, with_schedule(), with_compiler(LSSAR_COMPILER_LLVM));
  check_unseen(problem, make_sizes(1, 2, 1, 70, 200), 2, 200 - 70 - 40, with_schedule(),
               with_compiler(LSSAR_COMPILER_LLVM));
}

TEST(Windows, OfPackedHeads) {
  Problem problem = make_problem(DType::kBf16, true, 30, -1);
  problem.window_sinks = 1;
  CapiOptions options = with_schedule(R"({"variant": "portable", "pack_gqa": true})");
  options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN;
  check_against_reference(problem, make_sizes(1, 3, 1, 40, 170), InputKind::kGauss, options);
  check_against_reference(problem, make_sizes(1, 71, 1, 5, 100), InputKind::kGauss, options);
  check_unseen(problem, make_sizes(1, 3, 1, 40, 170), 1, 170 - 40 - 30, options);
}

// ---- the kernels for Hopper, with small tiles, so that a block visits several

constexpr uint32_t kForwards = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN;
constexpr uint32_t kTraining = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;

CapiOptions on_hopper(uint32_t passes, const char* json = "{}") {
  auto schedule = nlohmann::json::parse(small_tiles("sm_90a"));
  schedule["variant"] = "hopper";
  schedule.merge_patch(nlohmann::json::parse(json));
  CapiOptions options = with_schedule();
  options.schedule_json = schedule.dump();
  options.passes = passes;
  return options;
}

CheckDevice hopper_device(lssar_compiler compiler = LSSAR_COMPILER_NVRTC) {
  CheckDevice device = with_compiler(compiler);
  device.target = "sm_90a";
  return device;
}

// More work tiles than the virtual device has SMs, key tiles that some query tiles skip, and as in
// check_lengths.
void check_hopper_lengths(const Problem& problem, const CapiOptions& options,
                          lssar_compiler compiler = LSSAR_COMPILER_NVRTC) {
  check_lengths(problem, options, hopper_device(compiler));
  for (const auto& [q, k] : {std::pair<int64_t, int64_t>{300, 270}, {200, 520}})
    check_against_reference(problem, make_sizes(2, 2, 1, q, k), InputKind::kGauss, options,
                            hopper_device(compiler));
}

TEST(HopperWindows, SlideWithSinks) {
  Problem problem = make_problem(DType::kBf16, true, 70, -1);
  problem.window_sinks = 5;
  const CapiOptions options = on_hopper(kForwards);
  check_hopper_lengths(problem, options);
  check_unseen(problem, make_sizes(1, 2, 1, 61, 200), 5, 200 - 61 - 70, options, hopper_device());
}

// Both sides of the gap are in one tile, and values are waited for before keys.
TEST(HopperWindows, LookAheadInChunksBehindAPrefix) {
  Problem problem = make_problem(DType::kFp16, false, 20, 33);
  problem.chunk = 50;
  problem.prefix = 10;
  const CapiOptions options =
      on_hopper(kForwards, R"({"skip_tiles": true, "hopper": {"overlap": false}})");
  check_hopper_lengths(problem, options);
  check_unseen(problem, make_sizes(1, 2, 1, 168, 200), 10, 12, options, hopper_device());
  check_unseen(problem, make_sizes(1, 2, 1, 40, 200), 10, 150, options, hopper_device());
  check_unseen(problem, make_sizes(1, 2, 1, 5, 190), 10, 165, options, hopper_device());
}

// Tiles of the default sizes, for queries of heads side by side, two blocks of them at a time.
TEST(HopperWindows, OfPackedHeadsInClusters) {
  Problem problem = make_problem(DType::kBf16, true, 30, -1);
  problem.window_sinks = 1;
  const CapiOptions options =
      on_hopper(LSSAR_PASS_FORWARD, R"({"pack_gqa": true, "hopper": {"cluster": 2}})");
  for (const Sizes& sizes : {make_sizes(1, 3, 1, 40, 170), make_sizes(1, 71, 1, 5, 100)})
    check_against_reference(problem, sizes, InputKind::kGauss, options, hopper_device());
  check_unseen(problem, make_sizes(1, 3, 1, 40, 170), 1, 170 - 40 - 30, options, hopper_device());
}

TEST(HopperWindows, OfSoftmaxInChunks) {
  Problem problem = make_problem(DType::kFp16, true, -1, -1);
  problem.score = *parse_score("softmax");
  problem.p = 0;
  problem.chunk = 100;
  problem.prefix = 70;
  const CapiOptions options = on_hopper(LSSAR_PASS_FORWARD_TRAIN);
  check_hopper_lengths(problem, options, LSSAR_COMPILER_LLVM);
  check_unseen(problem, make_sizes(1, 2, 1, 20, 150), 70, 100, options,
               hopper_device(LSSAR_COMPILER_LLVM));
}

// Rows of few keys, whose weights no sum divides, are anywhere: pass 2 runs again in their tiles.
TEST(HopperWindows, OfFewKeysOfASigmoid) {
  Problem problem = make_problem(DType::kBf16, true, -1, -1);
  problem.score = *parse_score("sigmoid");
  problem.p = 0;
  problem.chunk = 150;
  check_hopper_lengths(problem, on_hopper(LSSAR_PASS_FORWARD));
}

// Key tiles add to dq in their order, without those that do not see a query tile.
TEST(HopperWindows, SlideWithSinksBackward) {
  Problem problem = make_problem(DType::kBf16, true, 70, -1);
  problem.window_sinks = 5;
  const CapiOptions options =
      on_hopper(kTraining, R"({"dq_mode": "ordered", "dkdv": {"block_cols": 64}})");
  check_hopper_lengths(problem, options);
  check_unseen(problem, make_sizes(1, 2, 1, 61, 200), 5, 200 - 61 - 70, options, hopper_device());
}

// dq has a kernel of its own, and fp16 a warp that scales.
TEST(HopperWindows, LookAheadInChunksBehindAPrefixBackward) {
  Problem problem = make_problem(DType::kFp16, false, 20, 33);
  problem.chunk = 50;
  problem.prefix = 10;
  const CapiOptions options = on_hopper(kTraining, R"({"dq_mode": "split"})");
  check_hopper_lengths(problem, options);
  check_unseen(problem, make_sizes(1, 2, 1, 168, 200), 10, 12, options, hopper_device());
  check_unseen(problem, make_sizes(1, 2, 1, 40, 200), 10, 150, options, hopper_device());
  check_unseen(problem, make_sizes(1, 2, 1, 5, 190), 10, 165, options, hopper_device());
}

// Rows of at most three keys, which need both parts of dS'. In fp16 a tile of dS' has a scale.
TEST(HopperWindows, OfFewKeysBackward) {
  for (const auto& [dtype, mode] : {std::pair{DType::kFp16, R"({"dq_mode": "atomic"})"},
                                    {DType::kBf16, R"({"dq_mode": "atomic"})"},
                                    {DType::kBf16, R"({"dq_mode": "split"})"}}) {
    auto schedule = nlohmann::json::parse(mode);
    schedule["dkdv"]["block_cols"] = 64;
    for (const InputKind kind : {InputKind::kGauss, InputKind::kClustered})
      check_against_reference(make_problem(dtype, true, 2, -1), make_sizes(1, 2, 1, 130, 130), kind,
                              on_hopper(kTraining, schedule.dump().c_str()), hopper_device());
  }
}

// With epsilon as a pass of its own, and a sweep for dv before one for dk.
TEST(HopperWindows, OfAReweightedExpressionBackward) {
  Problem problem = make_problem(DType::kBf16, false, 40, 10);
  problem.score = *parse_score("phi=relu(x)^2,normalizer=sum_abs,scale=log_dim_log_length");
  problem.p = 3;
  problem.window_sinks = 2;
  const CapiOptions options = on_hopper(kTraining, R"({"dq_mode": "split", "split_dkdv": true,
                               "hopper": {"overlap": false}})");
  check_hopper_lengths(problem, options, LSSAR_COMPILER_LLVM);
  check_unseen(problem, make_sizes(1, 2, 1, 70, 200), 2, 200 - 70 - 40, options,
               hopper_device(LSSAR_COMPILER_LLVM));
}

}  // namespace
}  // namespace lssar
