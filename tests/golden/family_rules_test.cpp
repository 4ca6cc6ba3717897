// Score functions beside LSSAR's: sizes, dims, layouts and data against the float64 reference, and
// the rules for NaN, empty rows and rows without weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>

#include "reference/error_rule.h"
#include "score/derivative.h"
#include "score/program.h"
#include "score/score_text.h"
#include "tests/golden/attention_check.h"
#include "tests/score/random_expression.h"

namespace lssar {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kAllPasses = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;

struct Member {
  const char* name;
  const char* score;
  int p;
  // The first of its kind: head dims, layouts and schedules are tried with these alone, since
  // each of them is a kernel to compile.
  bool is_first = false;
};

void PrintTo(const Member& member, std::ostream* out) { *out << member.name; }

// One of each class of docs/math.md, and what is special in each.
constexpr Member kMembers[] = {
    {"softmax", "softmax", 0, true},
    {"softmax_p3", "softmax", 3},
    {"steep_exponential", "phi=-2*exp(-3*x),qk_norm=true", 0},
    {"sigmoid", "sigmoid", 0, true},
    {"relu_over_length", "phi=relu,normalizer=length,qk_norm=false,scale=inv_sqrt_dim", 0, true},
    {"relu_magnitudes", "phi=relu,normalizer=sum_abs", 0},
    {"gelu_magnitudes_p7", "phi=gelu,normalizer=sum_abs", 7, true},
    {"mixed_signs", "phi=relu(x)^2 - 0.3*abs(x) + 1.5,normalizer=sum_abs,bias=-0.5", 0},
    {"not_finite_at_0", "phi=log(x),bias=50,normalizer=sum_abs", 0},
    {"lssar_p100", "lssar", 100},
    {"psi", "softmax,psi=(x - b) / N", 0, true},
    {"sink", "softmax,sink=per_head", 0},
    {"sink_p3", "softmax,sink=per_head", 3, true},
    {"sink_psi", "softmax,sink=per_head,psi=(x - b) / N", 0},
    {"sink_bias_log_scale", "lssar,phi=exp,bias=neg_log_length,sink=per_head", 0},
    {"psi_over_magnitudes", "phi=softplus,psi=x*tanh(x + b - N),psi_normalizer=sum_abs", 0, true},
    {"psi_over_sum_of_sigmoids", "sigmoid,psi=x^2 + b,psi_normalizer=sum", 0},
};

Problem problem_of(const Member& member, DType dtype, int dim, bool causal) {
  Problem problem;
  const auto score = parse_score(member.score);
  EXPECT_TRUE(score.ok()) << score.status().to_string();
  if (score.ok()) problem.score = *score;
  problem.p = member.p;
  problem.dtype = dtype;
  problem.head_dim = problem.head_dim_v = dim;
  problem.causal = causal;
  return problem;
}

// Kernels in fp32 are the same at every target.
std::vector<DType> dtypes() {
  if (test_target() == "sm_90a") return {DType::kBf16, DType::kFp16};
  return {DType::kBf16, DType::kFp16, DType::kFp32};
}

// Where each would be kernels to compile, a turn takes one.
DType dtype_in_turn(size_t turn) { return dtypes()[turn % dtypes().size()]; }

CapiOptions all_passes() {
  CapiOptions options;
  options.passes = kAllPasses;
  options.alignment = 16;
  return options;
}

CapiOptions training_step() {
  CapiOptions options = all_passes();
  options.passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  return options;
}

// family_kernels_test has kernels at d 64 with the default tiles.
CapiOptions with_small_tiles() {
  CapiOptions options = all_passes();
  options.schedule_json = small_tiles();
  return options;
}

size_t turn_of(const Member& member) {
  size_t turn = 0;
  while (std::string_view(kMembers[turn].name) != member.name) ++turn;
  return turn;
}

// One 16-bit type in turn, since they differ in conversions only.
DType half_type(const Member& member) {
  return turn_of(member) % 2 == 0 ? DType::kBf16 : DType::kFp16;
}

class FamilyRules : public testing::TestWithParam<Member> {
 protected:
  // And fp32 where it has kernels of its own.
  static std::vector<DType> dtypes_in_turn() {
    std::vector<DType> types = {half_type(GetParam())};
    if (test_target() != "sm_90a") types.push_back(DType::kFp32);
    return types;
  }
  CapiOutputs run(const Problem& problem, const Sizes& sizes, const RandomInputs& inputs) const {
    const auto outputs =
        run_capi(shared_context(), problem, sizes,
                 {inputs.q, inputs.k, inputs.v, inputs.grad_o, inputs.sink}, with_small_tiles());
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? *outputs : CapiOutputs{};
  }
};

// The first of each kind without a mask too, at one target.
TEST_P(FamilyRules, HoldForEveryLength) {
  const int64_t pairs[][2] = {{1, 1},   {2, 2},  {3, 3},  {5, 5},  {16, 16}, {17, 17}, {63, 63},
                              {65, 65}, {7, 60}, {20, 7}, {64, 0}, {0, 64},  {131, 67}};
  const auto check = [&](const Problem& problem) {
    for (const auto& pair : pairs)
      check_against_reference(problem, make_sizes(1, 2, 1, pair[0], pair[1]), InputKind::kGauss,
                              with_small_tiles());
  };
  for (const DType dtype : dtypes_in_turn()) check(problem_of(GetParam(), dtype, 64, true));
  if (GetParam().is_first && test_target() != "sm_90a")
    check(problem_of(GetParam(), half_type(GetParam()), 64, false));
}

class FamilyShapes : public FamilyRules {};

// Two dims for each kind, in turn: what depends on the dim is the same for all. In bf16 and fp32 in
// turn; fp16 is as bf16 but for conversions.
TEST_P(FamilyShapes, HoldForEveryHeadDim) {
  constexpr std::pair<int, int> kDims[] = {{8, 8}, {40, 24}, {128, 136}, {256, 64}, {32, 256}};
  size_t turn = turn_of(GetParam());
  size_t place = std::count_if(kMembers, kMembers + turn,  // the kinds before this one
                               [](const Member& member) { return member.is_first; });
  for (const auto& [dim, dim_v] : kDims) {
    const bool is_fp32 = ++turn % 2 == 0 && test_target() != "sm_90a";
    if (place++ % std::size(kDims) > 1) continue;
    Problem problem = problem_of(GetParam(), is_fp32 ? DType::kFp32 : DType::kBf16, dim, true);
    problem.head_dim_v = dim_v;
    check_against_reference(problem, make_sizes(2, 4, 2, 37, 53), InputKind::kGauss,
                            with_small_tiles());
  }
}

TEST_P(FamilyShapes, HoldForEveryLayoutAndSchedule) {
  for (const Layout layout : {Layout::kLengthMajor, Layout::kPadded, Layout::kUnaligned}) {
    CapiOptions options = training_step();
    options.alignment = 0;
    options.layout = layout;
    check_against_reference(problem_of(GetParam(), DType::kFp16, 40, true),
                            make_sizes(2, 4, 2, 33, 49), InputKind::kGauss, options);
  }
  for (const char* schedule :
       {R"({"pack_gqa": true})", R"({"dq_mode": "split", "split_dkdv": true})",
        R"({"dq_mode": "atomic"})", R"({"dq_mode": "ordered"})"}) {
    CapiOptions options = all_passes();
    options.schedule_json = schedule;
    check_against_reference(problem_of(GetParam(), half_type(GetParam()), 64, true),
                            make_sizes(1, 4, 2, 70, 90), InputKind::kGauss, options);
  }
}

// In fp32: in 16 bits gradients of data that point one way are rounding errors of what cancels.
TEST_P(FamilyRules, HoldForEveryKindOfData) {
  for (const InputKind kind : {InputKind::kPeaky, InputKind::kClustered, InputKind::kOpposed,
                               InputKind::kZeros, InputKind::kLocal})
    check_against_reference(problem_of(GetParam(), DType::kFp32, 64, true),
                            make_sizes(1, 1, 1, 80, 80), kind, all_passes());
}

// A NaN reaches the rows that see it, and no others.
TEST_P(FamilyRules, NanStaysInTheRowsThatSeeIt) {
  constexpr int kLength = 40, kDim = 64, kQuery = 9, kKey = 21;
  for (const DType dtype : dtypes_in_turn()) {
    for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
      const Problem problem = problem_of(GetParam(), dtype, kDim, true);
      const Sizes sizes = make_sizes(1, 1, 1, kLength, kLength);
      RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, 3);
      inputs.q[kQuery * kDim + 5] = bad;
      inputs.k[kKey * kDim + 7] = bad;
      const CapiOutputs outputs = run(problem, sizes, inputs);
      ASSERT_EQ(outputs.o.size(), inputs.q.size());
      for (int row = 0; row < kLength; ++row) {
        for (int col = 0; col < kDim; ++col) {
          EXPECT_EQ(std::isnan(outputs.o[row * kDim + col]), row == kQuery || row >= kKey)
              << row << ", " << col;
          EXPECT_EQ(std::isnan(outputs.o_train[row * kDim + col]), row == kQuery || row >= kKey);
        }
      }
      // Key kKey is seen by rows from kKey on, all of them NaN.
      for (int col = 0; col < kDim; ++col)
        EXPECT_TRUE(std::isnan(outputs.grad_k[kKey * kDim + col]));
    }
  }
}

