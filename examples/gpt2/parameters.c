#include "parameters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "random.h"

static const double kBeta1 = 0.9, kBeta2 = 0.95, kDecay = 0.1;

void* zeroed(size_t count, size_t size) {
  void* memory = calloc(count, size);
  if (memory != NULL) return memory;
  fprintf(stderr, "out of memory: %zu times %zu bytes\n", count, size);
  exit(1);
}

float* floats(int rows, int width) { return zeroed((size_t)rows * (size_t)width, sizeof(float)); }

/* Sum of twelve uniform numbers less 6: its deviation is 1. */
static double roughly_normal(uint64_t* seed) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random_unit(seed);
  return sum;
}

void parameter_make(parameter* p, int count, int is_matrix, double value, uint64_t* seed) {
  p->count = count;
  p->is_matrix = is_matrix;
  float** arrays[] = {&p->value, &p->gradient, &p->mean, &p->square};
  for (int i = 0; i < 4; ++i) *arrays[i] = floats(1, count);
  for (int i = 0; i < count; ++i) {
    p->value[i] = (float)(is_matrix ? value * roughly_normal(seed) : value);
  }
}

void parameter_free(parameter* p) {
  free(p->value), free(p->gradient), free(p->mean), free(p->square);
}

double parameter_square(const parameter* p) {
  double sum = 0;
  for (int i = 0; i < p->count; ++i) sum += (double)p->gradient[i] * p->gradient[i];
  return sum;
}

/* Means begin at 0, so they are divided by the weight that gradients have in them by now. */
void parameter_update(parameter* p, int steps, double rate, double factor) {
  const double weight_1 = 1 - pow(kBeta1, steps), weight_2 = 1 - pow(kBeta2, steps);
  for (int i = 0; i < p->count; ++i) {
    const double gradient = factor * p->gradient[i];
    p->mean[i] = (float)(kBeta1 * p->mean[i] + (1 - kBeta1) * gradient);
    p->square[i] = (float)(kBeta2 * p->square[i] + (1 - kBeta2) * gradient * gradient);
    const double step = p->mean[i] / weight_1 / (sqrt(p->square[i] / weight_2) + 1e-8);
    p->value[i] -= (float)(rate * (step + (p->is_matrix ? kDecay * p->value[i] : 0)));
  }
}
