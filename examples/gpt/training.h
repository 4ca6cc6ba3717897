// Training and evaluation: AdamW, batches, and the loss by length.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "attention.h"
#include "model.h"

namespace gpt {

struct TrainingOptions {
  int64_t steps = 600;
  int64_t windows = 8;  // per step
  int64_t length = 64;  // of a window in bytes
  double learning_rate = 3e-3;
  double weight_decay = 0.1;
  int64_t warmup_steps = 50;  // then a cosine, down to a tenth
  uint64_t seed = 1;
};

class AdamW {
 public:
  explicit AdamW(Gpt<float>& model);
  // Clips the gradient to a norm of 1 first.
  void step(double learning_rate, double weight_decay);

 private:
  Gpt<float>& model_;
  std::vector<float> first_, second_;  // moments
  int64_t num_steps_ = 0;
};

double learning_rate_at(const TrainingOptions& options, int64_t step);

// Windows at random places of a text.
class Batches {
 public:
  // Throws std::runtime_error where the text is shorter than a window and a byte.
  Batches(const std::string& text, const TrainingOptions& options);
  void next();
  const uint8_t* bytes() const { return bytes_.data(); }
  const uint8_t* targets() const { return targets_.data(); }

 private:
  const std::string& text_;
  const int64_t windows_, length_;
  std::mt19937_64 random_;
  std::vector<uint8_t> bytes_, targets_;
};

// Calls back after every step with its loss.
void train(Gpt<float>& model, Attention<float>& attention, const std::string& text,
           const TrainingOptions& options,
           const std::function<void(int64_t step, double loss)>& after_step);

// The mean loss of windows of `length` bytes one after the other, over the first bytes of the text:
// as many of them as make whole windows of `longest`, which is a multiple of `length`, so that
// every length sees the same bytes.
double evaluate(Gpt<float>& model, Attention<float>& attention, const std::string& text,
                int64_t length, int64_t longest);

}  // namespace gpt
