// The GPT-2 in C: its attention against the definition, its gradients against differences, and that
// it learns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention.h"
#include "gpt2.h"
#include "lssar/lssar.h"

namespace {

using Floats = std::vector<float>;
using Tokens = std::vector<unsigned char>;

// The CPU device if this machine can run it, else the virtual device.
const char* fast_device() {
  static const char* const name = [] {
    lssar_context_options options = {};
    options.struct_size = sizeof(options);
    options.device = LSSAR_DEVICE_CPU;
    lssar_context* context = nullptr;
    const bool is_there = lssar_context_create(&options, &context) == LSSAR_STATUS_OK;
    lssar_context_destroy(context);
    return is_there ? "cpu" : "virtual";
  }();
  return name;
}

Floats random_numbers(size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  Floats numbers(count);
  for (float& x : numbers) x = normal(bits);
  return numbers;
}

Tokens random_tokens(int count, int vocab, unsigned seed) {
  std::mt19937 bits(seed);
  Tokens tokens(count);
  for (auto& token : tokens) token = static_cast<unsigned char>(bits() % vocab);
  return tokens;
}

constexpr int kBatch = 2, kLength = 19, kHeads = 2, kDim = 8, kWidth = kHeads * kDim;
constexpr int kPart = kWidth, kPitch = 3 * kWidth;

// o of one query by the formulas of docs/math.md, from qkv [batch, length, 3, heads, dim].
std::vector<double> definition(const Floats& qkv, int sequence, int head, int query, int p) {
  const auto row = [&](int part, int at) {
    return &qkv[(sequence * kLength + at) * kPitch + part * kPart + head * kDim];
  };
  const auto dot = [](const float* a, const float* b) {
    return std::inner_product(a, a + kDim, b, 0.0);
  };
  const int seen = query + 1;
  std::vector<double> weights(seen), o(kDim);
  const float* q = row(0, query);
  for (int j = 0; j < seen; ++j) {
    const float* k = row(1, j);
    const double cosine = dot(q, k) / std::sqrt(dot(q, q) * dot(k, k));
    weights[j] = std::log1p(std::exp(std::log(kDim) * std::log(seen) * cosine));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& w : weights) w = std::pow(std::max(seen * w / total - (seen <= 3 ? 0 : 1), 0.0), p);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (int j = 0; j < seen; ++j) {
    for (int c = 0; c < kDim; ++c) o[c] += weights[j] / sum * row(2, j)[c];
  }
  return o;
}

class Gpt2Attention : public testing::TestWithParam<const char*> {};

TEST_P(Gpt2Attention, IsTheDefinitionOfViewsOfQkv) {
  constexpr int kPower = 15;
  Floats qkv = random_numbers(kBatch * kLength * kPitch, 1), o(kBatch * kLength * kWidth);
  attention* a = attention_new(std::string(GetParam()) == "cpu" ? fast_device() : GetParam(),
                               kPower, 2, kBatch, kLength, kHeads, kDim);
  attention_forward(a, 1, qkv.data(), o.data());
  attention_free(a);
  double error = 0, size = 0;
  for (int row = 0; row < kBatch * kLength; ++row) {
    for (int head = 0; head < kHeads; ++head) {
      const auto wanted = definition(qkv, row / kLength, head, row % kLength, kPower);
      for (int c = 0; c < kDim; ++c) {
        error += std::pow(o[row * kWidth + head * kDim + c] - wanted[c], 2);
        size += std::pow(wanted[c], 2);
      }
    }
  }
  EXPECT_LE(std::sqrt(error / size), 1e-5);  // false for NaN
}

INSTANTIATE_TEST_SUITE_P(Devices, Gpt2Attention, testing::Values("cpu", "virtual"));

gpt2_config small(const char* device, int p) {
  gpt2_config config = {};
  config.device = device;
  config.p = p;
  config.vocab = 23;
  config.layers = 2;
  config.heads = kHeads;
  config.width = kWidth;
  config.length = kLength;
  config.batch = kBatch;
  config.seed = 1;
  return config;
}

// A model with a batch, whose weights are so large that every part of it matters.
class Small {
 public:
  Small(const char* device, int p) : config_(small(device, p)), model_(gpt2_new(&config_)) {
    tokens_ = random_tokens(kBatch * kLength, config_.vocab, 1);
    targets_ = random_tokens(kBatch * kLength, config_.vocab, 2);
    count_ = gpt2_parameters(model_, &parameters_);
    for (int i = 0; i < count_; ++i) {
      const Floats change = random_numbers(parameters_[i].count, 100 + i);
      for (int j = 0; j < parameters_[i].count; ++j) parameters_[i].value[j] += 0.2f * change[j];
    }
  }
  ~Small() { gpt2_free(model_); }
  Small(const Small&) = delete;
  Small& operator=(const Small&) = delete;

  gpt2* model() { return model_; }
  int count() const { return count_; }
  parameter& at(int i) { return parameters_[i]; }
  double loss() { return gpt2_forward(model_, tokens_.data(), targets_.data()); }
  double loss_of(const Tokens& tokens) {
    return gpt2_forward(model_, tokens.data(), targets_.data());
  }
  const Tokens& tokens() const { return tokens_; }
  int logits_of_row() const { return config_.vocab; }

