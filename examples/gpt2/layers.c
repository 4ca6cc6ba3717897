#include "layers.h"

#include <math.h>
#include <string.h>

enum { LANES = 8, BLOCK = 8 }; /* numbers of a vector; rows that share what is loaded */

/* sums[r] = x[r] . w for some rows of x. A sum is of every eighth product, so that the compiler may
 * use vectors without changing the order of a sum. */
static void dots(int rows, int count, const float* x, const float* w, float* sums) {
  for (int r = 0; r < rows; ++r, x += count) {
    float lanes[LANES] = {0};
    for (int i = 0; i < count; i += LANES) {
      for (int j = 0; j < LANES; ++j) lanes[j] += x[i + j] * w[i + j];
    }
    sums[r] = 0;
    for (int j = 0; j < LANES; ++j) sums[r] += lanes[j];
  }
}

static void add_scaled(int count, float factor, const float* x, float* sum) {
  for (int i = 0; i < count; ++i) sum[i] += factor * x[i];
}

static int rows_at(int first, int rows) { return rows - first < BLOCK ? rows - first : BLOCK; }

void linear_forward(int rows, int in, int out, const float* x, const float* w, const float* bias,
                    float* y) {
  for (int first = 0; first < rows; first += BLOCK) { /* these rows of x stay in the cache */
    for (int i = 0; i < out; ++i) {
      float sums[BLOCK];
      dots(rows_at(first, rows), in, &x[first * in], &w[i * in], sums);
      for (int r = 0; r < rows_at(first, rows); ++r) {
        y[(first + r) * out + i] = sums[r] + (bias != NULL ? bias[i] : 0);
      }
    }
  }
}

void linear_backward(int rows, int in, int out, const float* x, const float* w, const float* grad_y,
                     float* grad_x, float* grad_w, float* grad_bias) {
  memset(grad_x, 0, sizeof(*grad_x) * (size_t)rows * (size_t)in);
  for (int first = 0; first < rows; first += BLOCK) {
    for (int i = 0; i < out; ++i) {
      for (int r = first; r < first + rows_at(first, rows); ++r) {
        const float grad = grad_y[r * out + i];
        add_scaled(in, grad, &w[i * in], &grad_x[r * in]);
        add_scaled(in, grad, &x[r * in], &grad_w[i * in]);
        if (grad_bias != NULL) grad_bias[i] += grad;
      }
    }
  }
}

/* The mean of a row, and 1 / sqrt(variance + 1e-5). */
static void statistics(int width, const float* x, float* mean, float* scale) {
  float sum = 0, squares = 0;
  for (int i = 0; i < width; ++i) sum += x[i];
  *mean = sum / (float)width;
  for (int i = 0; i < width; ++i) squares += (x[i] - *mean) * (x[i] - *mean);
  *scale = 1 / sqrtf(squares / (float)width + 1e-5f);
}

void norm_forward(int rows, int width, const float* x, const float* gain, const float* bias,
                  float* y) {
  for (int r = 0; r < rows; ++r, x += width, y += width) {
    float mean, scale;
    statistics(width, x, &mean, &scale);
    for (int i = 0; i < width; ++i) y[i] = gain[i] * (x[i] - mean) * scale + bias[i];
  }
}

/* With n = (x - mean) scale and g = gain grad_y: grad_x = scale (g - mean(g) - n mean(g n)). */
void norm_backward(int rows, int width, const float* x, const float* gain, const float* grad_y,
                   float* grad_x, float* grad_gain, float* grad_bias) {
  for (int r = 0; r < rows; ++r, x += width, grad_y += width, grad_x += width) {
    float mean, scale, sum = 0, product = 0;
    statistics(width, x, &mean, &scale);
    for (int i = 0; i < width; ++i) {
      const float normal = (x[i] - mean) * scale;
      sum += gain[i] * grad_y[i];
      product += gain[i] * grad_y[i] * normal;
      grad_gain[i] += grad_y[i] * normal;
      grad_bias[i] += grad_y[i];
    }
    for (int i = 0; i < width; ++i) {
      const float normal = (x[i] - mean) * scale;
      grad_x[i] += scale * (gain[i] * grad_y[i] - (sum + normal * product) / (float)width);
    }
  }
}

static const float kGeluScale = 0.79788456f; /* sqrt(2 / pi) */
static const float kGeluCube = 0.044715f;

void gelu_forward(int count, const float* x, float* y) {
  for (int i = 0; i < count; ++i) {
    const float inner = kGeluScale * (x[i] + kGeluCube * x[i] * x[i] * x[i]);
    y[i] = 0.5f * x[i] * (1 + tanhf(inner));
  }
}

void gelu_backward(int count, const float* x, float* grad) {
  for (int i = 0; i < count; ++i) {
    const float t = tanhf(kGeluScale * (x[i] + kGeluCube * x[i] * x[i] * x[i]));
    const float inner_slope = kGeluScale * (1 + 3 * kGeluCube * x[i] * x[i]);
    grad[i] *= 0.5f * (1 + t) + 0.5f * x[i] * (1 - t * t) * inner_slope;
  }
}

/* log sum exp of a row. */
static double log_total(int vocab, const float* logits) {
  float most = logits[0];
  double total = 0;
  for (int i = 1; i < vocab; ++i) most = fmaxf(most, logits[i]);
  for (int i = 0; i < vocab; ++i) total += expf(logits[i] - most);
  return most + log(total);
}

double cross_entropy(int rows, int vocab, const float* logits, const unsigned char* targets) {
  double sum = 0;
  for (int r = 0; r < rows; ++r, logits += vocab)
    sum += log_total(vocab, logits) - logits[targets[r]];
  return sum / rows;
}

void cross_entropy_backward(int rows, int vocab, float* logits, const unsigned char* targets) {
  for (int r = 0; r < rows; ++r, logits += vocab) {
    const float total = (float)log_total(vocab, logits);
    for (int i = 0; i < vocab; ++i) logits[i] = expf(logits[i] - total) / (float)rows;
    logits[targets[r]] -= 1 / (float)rows;
  }
}
