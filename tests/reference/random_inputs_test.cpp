#include "reference/random_inputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "reference/numerics.h"

namespace lssar {
namespace {

constexpr int64_t kLength = 96;
constexpr int kDim = 64;

struct Inputs {
  Problem problem;
  Sizes sizes{2, 4, 2, kLength, kLength};
  RandomInputs tensors;
};

Inputs make(InputKind kind, DType dtype = DType::kBf16, uint64_t seed = 1) {
  Inputs inputs;
  inputs.problem.causal = true;
  inputs.problem.dtype = dtype;
  inputs.problem.head_dim = inputs.problem.head_dim_v = kDim;
  inputs.tensors = random_inputs(inputs.problem, inputs.sizes, kind, seed);
  return inputs;
}

double dot(const float* a, const float* b) {
  double sum = 0;
  for (int c = 0; c < kDim; ++c) sum += static_cast<double>(a[c]) * b[c];
  return sum;
}

// Cosines of every query with every key of its kv head.
std::vector<double> cosines(const Inputs& inputs) {
  std::vector<double> result;
  const auto& q = inputs.tensors.q;
  const auto& k = inputs.tensors.k;
  for (int64_t head = 0; head < 2 * 4; ++head) {
    for (int64_t i = 0; i < kLength; ++i) {
      for (int64_t j = 0; j < kLength; ++j) {
        const float* a = q.data() + (head * kLength + i) * kDim;
        const float* b = k.data() + (head / 2 * kLength + j) * kDim;
        result.push_back(dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)));
      }
    }
  }
  return result;
}