  Floats gradient(int i) {
    return {parameters_[i].gradient, parameters_[i].gradient + parameters_[i].count};
  }

  // The slope of the loss where parameter i moves along `direction`, of length 1.
  double slope(int i, const Floats& direction, double step) {
    parameter& p = parameters_[i];
    const Floats before(p.value, p.value + p.count);
    const auto moved = [&](double by) {
      for (int j = 0; j < p.count; ++j) {
        p.value[j] = static_cast<float>(before[j] + by * direction[j]);
      }
      return loss();
    };
    const double near = moved(step) - moved(-step), far = moved(2 * step) - moved(-2 * step);
    std::copy(before.begin(), before.end(), p.value);
    return (8 * near - far) / (12 * step);
  }

 private:
  gpt2_config config_;
  gpt2* model_;
  Tokens tokens_, targets_;
  parameter* parameters_ = nullptr;
  int count_ = 0;
};

double norm(const Floats& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

// Along the gradient and along another direction, for each tensor of weights. LSSA, because the
// loss has no kinks then, and curves little.
TEST(Gpt2, GradientOfEveryParameter) {
  Small small(fast_device(), 0);
  small.loss();
  gpt2_backward(small.model());
  std::vector<Floats> gradients;
  for (int i = 0; i < small.count(); ++i) gradients.push_back(small.gradient(i));
  EXPECT_EQ(small.count(), 4 + 2 * 12);
  for (int i = 0; i < small.count(); ++i) {
    const Floats& gradient = gradients[i];
    const Floats random = random_numbers(gradient.size(), 1000 + i);
    EXPECT_GT(norm(gradient), 1e-3) << i;
    for (const Floats& along : {gradient, random}) {
      Floats unit = along;
      for (float& x : unit) x = static_cast<float>(x / norm(along));
      const double wanted = std::inner_product(unit.begin(), unit.end(), gradient.begin(), 0.0);
      EXPECT_NEAR(small.slope(i, unit, 0.01), wanted, 1e-3 * norm(gradient) + 1e-4) << i;
    }
  }
}

// A power of 15 makes the loss curve within a step of 1e-3 already. Along the gradient of all
// weights, where the difference is largest, float32 is precise enough for a shorter step.
TEST(Gpt2, LossFallsAlongTheGradientAsItSays) {
  Small small(fast_device(), 15);
  small.loss();
  gpt2_backward(small.model());
  std::vector<Floats> gradients, before;
  double squares = 0;
  for (int i = 0; i < small.count(); ++i) {
    gradients.push_back(small.gradient(i));
    before.emplace_back(small.at(i).value, small.at(i).value + small.at(i).count);
    squares += std::pow(norm(gradients[i]), 2);
  }
  const auto loss_at = [&](double step) {
    for (int i = 0; i < small.count(); ++i) {
      for (int j = 0; j < small.at(i).count; ++j) {
        small.at(i).value[j] = static_cast<float>(before[i][j] + step * gradients[i][j]);
      }
    }
    return small.loss();
  };
  const double step = 2e-4 / std::sqrt(squares);
  EXPECT_NEAR((loss_at(step) - loss_at(-step)) / (2 * step) / squares, 1, 0.005);
}

TEST(Gpt2, VirtualDeviceHasTheSameGradients) {
  Small fast(fast_device(), 15), exact("virtual", 15);
  EXPECT_NEAR(fast.loss(), exact.loss(), 1e-4);
  gpt2_backward(fast.model());
  gpt2_backward(exact.model());
  for (int i = 0; i < fast.count(); ++i) {
    Floats difference = fast.gradient(i);
    const Floats wanted = exact.gradient(i);
    for (size_t j = 0; j < wanted.size(); ++j) difference[j] -= wanted[j];
    EXPECT_LE(norm(difference), 1e-3 * norm(wanted)) << i;
  }
}

TEST(Gpt2, DoesNotSeeLaterTokens) {
  Small small(fast_device(), 15);
  small.loss();
  const int row = small.logits_of_row(), changed = kLength - 2;  // of the first sequence
  const float* logits = gpt2_logits(small.model());
  const Floats before(logits, logits + 2 * kLength * row);
  Tokens tokens = small.tokens();
  tokens[changed] = static_cast<unsigned char>((tokens[changed] + 1) % row);
  small.loss_of(tokens);
  for (int i = 0; i < 2 * kLength; ++i) {
    const bool is_same = std::equal(logits + i * row, logits + (i + 1) * row, &before[i * row]);
    EXPECT_EQ(is_same, i < changed || i >= kLength) << i;
  }
}

TEST(Gpt2, LearnsABatchTheSameEveryTime) {
  std::vector<double> losses[2];
  for (auto& of_run : losses) {
    const gpt2_config config = small(fast_device(), 15);
    gpt2* model = gpt2_new(&config);
    const Tokens tokens = random_tokens(kBatch * kLength, config.vocab, 1);
    const Tokens targets = random_tokens(kBatch * kLength, config.vocab, 2);
    for (int i = 0; i < 60; ++i) {
      of_run.push_back(gpt2_forward(model, tokens.data(), targets.data()));
      gpt2_backward(model);
      gpt2_update(model, 0.01);
    }
    gpt2_free(model);
  }
  EXPECT_NEAR(losses[0].front(), std::log(23.0), 0.1);
  EXPECT_LT(losses[0].back(), 1.0);
  EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