TEST_P(FamilyRules, RowsWithoutKeysAreZeroWhateverTheirQuery) {
  constexpr int kQueries = 40, kKeys = 20, kDim = 64;
  for (const DType dtype : dtypes_in_turn()) {
    const Problem problem = problem_of(GetParam(), dtype, kDim, true);
    const Sizes sizes = make_sizes(1, 1, 1, kQueries, kKeys);
    RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, 3);
    inputs.q[5 * kDim] = kNan;
    const CapiOutputs outputs = run(problem, sizes, inputs);
    ASSERT_EQ(outputs.o.size(), inputs.q.size());
    for (int i = 0; i < (kQueries - kKeys) * kDim; ++i) {
      EXPECT_EQ(outputs.o[i], 0.0f) << i;
      EXPECT_EQ(outputs.o_train[i], 0.0f) << i;
    }
  }
}

std::vector<Member> first_of_each_kind() {
  std::vector<Member> members;
  std::copy_if(std::begin(kMembers), std::end(kMembers), std::back_inserter(members),
               [](const Member& member) { return member.is_first; });
  return members;
}

std::string member_name(const testing::TestParamInfo<Member>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, FamilyRules, testing::ValuesIn(kMembers), member_name);
INSTANTIATE_TEST_SUITE_P(All, FamilyShapes, testing::ValuesIn(first_of_each_kind()), member_name);

