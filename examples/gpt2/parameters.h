/* Weights with their gradients, and AdamW. */
#ifndef LSSAR_EXAMPLES_GPT2_PARAMETERS_H_
#define LSSAR_EXAMPLES_GPT2_PARAMETERS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor of weights, of `count` numbers in each of its arrays. */
typedef struct parameter {
  int count;
  int is_matrix; /* only matrices decay */
  float *value, *gradient;
  float *mean, *square; /* AdamW's running means of the gradient and of its square */
} parameter;

/* Values of a matrix are random, of deviation `value`; those of another tensor all are `value`. */
void parameter_make(parameter* p, int count, int is_matrix, double value, uint64_t* seed);
void parameter_free(parameter* p);

/* The squared length of the gradient. */
double parameter_square(const parameter* p);

/* Step number `steps`, from 1 on, of AdamW; the gradient is multiplied by `factor` first. */
void parameter_update(parameter* p, int steps, double rate, double factor);

/* Memory for rows * width numbers, all 0, aligned to 16 bytes. These two exit where there is none.
 */
float* floats(int rows, int width);
void* zeroed(size_t count, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* LSSAR_EXAMPLES_GPT2_PARAMETERS_H_ */
