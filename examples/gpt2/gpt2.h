/* GPT-2 over bytes: token and position embeddings, blocks of attention and an MLP with LayerNorms
 * before them, the token embedding as the output layer, and AdamW. */
#ifndef LSSAR_EXAMPLES_GPT2_GPT2_H_
#define LSSAR_EXAMPLES_GPT2_GPT2_H_

#include <stdint.h>

#include "parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gpt2_config {
  const char* device; /* of the attention: "cpu" or "virtual" */
  int p;              /* of LSSAR; 0: LSSA */
  int vocab;          /* at most 256: tokens are bytes */
  int layers, heads;  /* at least 1 */
  int width;          /* a multiple of 8 heads */
  int length, batch;
  uint64_t seed; /* of the weights */
} gpt2_config;

typedef struct gpt2 gpt2;

gpt2* gpt2_new(const gpt2_config* config);
void gpt2_free(gpt2* model);

int gpt2_parameters(gpt2* model, parameter** parameters); /* how many there are, and the first */

/* tokens and targets are [batch, length]. Returns the mean loss in nats. The logits, [batch,
 * length, vocab], are the model's until its next call. */
double gpt2_forward(gpt2* model, const unsigned char* tokens, const unsigned char* targets);
const float* gpt2_logits(const gpt2* model);

/* Overwrites the gradients by those of the last forward's loss, and the logits. Once per forward.
 */
void gpt2_backward(gpt2* model);

/* One step of AdamW, with the gradient's norm cut to 1. Returns the norm before that. */
double gpt2_update(gpt2* model, double learning_rate);

#ifdef __cplusplus
}
#endif
#endif /* LSSAR_EXAMPLES_GPT2_GPT2_H_ */