double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double deviation(const std::vector<double>& x) {
  const double centre = mean(x);
  double sum = 0;
  for (double value : x) sum += (value - centre) * (value - centre);
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// Recorded values. Changing them would change every result that is quoted with a seed.
TEST(RandomGauss, IsTheSameOnEveryMachine) {
  const std::vector<float> values = random_gauss(1, 4);
  const std::vector<float> expected{0.0441741943f, -0.357284546f, 2.08448792f, 0.397872925f};
  EXPECT_EQ(values, expected);
}

TEST(RandomGauss, HasMeanZeroAndDeviationOne) {
  const std::vector<float> values = random_gauss(5, 200000);
  const std::vector<double> wide(values.begin(), values.end());
  EXPECT_NEAR(mean(wide), 0, 0.01);
  EXPECT_NEAR(deviation(wide), 1, 0.01);
}

TEST(RandomInputs, DependOnTheSeed) {
  EXPECT_EQ(make(InputKind::kGauss).tensors.q, make(InputKind::kGauss).tensors.q);
  EXPECT_NE(make(InputKind::kGauss).tensors.q, make(InputKind::kGauss, DType::kBf16, 2).tensors.q);
}

TEST(RandomInputs, TensorsDiffer) {
  const RandomInputs tensors = make(InputKind::kGauss, DType::kFp32).tensors;
  EXPECT_NE(tensors.k, tensors.v);
  EXPECT_NE(tensors.q, tensors.grad_o);
}

TEST(RandomInputs, AreNumbersOfTheDType) {
  for (DType dtype : {DType::kFp16, DType::kBf16}) {
    for (InputKind kind : {InputKind::kGauss, InputKind::kPeaky, InputKind::kHuge}) {
      const RandomInputs tensors = make(kind, dtype).tensors;
      for (const std::vector<float>* tensor : {&tensors.q, &tensors.k, &tensors.v}) {
        std::vector<float> rounded = *tensor;
        round_all(dtype, rounded);
        EXPECT_EQ(rounded, *tensor);
        EXPECT_TRUE(
            std::all_of(tensor->begin(), tensor->end(), [](float x) { return std::isfinite(x); }));
      }
    }
  }
}

TEST(RandomInputs, HaveTheSizesOfTheCall) {
  Problem problem;
  problem.head_dim = 96;
  problem.head_dim_v = 32;
  const RandomInputs tensors = random_inputs(problem, {2, 6, 3, 5, 7}, InputKind::kPeaky, 1);
  EXPECT_EQ(tensors.q.size(), 2u * 6 * 5 * 96);
  EXPECT_EQ(tensors.k.size(), 2u * 3 * 7 * 96);
  EXPECT_EQ(tensors.v.size(), 2u * 3 * 7 * 32);
  EXPECT_EQ(tensors.grad_o.size(), 2u * 6 * 5 * 32);
}

TEST(RandomInputs, EveryKindBearsEmptyTensors) {
  for (const char* name : {"gauss", "peaky", "clustered", "opposed", "ties", "near_ties", "zeros",
                           "huge", "local", "shifted"}) {
    const InputKind kind = *parse_input_kind(name);
    EXPECT_STREQ(input_kind_name(kind), name);
    EXPECT_TRUE(random_inputs(Problem{}, {1, 1, 1, 3, 0}, kind, 1).k.empty());
    EXPECT_TRUE(random_inputs(Problem{}, {1, 1, 1, 0, 3}, kind, 1).q.empty());
    EXPECT_TRUE(random_inputs(Problem{}, {0, 1, 1, 3, 3}, kind, 1).q.empty());
  }
}

TEST(RandomInputs, GaussHasSmallCosines) {
  const std::vector<double> c = cosines(make(InputKind::kGauss));
  EXPECT_NEAR(mean(c), 0, 0.01);
  EXPECT_NEAR(deviation(c), 1 / std::sqrt(kDim), 0.01);
}

TEST(RandomInputs, PeakyRowsHaveOneKeyFarAboveTheRest) {
  const std::vector<double> c = cosines(make(InputKind::kPeaky));
  for (size_t row = 0; row < c.size(); row += kLength) {
    std::vector<double> sorted(c.begin() + row, c.begin() + row + kLength);
    std::sort(sorted.rbegin(), sorted.rend());
    ASSERT_GT(sorted[0], 0.97);
    ASSERT_LT(sorted[1], 0.8);
  }
}

TEST(RandomInputs, ClusteredHasFewDirections) {
  const std::vector<double> c = cosines(make(InputKind::kClustered));
  const auto near = [](double x) { return x > 0.9; };
  const double share =
      static_cast<double>(std::count_if(c.begin(), c.end(), near)) / static_cast<double>(c.size());
  EXPECT_GT(share, 0.15);
  EXPECT_LT(share, 0.25);
}

TEST(RandomInputs, OpposedScoresAreVeryNegative) {
  const std::vector<double> c = cosines(make(InputKind::kOpposed));
  EXPECT_LT(*std::max_element(c.begin(), c.end()), -0.85);
}

TEST(RandomInputs, TiesAreExact) {
  const Inputs inputs = make(InputKind::kTies);
  for (size_t i = 0; i < inputs.tensors.k.size(); ++i) {
    ASSERT_EQ(inputs.tensors.k[i], inputs.tensors.k[i % kDim]);
  }
}

TEST(RandomInputs, NearTiesAreClose) {
  const std::vector<double> c = cosines(make(InputKind::kNearTies));
  for (size_t row = 0; row < c.size(); row += kLength) {
    const std::vector<double> scores(c.begin() + row, c.begin() + row + kLength);
    ASSERT_GT(deviation(scores), 0);
    ASSERT_LT(deviation(scores), 0.03);
  }
}

TEST(RandomInputs, ZerosHasVectorsWithoutDirection) {
  const Inputs inputs = make(InputKind::kZeros);
  EXPECT_EQ(dot(inputs.tensors.q.data(), inputs.tensors.q.data()), 0);
  EXPECT_EQ(dot(inputs.tensors.k.data(), inputs.tensors.k.data()), 0);
  EXPECT_GT(dot(inputs.tensors.k.data() + kDim, inputs.tensors.k.data() + kDim), 1);
}

TEST(RandomInputs, LocalRunsPointTheSameWay) {
  const std::vector<double> c = cosines(make(InputKind::kLocal));
  for (size_t row = 0; row < kLength; ++row) {
    for (size_t key = 0; key < kLength; ++key) {
      const double cosine = c[row * kLength + key];
      ASSERT_EQ(cosine > 0.5, row / 64 == key / 64) << row << " " << key << ": " << cosine;
    }
  }
}

// Just above the limits from which on pass 2 takes a simpler softplus.
TEST(RandomInputs, ShiftedScoresLieBetweenLimits) {
  const std::vector<double> c = cosines(make(InputKind::kShifted));
  for (size_t row = 15; row < kLength; ++row) {  // those before have too few keys for 10 bits
    const double bits = std::log(double{kDim}) * std::log2(static_cast<double>(row + 1));
    const double least = row / 32 % 2 == 0 ? 3.0 : 10.0;
    const std::vector<double> scores(c.begin() + row * kLength, c.begin() + (row + 1) * kLength);
    ASSERT_GE(bits * *std::min_element(scores.begin(), scores.end()), least) << row;
    ASSERT_LE(bits * *std::max_element(scores.begin(), scores.end()), least + 0.5) << row;
    ASSERT_GT(deviation(scores) * bits, 0.05) << row;
  }
}

TEST(InputKindNames, UnknownOnesListWhatIsAllowed) {
  EXPECT_EQ(parse_input_kind("uniform").status().message().find(
                "data = \"uniform\": allowed are gauss, peaky,"),
            0u);
}

}  // namespace
}  // namespace lssar