// Where all activations of a row are 0 it has no weights: 0, and no gradients.
TEST(FamilyRows, WithoutWeightsAreZero) {
  size_t turn = 0;
  for (const char* score : {"phi=relu,normalizer=sum", "phi=relu,normalizer=sum_abs",
                            "phi=relu,normalizer=length", "softmax,psi=0*x"}) {
    const DType dtype = dtype_in_turn(turn++);
    Problem problem = problem_of({"", score, 0}, dtype, 32, false);
    const Sizes sizes = make_sizes(1, 1, 1, 33, 33);
    RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, 5);
    // One direction for keys, its opposite for queries.
    for (size_t i = 0; i < inputs.q.size(); ++i) inputs.k[i] = i % 32 == 0 ? 1.0f : 0.5f;
    for (size_t i = 0; i < inputs.q.size(); ++i) inputs.q[i] = -inputs.k[i];
    const auto outputs =
        run_capi(shared_context(), problem, sizes,
                 {inputs.q, inputs.k, inputs.v, inputs.grad_o, inputs.sink}, all_passes());
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    for (const auto* tensor :
         {&outputs->o, &outputs->o_train, &outputs->grad_q, &outputs->grad_k, &outputs->grad_v})
      for (const float x : *tensor) ASSERT_EQ(x, 0.0f) << score << " " << dtype_name(dtype);
  }
}

