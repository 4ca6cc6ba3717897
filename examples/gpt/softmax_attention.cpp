#include <algorithm>
#include <cmath>
#include <vector>

#include "attention.h"
#include "matmul.h"

namespace gpt {
namespace {

template <typename Real>
Real dot(const Real* a, const Real* b, int64_t count) {
  Real sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

template <typename Real>
void add_scaled(Real scale, const Real* x, Real* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] += scale * x[i];
}

// One head of one window: rows are `pitch` apart.
template <typename Real>
struct Head {
  const Real *q, *k, *v;
  int64_t pitch, head_dim;

  // The weights of row i, of the keys up to it.
  void weights(int64_t i, Real* w) const {
    const Real scale = 1 / std::sqrt(static_cast<Real>(head_dim));
    for (int64_t j = 0; j <= i; ++j) w[j] = scale * dot(q + i * pitch, k + j * pitch, head_dim);
    const Real largest = *std::max_element(w, w + i + 1);
    Real sum = 0;
    for (int64_t j = 0; j <= i; ++j) sum += w[j] = std::exp(w[j] - largest);
    for (int64_t j = 0; j <= i; ++j) w[j] /= sum;
  }
};

template <typename Real>
class SoftmaxAttention : public Attention<Real> {
 public:
  explicit SoftmaxAttention(int num_layers) : saved_(static_cast<size_t>(num_layers)) {}

  std::string description() const override { return "softmax in plain C++"; }

  void forward(const AttentionShape& shape, const Real* qkv, Real* o) override {
    for_heads(shape, qkv, [&](const Head<Real>& head, int64_t, int64_t at_o) {
      std::vector<Real> w(static_cast<size_t>(shape.length));
      for (int64_t i = 0; i < shape.length; ++i) {
        head.weights(i, w.data());
        Real* row = o + at_o + i * shape.heads * shape.head_dim;
        std::fill(row, row + shape.head_dim, Real{0});
        for (int64_t j = 0; j <= i; ++j) {
          add_scaled(w[j], head.v + j * head.pitch, row, shape.head_dim);
        }
      }
    });
  }

  void forward_train(int layer, const AttentionShape& shape, const Real* qkv, Real* o) override {
    Saved& saved = saved_[static_cast<size_t>(layer)];
    saved.shape = shape;
    saved.qkv.assign(qkv, qkv + shape.rows() * 3 * shape.heads * shape.head_dim);
    forward(shape, qkv, o);
  }

  void backward(int layer, const Real* grad_o, Real* grad_qkv) override {
    const Saved& saved = saved_[static_cast<size_t>(layer)];
    const AttentionShape& shape = saved.shape;
    std::fill(grad_qkv, grad_qkv + saved.qkv.size(), Real{0});
    for_heads(shape, saved.qkv.data(), [&](const Head<Real>& head, int64_t at_qkv, int64_t at_o) {
      const int64_t part = shape.heads * shape.head_dim;
      backward_head(head, shape.length, grad_o + at_o, part, grad_qkv + at_qkv,
                    grad_qkv + at_qkv + part, grad_qkv + at_qkv + 2 * part);
    });
  }

 private:
  struct Saved {
    AttentionShape shape{};
    std::vector<Real> qkv;
  };

  // body(head, offset of its q in qkv, offset in o)
  template <typename Body>
  static void for_heads(const AttentionShape& shape, const Real* qkv, const Body& body) {
    const int64_t part = shape.heads * shape.head_dim;
    parallel_for(shape.windows * shape.heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / shape.heads * shape.length;
        const int64_t column = i % shape.heads * shape.head_dim;
        const int64_t at_qkv = row * 3 * part + column;
        const Real* q = qkv + at_qkv;
        body(Head<Real>{q, q + part, q + 2 * part, 3 * part, shape.head_dim}, at_qkv,
             row * part + column);
      }
    });
  }

  // Gradients have the pitch of q, k and v; those of o have `pitch_o`.
  static void backward_head(const Head<Real>& head, int64_t length, const Real* grad_o,
                            int64_t pitch_o, Real* grad_q, Real* grad_k, Real* grad_v) {
    const int64_t d = head.head_dim, pitch = head.pitch;
    const Real scale = 1 / std::sqrt(static_cast<Real>(d));
    std::vector<Real> w(static_cast<size_t>(length)), grad_w(w.size());
    for (int64_t i = 0; i < length; ++i) {
      head.weights(i, w.data());
      const Real* grad_row = grad_o + i * pitch_o;
      Real mean = 0;
      for (int64_t j = 0; j <= i; ++j) {
        grad_w[j] = dot(grad_row, head.v + j * pitch, d);
        mean += w[j] * grad_w[j];
        add_scaled(w[j], grad_row, grad_v + j * pitch, d);
      }
      for (int64_t j = 0; j <= i; ++j) {
        const Real grad_score = scale * w[j] * (grad_w[j] - mean);
        add_scaled(grad_score, head.k + j * pitch, grad_q + i * pitch, d);
        add_scaled(grad_score, head.q + i * pitch, grad_k + j * pitch, d);
      }
    }
  }

  std::vector<Saved> saved_;
};

}  // namespace

template <typename Real>
std::unique_ptr<Attention<Real>> make_softmax_attention(int num_layers) {
  return std::make_unique<SoftmaxAttention<Real>>(num_layers);
}

template std::unique_ptr<Attention<float>> make_softmax_attention(int);
template std::unique_ptr<Attention<double>> make_softmax_attention(int);

}  // namespace gpt
