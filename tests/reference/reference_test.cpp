#include "reference/reference.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "reference/error_rule.h"
#include "reference/numerics.h"
#include "reference/random_inputs.h"
#include "tests/golden/golden_case.h"

namespace lssar {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

double l2(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

double relative_l2(const std::vector<double>& expected, const std::vector<double>& actual) {
  std::vector<double> error(expected);
  for (size_t i = 0; i < error.size(); ++i) error[i] -= actual.at(i);
  return l2(error) == 0 ? 0 : l2(error) / l2(expected);
}

struct Case {
  Problem problem;
  Sizes sizes;
  ReferenceInputs inputs;
};

// A small float32 problem, with random inputs.
Case make_case(int64_t seq_q, int64_t seq_k, int p, bool causal, uint64_t seed = 1,
               int64_t heads = 1, int64_t kv_heads = 1) {
  Case c;
  c.problem.dtype = DType::kFp32;
  c.problem.head_dim = 8;
  c.problem.head_dim_v = 16;
  c.problem.p = p;
  c.problem.causal = causal;
  c.sizes = {2, heads, kv_heads, seq_q, seq_k};
  const RandomInputs random = random_inputs(c.problem, c.sizes, InputKind::kGauss, seed);
  c.inputs = {widened(random.q), widened(random.k), widened(random.v), widened(random.grad_o)};
  return c;
}

ReferenceOutputs run(const Case& c) {
  Result<ReferenceOutputs> result = reference_attention(c.problem, c.sizes, c.inputs);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *result : ReferenceOutputs{};
}

// Rows of a [.., rows, dim] tensor that are all zero, all NaN, or have no NaN.
bool all_of_row(const std::vector<double>& x, int64_t row, int64_t dim, bool (*is)(double)) {
  return std::all_of(x.begin() + row * dim, x.begin() + (row + 1) * dim, is);
}
bool is_zero(double x) { return x == 0; }
bool is_nan(double x) { return std::isnan(x); }
bool is_finite(double x) { return std::isfinite(x); }

// The golden files hold float32. Where a gradient cancels completely, what is left in either is
// rounding of float64, far below the floor.
void expect_float32_equal(const std::vector<double>& expected, const std::vector<double>& actual,
                          double floor) {
  std::vector<double> error(expected);
  for (size_t i = 0; i < error.size(); ++i) error[i] -= actual.at(i);
  EXPECT_LE(l2(error), 6e-8 * l2(expected) + 1e-8 * floor);
}

TEST(ReferenceGolden, EveryCaseToFloat32Precision) {
  const Result<std::vector<std::string>> names = golden_case_names();
  ASSERT_TRUE(names.ok()) << names.status().to_string();
  EXPECT_GE(names->size(), 26u);
  for (const std::string& name : *names) {
    SCOPED_TRACE(name);
    const Result<GoldenCase> loaded = load_golden_case(name);
    ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
    const GoldenCase& golden = *loaded;
    const ReferenceOutputs actual =
        run({golden.problem,
             golden.sizes,
             {widened(golden.q), widened(golden.k), widened(golden.v), widened(golden.grad_o)}});
    expect_float32_equal(golden.o, actual.o, 0);
    expect_float32_equal(golden.dq, actual.dq, golden.floor_dq);
    expect_float32_equal(golden.dk, actual.dk, golden.floor_dk);
    expect_float32_equal(golden.dv, actual.dv, 0);
    EXPECT_NEAR(error_floor(actual.floor_norm_dq), golden.floor_dq, 1e-9 * golden.floor_dq);
    EXPECT_NEAR(error_floor(actual.floor_norm_dk), golden.floor_dk, 1e-9 * golden.floor_dk);
  }
}

struct Difference {
  const char* name;
  int64_t seq_q, seq_k;
  int p;
  bool causal;
  double offset;
  int64_t heads, kv_heads;
};

class ReferenceGradient : public ::testing::TestWithParam<Difference> {
 protected:
  void SetUp() override {
    const Difference& d = GetParam();
    case_ = make_case(d.seq_q, d.seq_k, d.p, d.causal, 7, d.heads, d.kv_heads);
    case_.problem.offset = d.offset;
    gradients_ = run(case_);
  }

  // sum_i g_i . o_i, what the gradients are of.
  double loss() {
    Case forward = case_;
    forward.inputs.grad_o.clear();
    const std::vector<double> o = run(forward).o;
    return std::inner_product(o.begin(), o.end(), case_.inputs.grad_o.begin(), 0.0);
  }

  void expect_gradient(std::vector<double>& input, const std::vector<double>& gradient) {
    constexpr double kStep = 1e-5;
    std::vector<double> differences(input.size());
    for (size_t i = 0; i < input.size(); ++i) {
      const double value = input[i];
      input[i] = value + kStep;
      const double above = loss();
      input[i] = value - kStep;
      const double below = loss();
      input[i] = value;
      differences[i] = (above - below) / (2 * kStep);
    }
    ASSERT_GT(l2(gradient), 1e-3);
    EXPECT_LE(relative_l2(gradient, differences), 1e-6);
  }

  Case case_;
  ReferenceOutputs gradients_;
};

TEST_P(ReferenceGradient, OfQIsThatOfFiniteDifferences) {
  expect_gradient(case_.inputs.q, gradients_.dq);
}
TEST_P(ReferenceGradient, OfKIsThatOfFiniteDifferences) {
  expect_gradient(case_.inputs.k, gradients_.dk);
}
TEST_P(ReferenceGradient, OfVIsThatOfFiniteDifferences) {
  expect_gradient(case_.inputs.v, gradients_.dv);
}

INSTANTIATE_TEST_SUITE_P(Small, ReferenceGradient,
                         ::testing::Values(Difference{"Lssa", 6, 6, 0, true, 1, 1, 1},
                                           Difference{"CausalP3", 7, 7, 3, true, 1, 1, 1},
                                           Difference{"CausalP15", 9, 9, 15, true, 1, 1, 1},
                                           Difference{"FullP2", 5, 8, 2, false, 1, 1, 1},
                                           Difference{"P1", 6, 9, 1, true, 1, 1, 1},
                                           Difference{"NoOffset", 6, 6, 3, true, 0, 1, 1},
                                           Difference{"HalfOffset", 6, 6, 7, false, 0.5, 1, 1},
                                           Difference{"KvCache", 2, 9, 3, true, 1, 1, 1},
                                           Difference{"MoreQueriesThanKeys", 8, 5, 3, true, 1, 1,
                                                      1},
                                           Difference{"Gqa", 5, 6, 3, true, 1, 4, 2}),
                         [](const auto& test) { return std::string(test.param.name); });

// The progress that a user sees. It ends at 100 %.
TEST(ReferenceProgress, CountsEveryScore) {
  for (const bool causal : {false, true}) {
    for (const auto& [seq_q, seq_k] : {std::pair{5, 9}, std::pair{9, 4}, std::pair{7, 7}}) {
      const Case c = make_case(seq_q, seq_k, 15, causal, 1, 4, 2);
      std::atomic<int64_t> done{0};
      ASSERT_TRUE(reference_attention(c.problem, c.sizes, c.inputs, &done).ok());
      EXPECT_EQ(done, reference_scores(c.problem, c.sizes));
    }
  }
  const Case c = make_case(5, 9, 15, true);
  EXPECT_EQ(reference_scores(c.problem, c.sizes), 2 * (5 + 6 + 7 + 8 + 9));
}

TEST(ReferenceMask, CausalIsBottomRight) {
  // 2 queries over 5 keys: the last key is out of sight of the first query only.
  Case c = make_case(2, 5, 3, true);
  const std::vector<double> before = run(c).o;
  for (int64_t i = 0; i < 16; ++i) c.inputs.v[4 * 16 + i] += 100;
  for (int64_t i = 0; i < 8; ++i) c.inputs.k[4 * 8 + i] *= -1;
  const std::vector<double> after = run(c).o;
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 16, after.begin()));
  EXPECT_FALSE(std::equal(before.begin() + 16, before.begin() + 32, after.begin() + 16));
}