// Each row's largest score takes all the weight. The rounding errors of such scores are far outside
// of an exponent's range.
TEST(FamilyRows, LargeScoresOfSoftmaxAreTakenOut) {
  CapiOptions options = all_passes();
  options.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN;
  size_t turn = 0;
  for (const char* score : {"softmax,scale=1e4", "softmax,scale=1e9", "softmax,scale=1e20"}) {
    for (const bool causal : {false, true})
      check_against_reference(problem_of({"", score, 0}, dtype_in_turn(turn++), 64, causal),
                              make_sizes(1, 1, 1, 150, 150), InputKind::kGauss, options);
    ++turn;
  }
}

// An exponential over no sum overflows, and says so.
TEST(FamilyRows, OverflowIsNeverAFiniteNumber) {
  CapiOptions options = all_passes();
  options.passes = LSSAR_PASS_FORWARD;
  for (const char* score :
       {"phi=exp,normalizer=none,scale=100", "phi=exp(x)+x,normalizer=sum,scale=100",
        "phi=exp(x)+x,normalizer=sum,scale=100,psi=x^2,psi_normalizer=sum"}) {
    for (const DType dtype : dtypes()) {
      const Problem problem = problem_of({"", score, 0}, dtype, 32, false);
      const Sizes sizes = make_sizes(1, 1, 1, 20, 20);
      RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, 5);
      inputs.k = inputs.q;  // scores of 100 on the diagonal
      const auto outputs = run_capi(shared_context(), problem, sizes,
                                    {inputs.q, inputs.k, inputs.v, {}, inputs.sink}, options);
      ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
      for (const float x : outputs->o) ASSERT_FALSE(std::isfinite(x)) << score;
    }
  }
}

// Special sinks, one per head: none, NaN or infinity, and some much smaller or much larger than the
// scores. Two heads share keys.
class Sinks : public testing::TestWithParam<Member> {
 protected:
  static constexpr int kHeads = 8, kRows = 30, kKeys = 20, kDim = 64;
  static constexpr float kInf = std::numeric_limits<float>::infinity();

  // fp32, but on sm_90a those that have Hopper kernels, in turn.
  static std::vector<DType> sink_dtypes() {
    if (test_target() != "sm_90a") return {DType::kFp32};
    return {GetParam().p == 0 ? DType::kBf16 : DType::kFp16};
  }
  void set_up(DType dtype) {
    problem_ = problem_of(GetParam(), dtype, kDim, true);
    sizes_ = make_sizes(2, kHeads, kHeads / 2, kRows, kKeys);  // the first rows see no key
    random_ = random_inputs(problem_, sizes_, InputKind::kGauss, 5);
  }
  static bool sees_keys(int row) { return row >= kRows - kKeys; }
  CapiOutputs run(const Problem& problem, const std::vector<float>& sink) const {
    const auto outputs =
        run_capi(shared_context(), problem, sizes_,
                 {random_.q, random_.k, random_.v, random_.grad_o, sink}, with_small_tiles());
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? *outputs : CapiOutputs{};
  }
  // The elements of one row of x [batch, heads, rows, dim].
  std::vector<float> row_of(const std::vector<float>& x, int batch, int head, int row) const {
    const auto first = x.begin() + ((batch * kHeads + head) * kRows + row) * kDim;
    return {first, first + kDim};
  }
  // Whether exactly the rows that see keys are NaN.
  void expect_bad(const CapiOutputs& outputs, int batch, int head, bool is_bad) const {
    for (int row = 0; row < kRows; ++row) {
      for (const auto* tensor : {&outputs.o, &outputs.o_train, &outputs.grad_q}) {
        for (const float x : row_of(*tensor, batch, head, row)) {
          ASSERT_EQ(std::isnan(x), is_bad && sees_keys(row)) << head << " " << row;
          if (!sees_keys(row)) {
            ASSERT_EQ(x, 0.0f);
          }
        }
      }
    }
  }

