#include "layers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "matmul.h"

namespace gpt {
namespace {

constexpr double kNormEpsilon = 1e-5;
constexpr double kRopeBase = 10000;
constexpr int64_t kRowGrain = 64;

template <typename Real>
Real inverse_rms(const Real* row, int64_t width) {
  Real squares = 0;
  for (int64_t i = 0; i < width; ++i) squares += row[i] * row[i];
  return 1 / std::sqrt(squares / static_cast<Real>(width) + static_cast<Real>(kNormEpsilon));
}

}  // namespace

template <typename Real>
void rms_norm(int64_t rows, int64_t width, const Real* x, const Real* gain, Real* y) {
  parallel_for(rows, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const Real scale = inverse_rms(x + r * width, width);
      for (int64_t i = 0; i < width; ++i) y[r * width + i] = gain[i] * x[r * width + i] * scale;
    }
  });
}

template <typename Real>
void rms_norm_backward(int64_t rows, int64_t width, const Real* x, const Real* gain,
                       const Real* grad_y, Real* grad_x, Real* grad_gain) {
  for (int64_t r = 0; r < rows; ++r, x += width, grad_y += width, grad_x += width) {
    const Real scale = inverse_rms(x, width);
    Real dot = 0;  // of grad_y and y, over the scale
    for (int64_t i = 0; i < width; ++i) {
      dot += grad_y[i] * gain[i] * x[i];
      grad_gain[i] += grad_y[i] * x[i] * scale;
    }
    const Real pull = dot * scale * scale / static_cast<Real>(width);
    for (int64_t i = 0; i < width; ++i) grad_x[i] = scale * (grad_y[i] * gain[i] - x[i] * pull);
  }
}

template <typename Real>
void rope(int64_t rows, int64_t length, int64_t heads, int64_t head_dim, bool backwards,
          Real* qkv) {
  const int64_t half = head_dim / 2;
  std::vector<Real> cosines(static_cast<size_t>(length * half)), sines(cosines.size());
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(t) *
                           std::pow(kRopeBase, -static_cast<double>(i) / static_cast<double>(half));
      cosines[t * half + i] = static_cast<Real>(std::cos(angle));
      sines[t * half + i] = static_cast<Real>(backwards ? -std::sin(angle) : std::sin(angle));
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const Real* c = &cosines[r % length * half];
    const Real* s = &sines[r % length * half];
    for (int64_t head = 0; head < 2 * heads; ++head) {  // of q, then of k
      Real* x = qkv + (r * 3 * heads + head) * head_dim;
      for (int64_t i = 0; i < half; ++i) {
        const Real first = x[i], second = x[i + half];
        x[i] = first * c[i] - second * s[i];
        x[i + half] = first * s[i] + second * c[i];
      }
    }
  }
}

template <typename Real>
void squared_relu(int64_t count, const Real* x, Real* y) {
  for (int64_t i = 0; i < count; ++i) {
    const Real positive = std::max(x[i], Real{0});
    y[i] = positive * positive;
  }
}

template <typename Real>
void squared_relu_backward(int64_t count, const Real* x, const Real* grad_y, Real* grad_x) {
  for (int64_t i = 0; i < count; ++i) grad_x[i] = 2 * std::max(x[i], Real{0}) * grad_y[i];
}

template <typename Real>
double cross_entropy(int64_t rows, int64_t classes, const Real* logits, const uint8_t* targets,
                     Real* grad) {
  std::vector<double> losses(static_cast<size_t>(rows));
  parallel_for(rows, kRowGrain, [&](int64_t begin, int64_t end) {
    std::vector<Real> weights(static_cast<size_t>(classes));
    for (int64_t r = begin; r < end; ++r) {
      const Real* row = logits + r * classes;
      const Real largest = *std::max_element(row, row + classes);
      Real sum = 0;
      for (int64_t i = 0; i < classes; ++i) sum += weights[i] = std::exp(row[i] - largest);
      losses[r] = static_cast<double>(std::log(sum) + largest - row[targets[r]]);
      if (grad == nullptr) continue;
      const Real scale = 1 / (sum * static_cast<Real>(rows));
      for (int64_t i = 0; i < classes; ++i) grad[r * classes + i] = weights[i] * scale;
      grad[r * classes + targets[r]] -= 1 / static_cast<Real>(rows);
    }
  });
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / static_cast<double>(rows);
}

#define GPT_INSTANTIATE(Real)                                                                     \
  template void rms_norm(int64_t, int64_t, const Real*, const Real*, Real*);                      \
  template void rms_norm_backward(int64_t, int64_t, const Real*, const Real*, const Real*, Real*, \
                                  Real*);                                                         \
  template void rope(int64_t, int64_t, int64_t, int64_t, bool, Real*);                            \
  template void squared_relu(int64_t, const Real*, Real*);                                        \
  template void squared_relu_backward(int64_t, const Real*, const Real*, Real*);                  \
  template double cross_entropy(int64_t, int64_t, const Real*, const uint8_t*, Real*)
GPT_INSTANTIATE(float);
GPT_INSTANTIATE(double);
#undef GPT_INSTANTIATE

}  // namespace gpt
