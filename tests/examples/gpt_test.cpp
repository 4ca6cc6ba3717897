// The small GPT of examples/: its gradients against differences, and that it learns.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>

#include "attention.h"
#include "layers.h"
#include "matmul.h"
#include "model.h"
#include "training.h"

namespace gpt {
namespace {

using Doubles = std::vector<double>;

Doubles random_numbers(size_t count, uint64_t seed) {
  std::mt19937_64 bits(seed);
  Doubles numbers(count);
  for (double& x : numbers) x = static_cast<double>(bits() >> 11) * 0x1p-52 - 1;
  return numbers;
}

double dot(const Doubles& a, const Doubles& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// The gradient of `function` by central differences.
template <typename Function>
Doubles differences(Doubles at, const Function& function) {
  constexpr double kStep = 1e-5;
  Doubles gradient(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    const double value = at[i];
    at[i] = value + kStep;
    const double above = function(at);
    at[i] = value - kStep;
    gradient[i] = (above - function(at)) / (2 * kStep);
    at[i] = value;
  }
  return gradient;
}

void expect_near(const Doubles& actual, const Doubles& wanted) {
  ASSERT_EQ(actual.size(), wanted.size());
  double error = 0;
  for (size_t i = 0; i < actual.size(); ++i) error += std::pow(actual[i] - wanted[i], 2);
  EXPECT_LE(std::sqrt(error), 1e-7 * std::sqrt(dot(wanted, wanted)));  // false for NaN
  EXPECT_GT(dot(wanted, wanted), 0);
}

TEST(Matmul, AsTheDefinition) {
  constexpr int64_t kM = 7, kN = 19, kK = 5;
  const Doubles a = random_numbers(kM * kK, 1), b = random_numbers(kK * kN, 2);
  Doubles sums = random_numbers(kM * kN, 3), wanted = sums;
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      for (int64_t l = 0; l < kK; ++l) wanted[i * kN + j] += a[l * kM + i] * b[j * kK + l];
    }
  }
  matmul<double>(kM, kN, kK, {a.data(), 1, kM}, {b.data(), 1, kK}, sums.data(), true);
  expect_near(sums, wanted);
}

TEST(Layers, RmsNormGradient) {
  constexpr int64_t kRows = 3, kWidth = 8;
  const Doubles x = random_numbers(kRows * kWidth, 1), gain = random_numbers(kWidth, 2);
  const Doubles grad_y = random_numbers(x.size(), 3);
  const auto value = [&](const Doubles& of_x, const Doubles& of_gain) {
    Doubles y(x.size());
    rms_norm(kRows, kWidth, of_x.data(), of_gain.data(), y.data());
    return dot(y, grad_y);
  };
  Doubles grad_x(x.size()), grad_gain(kWidth);
  rms_norm_backward(kRows, kWidth, x.data(), gain.data(), grad_y.data(), grad_x.data(),
                    grad_gain.data());
  expect_near(grad_x, differences(x, [&](const Doubles& of_x) { return value(of_x, gain); }));
  expect_near(grad_gain, differences(gain, [&](const Doubles& of_g) { return value(x, of_g); }));
}

TEST(Layers, RopeGradientAndLengths) {
  constexpr int64_t kLength = 5, kRows = 2 * kLength, kHeads = 2, kDim = 4;
  const Doubles x = random_numbers(kRows * 3 * kHeads * kDim, 1);
  const Doubles grad_y = random_numbers(x.size(), 2);
  const auto value = [&](Doubles of_x) {
    rope(kRows, kLength, kHeads, kDim, false, of_x.data());
    return dot(of_x, grad_y);
  };
  Doubles grad_x = grad_y;
  rope(kRows, kLength, kHeads, kDim, true, grad_x.data());
  expect_near(grad_x, differences(x, value));
  // Scores hang on the distance of positions alone.
  Doubles same(kRows * 3 * kHeads * kDim);
  for (size_t i = 0; i < same.size(); ++i) same[i] = x[i % (3 * kHeads * kDim)];
  rope(kRows, kLength, kHeads, kDim, false, same.data());
  const auto score = [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t c = 0; c < kDim; ++c) {
      sum += same[i * 3 * kHeads * kDim + c] * same[(j * 3 + 1) * kHeads * kDim + c];
    }
    return sum;
  };
  EXPECT_NEAR(score(1, 0), score(4, 3), 1e-12);
  EXPECT_GT(std::abs(score(1, 0) - score(4, 0)), 1e-3);
}