  Problem problem_;
  Sizes sizes_;
  RandomInputs random_;
};

TEST_P(Sinks, OfMinusInfinityAreNone) {
  for (const DType dtype : sink_dtypes()) {
    set_up(dtype);
    const CapiOutputs with = run(problem_, std::vector<float>(kHeads, -kInf));
    Problem plain = problem_;
    plain.score.sink = Sink::kNone;
    const CapiOutputs without = run(plain, {});
    EXPECT_EQ(with.o, without.o);
    EXPECT_EQ(with.o_train, without.o_train);
    EXPECT_EQ(with.grad_v, without.grad_v);
    EXPECT_EQ(with.grad_sink, std::vector<float>(kHeads, 0.0f));
  }
}

TEST_P(Sinks, ThatAreNoNumbersGiveNan) {
  for (const DType dtype : sink_dtypes()) {
    set_up(dtype);
    const CapiOutputs outputs = run(problem_, {0, kNan, 1, kInf, -1, -kInf, 2, 3});
    ASSERT_EQ(outputs.grad_sink.size(), size_t{kHeads});
    for (int head = 0; head < kHeads; ++head) {
      const bool is_bad = head == 1 || head == 3;
      EXPECT_EQ(std::isnan(outputs.grad_sink[head]), is_bad) << head;
      for (int batch = 0; batch < 2; ++batch) expect_bad(outputs, batch, head, is_bad);
    }
  }
}

