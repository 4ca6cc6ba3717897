// The layers of a GPT around its attention, forward and backward, in plain C++.
//
// Rows are tokens. Backward functions take what their forward took and made; gradients of inputs
// are overwritten, gradients of parameters are added to. float for training, double for checking
// the gradients by differences.
//
// Threads: every call stands alone.
#pragma once

#include <cstdint>

namespace gpt {

// y = gain * x / sqrt(mean(x^2) + 1e-5), row by row.
template <typename Real>
void rms_norm(int64_t rows, int64_t width, const Real* x, const Real* gain, Real* y);
template <typename Real>
void rms_norm_backward(int64_t rows, int64_t width, const Real* x, const Real* gain,
                       const Real* grad_y, Real* grad_x, Real* grad_gain);

// Rotates the halves of every query and key by angles that grow with the position in its window, in
// place; `backwards`: by the opposite angles, which is the gradient. Rows of qkv are [3, heads,
// head_dim]; row r is at position r % length.
template <typename Real>
void rope(int64_t rows, int64_t length, int64_t heads, int64_t head_dim, bool backwards, Real* qkv);

// y = max(x, 0)^2. grad_x may be grad_y.
template <typename Real>
void squared_relu(int64_t count, const Real* x, Real* y);
template <typename Real>
void squared_relu_backward(int64_t count, const Real* x, const Real* grad_y, Real* grad_x);

// The mean over the rows of -log softmax(logits)[target]. `grad` may be null.
template <typename Real>
double cross_entropy(int64_t rows, int64_t classes, const Real* logits, const uint8_t* targets,
                     Real* grad);

}  // namespace gpt