TEST(ReferenceMask, OneKeyGivesItsValue) {
  const Case c = make_case(1, 1, 15, true);
  const ReferenceOutputs out = run(c);
  EXPECT_EQ(out.o, c.inputs.v);
  EXPECT_EQ(out.dv, c.inputs.grad_o);
  EXPECT_EQ(l2(out.dq), 0);
}

TEST(ReferenceMask, RowsWithoutKeysAreZeroAndHaveNoGradient) {
  const Case c = make_case(5, 3, 3, true);
  const ReferenceOutputs out = run(c);
  for (int64_t row : {0, 1}) {
    EXPECT_TRUE(all_of_row(out.o, row, 16, is_zero));
    EXPECT_TRUE(all_of_row(out.dq, row, 8, is_zero));
  }
  EXPECT_FALSE(all_of_row(out.o, 2, 16, is_zero));
}

TEST(ReferenceMask, NoKeysAtAll) {
  const ReferenceOutputs out = run(make_case(4, 0, 15, false));
  EXPECT_EQ(out.o.size(), 2u * 4 * 16);
  EXPECT_EQ(l2(out.o), 0);
  EXPECT_EQ(l2(out.dq), 0);
  EXPECT_TRUE(out.dk.empty());
}

TEST(ReferenceMask, NoQueriesAtAll) {
  Case c = make_case(0, 4, 15, true);
  c.problem.pass = Pass::kBackward;
  const ReferenceOutputs out = run(c);
  EXPECT_TRUE(out.o.empty());
  EXPECT_EQ(out.dk.size(), 2u * 4 * 8);
  EXPECT_EQ(l2(out.dk), 0);
  EXPECT_EQ(out.dv.size(), 2u * 4 * 16);
}

