#include "training.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace gpt {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8;
constexpr double kMaxNorm = 1;
constexpr double kLastRate = 0.1;  // of the first one
constexpr int64_t kRowsPerCall = 2048;
constexpr double kPi = 3.14159265358979323846;

}  // namespace

AdamW::AdamW(Gpt<float>& model)
    : model_(model), first_(model.parameters().size()), second_(first_.size()) {}

void AdamW::step(double learning_rate, double weight_decay) {
  ++num_steps_;
  double squares = 0;
  for (const float g : model_.gradient()) squares += static_cast<double>(g) * g;
  const double clip = std::min(1.0, kMaxNorm / (std::sqrt(squares) + 1e-12));
  const double steps = static_cast<double>(num_steps_);
  const double unbias1 = 1 / (1 - std::pow(kBeta1, steps));
  const double unbias2 = 1 / (1 - std::pow(kBeta2, steps));
  std::vector<float>& parameters = model_.parameters();
  for (const Parameter& tensor : model_.list()) {
    const double decay = tensor.is_matrix ? learning_rate * weight_decay : 0;
    for (int64_t i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
      const double g = clip * static_cast<double>(model_.gradient()[i]);
      const double first = kBeta1 * first_[i] + (1 - kBeta1) * g;
      const double second = kBeta2 * second_[i] + (1 - kBeta2) * g * g;
      first_[i] = static_cast<float>(first);
      second_[i] = static_cast<float>(second);
      const double move = first * unbias1 / (std::sqrt(second * unbias2) + kEpsilon);
      parameters[i] = static_cast<float>(parameters[i] * (1 - decay) - learning_rate * move);
    }
  }
}

double learning_rate_at(const TrainingOptions& options, int64_t step) {
  const double at = static_cast<double>(step + 1);
  if (step < options.warmup_steps) {
    return options.learning_rate * at / static_cast<double>(options.warmup_steps);
  }
  const double rest =
      static_cast<double>(std::max<int64_t>(1, options.steps - options.warmup_steps));
  const double done = std::min(1.0, (at - static_cast<double>(options.warmup_steps)) / rest);
  return options.learning_rate * (kLastRate + (1 - kLastRate) * (1 + std::cos(kPi * done)) / 2);
}

Batches::Batches(const std::string& text, const TrainingOptions& options)
    : text_(text), windows_(options.windows), length_(options.length), random_(options.seed) {
  if (static_cast<int64_t>(text.size()) <= length_) {
    throw std::runtime_error("the training text has " + std::to_string(text.size()) +
                             " bytes: needed are more than the length of a window, " +
                             std::to_string(length_));
  }
  bytes_.resize(static_cast<size_t>(windows_ * length_));
  targets_.resize(bytes_.size());
}

void Batches::next() {
  const uint64_t places = text_.size() - static_cast<size_t>(length_);
  for (int64_t w = 0; w < windows_; ++w) {
    const auto* from = text_.data() + random_() % places;
    std::copy_n(from, length_, &bytes_[w * length_]);
    std::copy_n(from + 1, length_, &targets_[w * length_]);
  }
}

void train(Gpt<float>& model, Attention<float>& attention, const std::string& text,
           const TrainingOptions& options,
           const std::function<void(int64_t step, double loss)>& after_step) {
  Batches batches(text, options);
  AdamW optimizer(model);
  for (int64_t step = 0; step < options.steps; ++step) {
    batches.next();
    const double loss = model.loss_and_gradient(attention, options.windows, options.length,
                                                batches.bytes(), batches.targets());
    optimizer.step(learning_rate_at(options, step), options.weight_decay);
    after_step(step, loss);
  }
}

double evaluate(Gpt<float>& model, Attention<float>& attention, const std::string& text,
                int64_t length, int64_t longest) {
  const int64_t num_bytes = (static_cast<int64_t>(text.size()) - 1) / longest * longest;
  if (num_bytes <= 0) {
    throw std::runtime_error("the validation text has " + std::to_string(text.size()) +
                             " bytes: needed are more than the longest window, " +
                             std::to_string(longest));
  }
  const int64_t at_once = std::max<int64_t>(1, kRowsPerCall / length);
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  double sum = 0;
  for (int64_t at = 0; at < num_bytes;) {
    const int64_t windows = std::min(at_once, (num_bytes - at) / length);
    const int64_t rows = windows * length;
    sum += static_cast<double>(rows) *
           model.loss(attention, windows, length, bytes + at, bytes + at + 1);
    at += rows;
  }
  return sum / static_cast<double>(num_bytes);
}

}  // namespace gpt
