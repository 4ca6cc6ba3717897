// The two passes of the forward one by one: keys (and queries) are split into ranges, merged on the
// host as lssar.h says, and compared with the whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "reference/error_rule.h"
#include "reference/random_inputs.h"
#include "reference/reference.h"
#include "tests/capi/run_capi.h"
#include "tests/capi/split_forward.h"
#include "tests/cpu/cpu_check.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class KeyRanges : public testing::Test {
 protected:
  // LSSAR_TEST_DEVICE=cpu takes the cpu device in place of the virtual one.
  void SetUp() override {
    const char* const device = std::getenv("LSSAR_TEST_DEVICE");
    if (device == nullptr) return open("sm_80");
    ASSERT_STREQ(device, "cpu");
    LSSAR_NEEDS_CPU_KERNELS();
    take(open_context(LSSAR_DEVICE_CPU));
  }
  void open(const std::string& target) {
    take(open_context(LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_AUTO, target));
  }
  void take(Result<ContextPtr> context) {
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    context_ = std::move(*context);
  }

  Result<Merged> merged(const Problem& problem, const Sizes& sizes, const CapiInputs& inputs,
                        const std::vector<Part>& queries, const std::vector<Part>& keys) {
    SplitForward split(context_.get(), problem, sizes, inputs);
    LSSAR_RETURN_IF_ERROR(split.prepare(schedule_));
    return split.run(queries, keys);
  }

  // Compares with the reference, and with the statistics of the whole forward.
  void expect_whole(const Problem& problem, const Sizes& sizes, const std::vector<Part>& queries,
                    const std::vector<Part>& keys, InputKind kind = InputKind::kGauss) {
    const RandomInputs random = random_inputs(problem, sizes, kind, 71);
    const CapiInputs inputs{random.q, random.k, random.v, {}};
    const auto split = merged(problem, sizes, inputs, queries, keys);
    ASSERT_TRUE(split.ok()) << split.status().to_string();
    const auto widened = [](const std::vector<float>& x) {
      return std::vector<double>(x.begin(), x.end());
    };
    const auto truth = reference_attention(
        problem, sizes, {widened(inputs.q), widened(inputs.k), widened(inputs.v), {}});
    ASSERT_TRUE(truth.ok()) << truth.status().to_string();
    const TensorError error =
        compare(truth->o, split->o, allowed_error(problem, OutputTensor::kO, *truth));
    EXPECT_TRUE(error.passed) << error.to_string();

    CapiOptions options;
    options.passes = LSSAR_PASS_FORWARD_TRAIN;
    options.alignment = problem.alignment == 16 ? 16 : 0;
    const auto whole = run_capi(context_.get(), problem, sizes, inputs, options);
    ASSERT_TRUE(whole.ok()) << whole.status().to_string();
    expect_same_stats(whole->saved_stats, split->stats, 2e-3);
  }

  // zs adds rounded weights, and u is the distance from m, so for rows that cancel they are coarse.
  static void expect_same_stats(const std::vector<float>& whole, const std::vector<float>& split,
                                double allowed) {
    ASSERT_EQ(split.size(), whole.size());
    const size_t rows = whole.size() / 4;
    for (size_t i = 0; i < whole.size(); ++i) {
      const double limit = i < rows || i >= 3 * rows ? 1e-5 : allowed;
      ASSERT_TRUE(std::abs(split[i] - whole[i]) <= limit * (1 + std::abs(whole[i])))
          << "plane " << i / rows << " row " << i % rows << ": " << split[i] << ", whole "
          << whole[i];
    }
  }

  ContextPtr context_;
  std::string schedule_;  // of the parts; "": the default
};

Problem problem_of(DType dtype, bool causal, int p, double offset, int64_t heads,
                   int64_t kv_heads) {
  Problem problem;
  problem.dtype = dtype;
  problem.causal = causal;
  problem.p = p;
  problem.offset = offset;
  problem.heads = heads;
  problem.kv_heads = kv_heads;
  return problem;
}

TEST_F(KeyRanges, TwoAddUpToTheWhole) {
  const Problem problem = problem_of(DType::kBf16, true, 15, 1, 1, 1);
  expect_whole(problem, {1, 1, 1, 150, 150}, cut(150, {}), cut(150, {77}));
}