TEST(ReferenceDeadRow, EqualScoresGiveZeroAndNoGradient) {
  Case c = make_case(1, 6, 15, false);
  for (size_t i = 0; i < c.inputs.k.size(); ++i) c.inputs.k[i] = c.inputs.k[i % 8];
  const ReferenceOutputs out = run(c);
  EXPECT_EQ(l2(out.o), 0);
  EXPECT_EQ(l2(out.dq), 0);
  EXPECT_EQ(l2(out.dk), 0);
  EXPECT_EQ(l2(out.dv), 0);
}

TEST(ReferenceDeadRow, NeedsMoreThanThreeKeys) {
  Case c = make_case(1, 3, 15, false);
  for (size_t i = 0; i < c.inputs.k.size(); ++i) c.inputs.k[i] = c.inputs.k[i % 8];
  const ReferenceOutputs out = run(c);
  for (int64_t i = 0; i < 16; ++i) {
    const auto& v = c.inputs.v;
    EXPECT_NEAR(out.o[i], (v[i] + v[16 + i] + v[32 + i]) / 3, 1e-14);
  }
}

TEST(ReferenceDeadRow, DoesNotExistInLssa) {
  Case c = make_case(1, 6, 0, false);
  for (size_t i = 0; i < c.inputs.k.size(); ++i) c.inputs.k[i] = c.inputs.k[i % 8];
  EXPECT_GT(l2(run(c).o), 0);
}

TEST(ReferenceZeroVectors, HaveZeroScoresAndNoGradient) {
  Case c = make_case(4, 6, 3, false);
  std::fill_n(c.inputs.k.begin() + 8, 8, 1e-13);  // key 1
  std::fill_n(c.inputs.q.begin() + 16, 8, 0.0);   // query 2: all its scores are 0, a dead row
  const ReferenceOutputs out = run(c);
  EXPECT_TRUE(all_of_row(out.dk, 1, 8, is_zero));
  EXPECT_TRUE(all_of_row(out.dq, 2, 8, is_zero));
  EXPECT_TRUE(all_of_row(out.o, 2, 16, is_zero));
  EXPECT_TRUE(all_of_row(out.o, 0, 16, is_finite));
}

TEST(ReferenceNan, InAQueryStaysInItsRow) {
  for (int p : {0, 1, 15}) {
    Case c = make_case(5, 5, p, true);
    c.inputs.q[3 * 8 + 2] = kNan;
    c.inputs.grad_o.clear();
    const std::vector<double> o = run(c).o;
    for (int64_t row = 0; row < 10; ++row) {
      EXPECT_TRUE(all_of_row(o, row, 16, row == 3 ? is_nan : is_finite)) << p << " " << row;
    }
  }
}