TEST(Layers, SquaredReluGradient) {
  const Doubles x = random_numbers(20, 1), grad_y = random_numbers(20, 2);
  Doubles grad_x(x.size());
  squared_relu_backward(20, x.data(), grad_y.data(), grad_x.data());
  expect_near(grad_x, differences(x, [&](const Doubles& of_x) {
                Doubles y(x.size());
                squared_relu(20, of_x.data(), y.data());
                return dot(y, grad_y);
              }));
}

TEST(Layers, CrossEntropyGradientAndValue) {
  const uint8_t targets[] = {3, 0};
  const Doubles logits = random_numbers(2 * 5, 1);
  Doubles grad(logits.size());
  cross_entropy(2, 5, logits.data(), targets, grad.data());
  expect_near(grad, differences(logits, [&](const Doubles& of) {
                return cross_entropy<double>(2, 5, of.data(), targets, nullptr);
              }));
  const Doubles equal(10, 2.5);
  EXPECT_NEAR(cross_entropy<double>(2, 5, equal.data(), targets, nullptr), std::log(5.0), 1e-12);
}

TEST(SoftmaxAttention, GradientAndCausality) {
  const AttentionShape shape = {2, 5, 2, 4};
  const Doubles qkv = random_numbers(static_cast<size_t>(shape.rows()) * 24, 1);
  const Doubles grad_o = random_numbers(static_cast<size_t>(shape.rows()) * 8, 2);
  const auto attention = make_softmax_attention<double>(1);
  Doubles o(grad_o.size()), grad_qkv(qkv.size());
  attention->forward_train(0, shape, qkv.data(), o.data());
  attention->backward(0, grad_o.data(), grad_qkv.data());
  expect_near(grad_qkv, differences(qkv, [&](const Doubles& of) {
                Doubles y(o.size());
                attention->forward(shape, of.data(), y.data());
                return dot(y, grad_o);
              }));
  Doubles changed = qkv, later(o.size());
  for (size_t i = 4 * 24; i < 5 * 24; ++i) changed[i] += 1;  // the last row of the first window
  attention->forward(shape, changed.data(), later.data());
  EXPECT_TRUE(std::equal(o.begin(), o.begin() + 4 * 8, later.begin()));
  EXPECT_FALSE(std::equal(o.begin() + 4 * 8, o.begin() + 5 * 8, later.begin() + 4 * 8));
  EXPECT_TRUE(std::equal(o.begin() + 5 * 8, o.end(), later.begin() + 5 * 8));
}

