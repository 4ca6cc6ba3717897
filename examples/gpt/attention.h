// The attention of a model: LSSAR (or LSSA) through lssar's C API, or softmax in plain C++.
//
// Rows of qkv are [3, heads, head_dim], rows of o [heads, head_dim]; `length` rows make a window,
// and every row sees those of its window up to itself.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace gpt {

struct AttentionShape {
  int64_t windows, length, heads, head_dim;

  int64_t rows() const { return windows * length; }
  bool operator==(const AttentionShape&) const = default;
};

template <typename Real>
class Attention {
 public:
  virtual ~Attention() = default;

  // What runs it, for people.
  virtual std::string description() const = 0;

  virtual void forward(const AttentionShape& shape, const Real* qkv, Real* o) = 0;
  // The same, and keeps what the backward of this layer needs.
  virtual void forward_train(int layer, const AttentionShape& shape, const Real* qkv, Real* o) = 0;
  // The backward of the layer's last forward_train.
  virtual void backward(int layer, const Real* grad_o, Real* grad_qkv) = 0;
};

template <typename Real>
std::unique_ptr<Attention<Real>> make_softmax_attention(int num_layers);

struct LssarOptions {
  int p = 15;          // 0: LSSA
  std::string device;  // "auto", "cuda", "cpu" or "virtual"
  int64_t head_dim = 0;
  int num_layers = 0;
};

// Throws std::runtime_error with the library's message where a call fails.
std::unique_ptr<Attention<float>> make_lssar_attention(const LssarOptions& options);

}  // namespace gpt