// Weights vanish, and so do gradients.
TEST_P(Sinks, OfAnySizeAreRight) {
  const std::vector<float> sinks = {-1e30f, -200, -5, 0, 12, 300, 1e30f, -kInf};
  const auto widen = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  for (const DType dtype : sink_dtypes()) {
    set_up(dtype);
    const CapiOutputs outputs = run(problem_, sinks);
    const auto expected = reference_attention(problem_, sizes_,
                                              {widen(random_.q), widen(random_.k), widen(random_.v),
                                               widen(random_.grad_o), widen(sinks)});
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    expect_close(problem_, OutputTensor::kO, *expected, outputs.o);
    expect_close(problem_, OutputTensor::kO, *expected, outputs.o_train);
    expect_close(problem_, OutputTensor::kDq, *expected, outputs.grad_q);
    expect_close(problem_, OutputTensor::kDk, *expected, outputs.grad_k);
    expect_close(problem_, OutputTensor::kDv, *expected, outputs.grad_v);
    expect_close(problem_, OutputTensor::kDsink, *expected, outputs.grad_sink);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Sinks,
                         testing::Values(Member{"softmax", "softmax,sink=per_head", 0},
                                         Member{"p3", "softmax,sink=per_head", 3},
                                         Member{"psi", "softmax,sink=per_head,psi=(x - b) / N", 0}),
                         [](const auto& p) { return std::string(p.param.name); });

double largest_score(const Problem& problem, const Sizes& sizes) {
  return std::log(problem.head_dim) * std::log(sizes.seq_k);
}

// Whether phi and its derivative stay small where scores are, so that float32 computes them.
bool is_tame(const Expression& phi, double largest) {
  const Expression slope = derivative(phi, Variable::kX);
  for (int i = -200; i <= 200; ++i) {
    const Arguments at{largest * i / 200};
    if (!(std::abs(evaluate(phi, at)) < 1e4) || !(std::abs(evaluate(slope, at)) < 1e4))
      return false;
  }
  return true;
}

// Random expressions as phi and as psi. The reference's own derivatives are held to finite
// differences of such expressions (derivative_test, reference_test). Each compiles two kernels,
// which takes a second. (200 have passed.) The forward for training has what the forward has of an
// expression.
TEST(FamilyGradients, AreThoseOfRandomExpressions) {
  constexpr int kNumExpressions = 10;
  std::mt19937 random(20261124);
  const Sizes sizes = make_sizes(1, 1, 1, 21, 21);
  int num_checked = 0;
  for (int tries = 0; num_checked < kNumExpressions && tries < 2000; ++tries) {
    Problem problem;
    problem.head_dim = problem.head_dim_v = 16;
    problem.dtype = DType::kFp32;
    problem.causal = true;
    problem.p = 0;
    problem.score.normalizer = Normalizer::kLength;
    const bool is_psi = tries % 2 != 0;
    const Expression expression = test::random_expression(random, 4, is_psi);
    if (is_psi) {
      problem.score.psi.expression = expression;
      problem.score.psi_normalizer = PsiNormalizer::kNone;
    } else {
      if (!expression.depends_on(Variable::kX)) continue;
      if (!is_tame(expression, largest_score(problem, sizes))) continue;
      problem.score.phi = Activation(expression);
    }
    const RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, tries);
    const auto widen = [](const std::vector<float>& x) {
      return std::vector<double>(x.begin(), x.end());
    };
    const auto expected = reference_attention(
        problem, sizes, {widen(inputs.q), widen(inputs.k), widen(inputs.v), widen(inputs.grad_o)});
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    const auto is_moderate = [](const std::vector<double>& x) {
      return std::all_of(x.begin(), x.end(), [](double v) { return std::abs(v) < 1e4; });
    };
    if (!is_moderate(expected->o) || !is_moderate(expected->dq) || !is_moderate(expected->dk))
      continue;  // beyond what float32 has room for on the way
    const auto outputs =
        run_capi(shared_context(), problem, sizes,
                 {inputs.q, inputs.k, inputs.v, inputs.grad_o, inputs.sink}, training_step());
    ASSERT_TRUE(outputs.ok()) << to_string(problem) << outputs.status().to_string();
    // Expressions magnify the rounding of scores: by how much differs.
    const auto expect_near = [&](const char* name, const std::vector<double>& a,
                                 const std::vector<float>& b) {
      double error = 0, norm = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        norm += a[i] * a[i];
      }
      EXPECT_LE(std::sqrt(error), 1e-3 * std::sqrt(norm) + 1e-4)
          << name << " of " << to_string(problem);
    };
    expect_near("o", expected->o, outputs->o_train);
    expect_near("dq", expected->dq, outputs->grad_q);
    expect_near("dk", expected->dk, outputs->grad_k);
    expect_near("dv", expected->dv, outputs->grad_v);
    ++num_checked;
  }
  EXPECT_EQ(num_checked, kNumExpressions);
}

// One member of each kind: the order of the sums is the kind's, not the expression's.
TEST(FamilyGradients, HaveTheSameBitsEveryTime) {
  for (const Member& member : first_of_each_kind()) {
    const Problem problem = problem_of(member, half_type(member), 64, true);
    const Sizes sizes = make_sizes(1, 2, 2, 150, 150);
    const RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, 11);
    std::vector<CapiOutputs> runs;
    for (int i = 0; i < 2; ++i) {
      const auto outputs =
          run_capi(shared_context(), problem, sizes,
                   {inputs.q, inputs.k, inputs.v, inputs.grad_o, inputs.sink}, training_step());
      ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
      runs.push_back(*outputs);
    }
    EXPECT_EQ(runs[0].grad_q, runs[1].grad_q) << member.name;
    EXPECT_EQ(runs[0].grad_k, runs[1].grad_k) << member.name;
    EXPECT_EQ(runs[0].grad_v, runs[1].grad_v) << member.name;
    EXPECT_EQ(runs[0].grad_sink, runs[1].grad_sink) << member.name;
  }
}

}  // namespace
}  // namespace lssar