TEST(ReferenceNan, InAKeyReachesTheRowsThatSeeIt) {
  for (double bad : {kNan, std::numeric_limits<double>::infinity()}) {
    Case c = make_case(6, 6, 15, true);
    c.inputs.k[4 * 8] = bad;
    c.inputs.grad_o.clear();
    const std::vector<double> o = run(c).o;
    for (int64_t row = 0; row < 12; ++row) {
      EXPECT_TRUE(all_of_row(o, row, 16, row == 4 || row == 5 ? is_nan : is_finite)) << row;
    }
  }
}

TEST(ReferenceNan, InAMaskedValueIsNotSeen) {
  Case c = make_case(4, 4, 15, true);
  c.inputs.v[3 * 16] = kNan;
  const ReferenceOutputs out = run(c);
  for (int64_t row = 0; row < 3; ++row) EXPECT_TRUE(all_of_row(out.o, row, 16, is_finite));
  EXPECT_TRUE(std::isnan(out.o[3 * 16]));
}

TEST(ReferenceGqa, QueryHeadsReadTheirKvHeadAndItsGradientsAddUp) {
  const Case grouped = make_case(5, 6, 3, true, 3, 4, 2);
  Case repeated = grouped;
  repeated.sizes.kv_heads = 4;
  const auto repeat = [](const std::vector<double>& x, size_t head) {
    std::vector<double> result;
    for (size_t h = 0; h < x.size() / head; ++h) {
      for (int copy = 0; copy < 2; ++copy) {
        result.insert(result.end(), x.begin() + h * head, x.begin() + (h + 1) * head);
      }
    }
    return result;
  };
  repeated.inputs.k = repeat(grouped.inputs.k, 6 * 8);
  repeated.inputs.v = repeat(grouped.inputs.v, 6 * 16);
  const ReferenceOutputs a = run(grouped), b = run(repeated);
  EXPECT_EQ(a.o, b.o);
  EXPECT_EQ(a.dq, b.dq);
  for (size_t i = 0; i < a.dk.size(); ++i) {
    const size_t first = i / 48 * 96 + i % 48;
    EXPECT_NEAR(a.dk[i], b.dk[first] + b.dk[first + 48], 1e-12);
  }
  EXPECT_DOUBLE_EQ(a.floor_norm_dk, b.floor_norm_dk);
}

TEST(ReferenceRange, HighPowersOverLongRowsStayFinite) {
  Case c = make_case(1, 3000, 64, false);
  std::copy_n(c.inputs.q.begin(), 8, c.inputs.k.begin());  // one key far above all others
  const ReferenceOutputs out = run(c);
  EXPECT_TRUE(all_of_row(out.o, 0, 16, is_finite));
  EXPECT_TRUE(all_of_row(out.dq, 0, 8, is_finite));
}

TEST(ReferenceErrors, NameTheTensorAndItsSize) {
  Case c = make_case(4, 4, 3, true);
  c.inputs.v.pop_back();
  EXPECT_EQ(reference_attention(c.problem, c.sizes, c.inputs).status().message(),
            "v has 127 elements: allowed are 2 x 1 x 4 x 16");
  c = make_case(4, 4, 3, true);
  c.inputs.grad_o.resize(3);
  EXPECT_EQ(reference_attention(c.problem, c.sizes, c.inputs).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ReferenceErrors, NameTheSize) {
  Case c = make_case(4, 4, 3, true);
  c.problem.seq_q = 5;
  EXPECT_EQ(reference_attention(c.problem, c.sizes, c.inputs).status().message(),
            "sizes.seq_q = 4: the problem fixes 5");
  c = make_case(4, 4, 3, true);
  c.sizes.kv_heads = 0;
  EXPECT_EQ(reference_attention(c.problem, c.sizes, c.inputs).status().message(),
            "sizes.kv_heads = 0: allowed are whole numbers from 1");
}

TEST(ReferenceErrors, InvalidProblemIsRefused) {
  Case c = make_case(4, 4, 3, true);
  c.problem.p = 1025;
  EXPECT_EQ(reference_attention(c.problem, c.sizes, c.inputs).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lssar