TEST_F(KeyRanges, ThreeWithQueriesSplitTooAddUpToTheWhole) {
  const Problem problem = problem_of(DType::kBf16, true, 15, 1, 4, 2);
  // Each range of keys has a rank of its own, with queries before and after the others'.
  expect_whole(problem, {2, 4, 2, 90, 131}, cut(90, {37}), cut(131, {40, 41}));
}

TEST_F(KeyRanges, OfPackedHeadsAddUp) {
  schedule_ = R"({"pack_gqa": true})";
  const Problem problem = problem_of(DType::kBf16, true, 15, 1, 6, 2);
  expect_whole(problem, {2, 6, 2, 35, 90}, cut(35, {11}), cut(90, {40}));
}

TEST_F(KeyRanges, WithoutAMaskRangesMayBeEmpty) {
  const Problem problem = problem_of(DType::kFp16, false, 3, 0.5, 1, 1);
  expect_whole(problem, {1, 1, 1, 33, 100}, cut(33, {}), cut(100, {0, 65}));
}

TEST_F(KeyRanges, RowsThatSeeNoKeyAreZero) {
  const Problem problem = problem_of(DType::kFp32, true, 3, 1, 1, 1);
  expect_whole(problem, {1, 1, 1, 80, 50}, cut(80, {45}), cut(50, {20}));
}

TEST_F(KeyRanges, OfLssaAddUp) {
  const Problem problem = problem_of(DType::kBf16, true, 0, 0, 1, 1);
  expect_whole(problem, {1, 1, 1, 70, 70}, cut(70, {}), cut(70, {30}));
}

TEST_F(KeyRanges, RowsThatAreDeadInTheWholeAreZero) {
  const Problem problem = problem_of(DType::kBf16, true, 15, 1, 1, 1);
  expect_whole(problem, {1, 1, 1, 40, 40}, cut(40, {}), cut(40, {13}), InputKind::kTies);
}

TEST_F(KeyRanges, OneThatIsTheWholeNeedsNoRange) {
  const Problem problem = problem_of(DType::kBf16, true, 15, 1, 1, 1);
  expect_whole(problem, {1, 1, 1, 65, 70}, cut(65, {}), cut(70, {}));
}

TEST_F(KeyRanges, OfElementAlignedTensorsAddUp) {
  Problem problem = problem_of(DType::kBf16, true, 15, 1, 1, 1);
  problem.head_dim = problem.head_dim_v = 40;
  problem.alignment = 2;
  expect_whole(problem, {1, 1, 1, 50, 50}, cut(50, {}), cut(50, {19}));
}

TEST_F(KeyRanges, ANanInAKeyReachesTheRowsThatSeeIt) {
  const Problem problem = problem_of(DType::kBf16, true, 15, 1, 1, 1);
  const Sizes sizes{1, 1, 1, 60, 60};
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 3);
  CapiInputs inputs{random.q, random.k, random.v, {}};
  constexpr int64_t kBad = 41;
  inputs.k[kBad * problem.head_dim] = kNaN;
  const auto split = merged(problem, sizes, inputs, cut(60, {}), cut(60, {32}));
  ASSERT_TRUE(split.ok()) << split.status().to_string();
  for (int64_t i = 0; i < 60; ++i)
    for (int64_t c = 0; c < 64; ++c)
      ASSERT_EQ(std::isnan(split->o[i * 64 + c]), i >= kBad) << "row " << i << " column " << c;
}

// The second range has no key of most windows, and the prefix and the sinks are in the first.
TEST_F(KeyRanges, OfWindowsAddUp) {
  Problem problem = problem_of(DType::kBf16, true, 15, 1, 2, 1);
  problem.window_left = 30;
  problem.window_sinks = 3;
  problem.prefix = 9;
  expect_whole(problem, {1, 2, 1, 90, 131}, cut(90, {37}), cut(131, {70, 80}));
}

