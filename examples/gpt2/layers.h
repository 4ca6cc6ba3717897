/* The layers of a GPT-2 but attention, forward and backward, in float32 on one thread.
 *
 * Matrices are row-major. A backward adds to the gradients of weights, so that several can be
 * summed up. What it does to the gradient of its input is said beside it. */
#ifndef LSSAR_EXAMPLES_GPT2_LAYERS_H_
#define LSSAR_EXAMPLES_GPT2_LAYERS_H_

#ifdef __cplusplus
extern "C" {
#endif

/* y [rows, out] = x [rows, in] w^T + bias, with w [out, in]. `in` is a multiple of 8. bias may be
 * NULL: none. */
void linear_forward(int rows, int in, int out, const float* x, const float* w, const float* bias,
                    float* y);
/* Overwrites grad_x. grad_bias may be NULL. */
void linear_backward(int rows, int in, int out, const float* x, const float* w, const float* grad_y,
                     float* grad_x, float* grad_w, float* grad_bias);

/* LayerNorm: y = gain (x - mean) / sqrt(variance + 1e-5) + bias, per row. */
void norm_forward(int rows, int width, const float* x, const float* gain, const float* bias,
                  float* y);
/* Adds to grad_x. */
void norm_backward(int rows, int width, const float* x, const float* gain, const float* grad_y,
                   float* grad_x, float* grad_gain, float* grad_bias);

/* GELU by tanh, as GPT-2 has it. */
void gelu_forward(int count, const float* x, float* y);
/* grad: in: of y; out: of x. */
void gelu_backward(int count, const float* x, float* grad);

/* The mean over rows of -log softmax(logits)[target], in nats. */
double cross_entropy(int rows, int vocab, const float* logits, const unsigned char* targets);
/* logits become the gradient of that mean. */
void cross_entropy_backward(int rows, int vocab, float* logits, const unsigned char* targets);

#ifdef __cplusplus
}
#endif
#endif /* LSSAR_EXAMPLES_GPT2_LAYERS_H_ */
