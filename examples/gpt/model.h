// A GPT over bytes: embedding; layers of (RMSNorm, RoPE, attention) and (RMSNorm, MLP of squared
// ReLU), each added to the residual stream; RMSNorm; the embedding again as the head.
//
// float for training, double for checking gradients by differences. Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "attention.h"

namespace gpt {

constexpr int64_t kVocabulary = 256;

struct ModelShape {
  int64_t layers = 2, heads = 2, head_dim = 16;

  int64_t width() const { return heads * head_dim; }
};

// Where one tensor lies in the flat vector of parameters.
struct Parameter {
  int64_t offset = 0, count = 0;
  bool is_matrix = false;  // decays
};

template <typename Real>
class Gpt {
 public:
  // Same numbers for the same seed, whatever the attention.
  Gpt(const ModelShape& shape, uint64_t seed);

  // The mean loss per byte, in nats, of all windows of `length` bytes each. Targets are what
  // follows every byte.
  double loss(Attention<Real>& attention, int64_t windows, int64_t length, const uint8_t* bytes,
              const uint8_t* targets);
  // The same; and the gradient replaces that of the last call.
  double loss_and_gradient(Attention<Real>& attention, int64_t windows, int64_t length,
                           const uint8_t* bytes, const uint8_t* targets);

  std::vector<Real>& parameters() { return parameters_; }
  const std::vector<Real>& gradient() const { return gradient_; }
  const std::vector<Parameter>& list() const { return list_; }

 private:
  struct LayerParameters {
    Parameter norm1, qkv, projection, norm2, up, down;
  };
  // What a layer computed. `in` is the residual stream before it, `middle` that before its MLP.
  struct LayerValues {
    std::vector<Real> in, normed1, qkv, o, middle, normed2, up, activated;
  };
  // The current batch.
  struct Batch {
    int64_t windows = 0, length = 0;
    const uint8_t* bytes = nullptr;
    const uint8_t* targets = nullptr;

    int64_t rows() const { return windows * length; }
  };

  Parameter add(int64_t count, bool is_matrix);
  const Real* at(const Parameter& parameter) const { return &parameters_[parameter.offset]; }
  Real* grad_at(const Parameter& parameter) { return &gradient_[parameter.offset]; }

  // y = x W, W [in, out]; and its backward, which adds to W's gradient.
  void linear(int64_t rows, int64_t in, int64_t out, const std::vector<Real>& x,
              const Parameter& weight, std::vector<Real>& y) const;
  void linear_backward(int64_t rows, int64_t in, int64_t out, const std::vector<Real>& x,
                       const Parameter& weight, const std::vector<Real>& grad_y,
                       std::vector<Real>& grad_x);

  void embed(const Batch& batch);
  void forward_layer(Attention<Real>& attention, const Batch& batch, int layer, bool trains);
  void backward_layer(Attention<Real>& attention, const Batch& batch, int layer);
  // From the stream to the loss; with `trains` its gradient is in grad_stream_ afterwards.
  double head(const Batch& batch, bool trains);

  const ModelShape shape_;
  std::vector<Real> parameters_, gradient_;
  std::vector<Parameter> list_;
  Parameter embedding_, final_norm_;
  std::vector<LayerParameters> layers_;
  std::vector<LayerValues> values_;  // one per layer
  std::vector<Real> stream_, grad_stream_;
  std::vector<Real> scratch_, grad_wide_, grad_normed_, grad_in_;
};

}  // namespace gpt