// Keys [first, end) and their values are no numbers, and no row sees them: the same bits as with
// numbers. A range may begin or end among them, or have them alone.
TEST_F(KeyRanges, OfWindowsReadNoKeyThatNoRowSees) {
  for (const int alignment : {16, 2}) {
    Problem problem = problem_of(DType::kBf16, true, 15, 1, 2, 1);
    problem.window_left = 30;
    problem.prefix = 9;
    problem.alignment = alignment;
    constexpr int64_t kFirst = 9, kEnd = 131 - 35 - 30;
    const Sizes sizes{1, 2, 1, 35, 131};
    const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 9);
    CapiInputs inputs{random.q, random.k, random.v, {}};
    const auto run = [&] {
      return merged(problem, sizes, inputs, cut(35, {}), cut(131, {20, 40, 70}));
    };
    const auto usual = run();
    for (std::vector<float>* x : {&inputs.k, &inputs.v})
      std::fill(x->begin() + kFirst * 64, x->begin() + kEnd * 64, kNaN);
    const auto poisoned = run();
    ASSERT_TRUE(usual.ok() && poisoned.ok()) << usual.status().to_string();
    EXPECT_EQ(usual->o, poisoned->o) << "alignment " << alignment;
    EXPECT_EQ(usual->stats, poisoned->stats) << "alignment " << alignment;
  }
}

TEST_F(KeyRanges, OnHopperTakeThePortableKernels) {
  open("sm_90a");
  const Problem problem = problem_of(DType::kBf16, true, 15, 1, 1, 1);
  expect_whole(problem, {1, 1, 1, 70, 70}, cut(70, {}), cut(70, {30}));
  const lssar_problem c = to_c(problem, LSSAR_PASS_ROW_SUMS, 16);
  lssar_plan_options options = {};
  options.struct_size = sizeof(options);
  options.schedule_json = R"({"variant": "hopper"})";
  lssar_plan* plan = nullptr;
  EXPECT_EQ(lssar_plan_create(context_.get(), &c, &options, &plan), LSSAR_STATUS_INVALID_ARGUMENT);
  EXPECT_NE(
      std::string(lssar_last_error_detail()).find("only variant portable runs row-sums alone"),
      std::string::npos)
      << lssar_last_error_detail();
}

class GoldenKeyRanges : public KeyRanges, public testing::WithParamInterface<const char*> {};

TEST_P(GoldenKeyRanges, AddUp) {
  const auto golden = load_golden_case(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  const int64_t keys = golden->sizes.seq_k;
  const auto split =
      merged(golden->problem, golden->sizes, {golden->q, golden->k, golden->v, {}},
             cut(golden->sizes.seq_q, {}), cut(keys, {keys / 3, keys / 3 + keys / 2 + 1}));
  ASSERT_TRUE(split.ok()) << split.status().to_string();
  const Result<ReferenceOutputs> truth = golden_reference(*golden);
  ASSERT_TRUE(truth.ok()) << truth.status().to_string();
  const TensorError error =
      compare(truth->o, split->o, allowed_error(golden->problem, OutputTensor::kO, *truth));
  EXPECT_TRUE(error.passed) << error.to_string();
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenKeyRanges,
                         testing::Values("cache_7_of_60", "full_p15_d64", "gqa_4_2", "lq_gt_lk"));

// The row statistics that a forward returns on request.
class RowStats : public KeyRanges, public testing::WithParamInterface<const char*> {};

TEST_P(RowStats, AreThoseOfTheForwardForTraining) {
  open(GetParam());
  const Problem problem = problem_of(DType::kBf16, true, 15, 1, 2, 1);
  const Sizes sizes{1, 2, 1, 70, 90};
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 5);
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN;
  options.alignment = 16;
  const auto plain =
      run_capi(context_.get(), problem, sizes, {random.q, random.k, random.v, {}}, options);
  ASSERT_TRUE(plain.ok()) << plain.status().to_string();
  options.wants_row_stats = true;
  const auto asked =
      run_capi(context_.get(), problem, sizes, {random.q, random.k, random.v, {}}, options);
  ASSERT_TRUE(asked.ok()) << asked.status().to_string();
  EXPECT_EQ(asked->o, plain->o);
  expect_same_stats(asked->saved_stats, asked->row_stats, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Targets, RowStats, testing::Values("sm_80", "sm_90a"));

}  // namespace
}  // namespace lssar