const std::string& text() {
  static const std::string instance = [] {
    std::ifstream file(std::string(LSSAR_SOURCE_FOLDER) + "/LICENSE", std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  return instance;
}

const uint8_t* bytes_at(size_t place) {
  return reinterpret_cast<const uint8_t*>(text().data()) + place;
}

TEST(Model, GradientOfEveryKindOfParameter) {
  const ModelShape shape = {.layers = 2, .heads = 2, .head_dim = 4};
  Gpt<double> model(shape, 1);
  const auto attention = make_softmax_attention<double>(2);
  model.loss_and_gradient(*attention, 2, 6, bytes_at(100), bytes_at(101));
  const Doubles gradient = model.gradient();
  int num_checked = 0;
  for (const Parameter& tensor : model.list()) {
    // The rows of bytes that do not occur learn from the head alone: any place will do.
    for (const int64_t i : {tensor.offset, tensor.offset + tensor.count * 2 / 3}) {
      constexpr double kStep = 1e-5;
      double& value = model.parameters()[i];
      const double before = value;
      value = before + kStep;
      const double above = model.loss(*attention, 2, 6, bytes_at(100), bytes_at(101));
      value = before - kStep;
      const double below = model.loss(*attention, 2, 6, bytes_at(100), bytes_at(101));
      value = before;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-8) << "parameter " << i;
      ++num_checked;
    }
  }
  EXPECT_EQ(num_checked, 2 * (2 + 6 * 2));
}

LssarOptions lssar_options(int p) {
  return {.p = p, .device = "virtual", .head_dim = 8, .num_layers = 2};
}
constexpr ModelShape kSmall = {.layers = 2, .heads = 2, .head_dim = 8};

class LssarModel : public testing::TestWithParam<int> {};

// Along the gradient, where the difference is largest, float32 is precise enough. A power of 15
// makes the loss curve within a step of 1e-3 already: a longer one would say nothing.
TEST_P(LssarModel, LossFallsAlongTheGradientAsItSays) {
  Gpt<float> model(kSmall, 1);
  const auto attention = make_lssar_attention(lssar_options(GetParam()));
  constexpr int64_t kWindows = 4, kLength = 24;
  model.loss_and_gradient(*attention, kWindows, kLength, bytes_at(100), bytes_at(101));
  double squares = 0;
  for (const float g : model.gradient()) squares += static_cast<double>(g) * g;
  const std::vector<float> at = model.parameters();
  const auto loss_at = [&](double step) {
    for (size_t i = 0; i < at.size(); ++i) {
      model.parameters()[i] = static_cast<float>(at[i] + step * model.gradient()[i]);
    }
    return model.loss(*attention, kWindows, kLength, bytes_at(100), bytes_at(101));
  };
  const double step = 5e-5 / std::sqrt(squares);
  const double slope = (loss_at(step) - loss_at(-step)) / (2 * step);
  EXPECT_NEAR(slope / squares, 1, 0.005);
}

INSTANTIATE_TEST_SUITE_P(Powers, LssarModel, testing::Values(15, 1, 0));

TEST(Training, TheLossFallsWithLssar) {
  Gpt<float> model(kSmall, 1);
  const auto attention = make_lssar_attention(lssar_options(15));
  TrainingOptions options;
  options.steps = 40;
  options.windows = 4;
  options.length = 32;
  options.learning_rate = 1e-2;
  options.warmup_steps = 5;
  std::vector<double> losses;
  train(model, *attention, text(), options, [&](int64_t, double loss) { losses.push_back(loss); });
  ASSERT_EQ(losses.size(), 40u);
  EXPECT_NEAR(losses.front(), std::log(256.0), 0.5);
  const double last = std::accumulate(losses.end() - 5, losses.end(), 0.0) / 5;
  EXPECT_LT(last, losses.front() - 1.5);
  // Windows longer than those it has learned from, with the plan that was there.
  const double longer = evaluate(model, *attention, text(), 64, 64);
  EXPECT_LT(longer, losses.front() - 1);
}

TEST(Training, EveryLengthSeesTheSameBytes) {
  Gpt<float> model(kSmall, 1);
  const auto attention = make_softmax_attention<float>(2);
  const std::string start = text().substr(0, 300);
  // The first 256 bytes, whatever the length: 8 windows of 32, or the mean of four parts.
  double parts = 0;
  for (int i = 0; i < 4; ++i) {
    parts += evaluate(model, *attention, text().substr(i * 64, 65), 32, 64) / 4;
  }
  EXPECT_NEAR(evaluate(model, *attention, start, 32, 256), parts, 1e-5);
  EXPECT_THROW(evaluate(model, *attention, text().substr(0, 64), 32, 64), std::runtime_error);
}

TEST(Training, SameNumbersForTheSameSeed) {
  const auto first_loss = [](uint64_t seed) {
    Gpt<float> model(kSmall, seed);
    const auto attention = make_softmax_attention<float>(2);
    TrainingOptions options;
    options.steps = 1;
    options.windows = 1;
    options.seed = seed;
    double result = 0;
    train(model, *attention, text(), options, [&](int64_t, double loss) { result = loss; });
    return result;
  };
  EXPECT_EQ(first_loss(3), first_loss(3));
  EXPECT_NE(first_loss(3), first_loss(4));
}

}  // namespace
}  // namespace gpt
