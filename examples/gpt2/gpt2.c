#include "gpt2.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "layers.h"
#include "parameters.h"

/* Places in the list of parameters: those that there are once, then those of each layer. */
enum { EMBEDDING, POSITION, LAST_GAIN, LAST_BIAS, NUM_SHARED };
enum {
  GAIN_1,
  BIAS_1,
  QKV,
  QKV_BIAS,
  OUT,
  OUT_BIAS,
  GAIN_2,
  BIAS_2,
  UP,
  UP_BIAS,
  DOWN,
  DOWN_BIAS,
  NUM_PER_LAYER
};

/* What the backward of a layer reads again. [rows, ...], rows = batch * length. */
typedef struct layer_values {
  float* in;     /* the sum that enters the layer, [rows, width] */
  float* middle; /* after attention was added to it */
  float *normal_1, *qkv, *o, *normal_2, *up, *gelu;
} layer_values;

struct gpt2 {
  gpt2_config config;
  int rows, steps, num_parameters;
  attention* attention;
  parameter* parameters;
  layer_values* layers;
  float *last, *last_normal, *logits;
  float *grad_sum, *grad_narrow, *grad_wide; /* [rows, width], likewise, [rows, 4 width] */
  unsigned char *tokens, *targets;           /* of the last forward */
};

static parameter* of_layer(gpt2* model, int layer, int which) {
  return &model->parameters[NUM_SHARED + layer * NUM_PER_LAYER + which];
}

static void make_layer_parameters(gpt2* model, int layer, uint64_t* seed) {
  const int w = model->config.width;
  const double into = 0.02, out = 0.02 / sqrt(2.0 * model->config.layers);
  const struct {
    int count, is_matrix;
    double value;
  } kinds[NUM_PER_LAYER] = {
      [GAIN_1] = {w, 0, 1},       [BIAS_1] = {w, 0, 0},         [QKV] = {3 * w * w, 1, into},
      [QKV_BIAS] = {3 * w, 0, 0}, [OUT] = {w * w, 1, out},      [OUT_BIAS] = {w, 0, 0},
      [GAIN_2] = {w, 0, 1},       [BIAS_2] = {w, 0, 0},         [UP] = {4 * w * w, 1, into},
      [UP_BIAS] = {4 * w, 0, 0},  [DOWN] = {4 * w * w, 1, out}, [DOWN_BIAS] = {w, 0, 0},
  };
  for (int i = 0; i < NUM_PER_LAYER; ++i) {
    parameter_make(of_layer(model, layer, i), kinds[i].count, kinds[i].is_matrix, kinds[i].value,
                   seed);
  }
}

static void make_parameters(gpt2* model) {
  const gpt2_config* c = &model->config;
  uint64_t seed = c->seed;
  model->num_parameters = NUM_SHARED + c->layers * NUM_PER_LAYER;
  model->parameters = zeroed((size_t)model->num_parameters, sizeof(parameter));
  parameter_make(&model->parameters[EMBEDDING], c->vocab * c->width, 1, 0.02, &seed);
  parameter_make(&model->parameters[POSITION], c->length * c->width, 1, 0.02, &seed);
  parameter_make(&model->parameters[LAST_GAIN], c->width, 0, 1, &seed);
  parameter_make(&model->parameters[LAST_BIAS], c->width, 0, 0, &seed);
  for (int layer = 0; layer < c->layers; ++layer) make_layer_parameters(model, layer, &seed);
}

static void make_values(gpt2* model) {
  const int rows = model->rows, w = model->config.width;
  model->layers = zeroed((size_t)model->config.layers, sizeof(layer_values));
  for (int i = 0; i < model->config.layers; ++i) {
    layer_values* v = &model->layers[i];
    float** narrow[] = {&v->in, &v->middle, &v->normal_1, &v->o, &v->normal_2};
    for (int j = 0; j < 5; ++j) *narrow[j] = floats(rows, w);
    v->qkv = floats(rows, 3 * w);
    v->up = floats(rows, 4 * w);
    v->gelu = floats(rows, 4 * w);
  }
  model->last = floats(rows, w);
  model->last_normal = floats(rows, w);
  model->logits = floats(rows, model->config.vocab);
  model->grad_sum = floats(rows, w);
  model->grad_narrow = floats(rows, w);
  model->grad_wide = floats(rows, 4 * w);
  model->tokens = zeroed((size_t)rows, 1);
  model->targets = zeroed((size_t)rows, 1);
}

/* Exits where a field is out of its range. */
static void check_config(const gpt2_config* c) {
  const struct {
    const char* name;
    int value, least, most;
  } fields[] = {
      {"vocab", c->vocab, 1, 256},       {"layers", c->layers, 1, 1000},
      {"heads", c->heads, 1, 1000},      {"width", c->width, 8, 1 << 14},
      {"length", c->length, 1, 1 << 20}, {"batch", c->batch, 1, 1 << 20},
  };
  for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); ++i) {
    if (fields[i].value >= fields[i].least && fields[i].value <= fields[i].most) continue;
    fprintf(stderr, "%s: %d; must be %d to %d\n", fields[i].name, fields[i].value, fields[i].least,
            fields[i].most);
    exit(1);
  }
  if (c->width % (8 * c->heads) == 0) return;
  fprintf(stderr, "width: %d; must be a multiple of 8 times heads, %d\n", c->width, c->heads);
  exit(1);
}

gpt2* gpt2_new(const gpt2_config* c) {
  check_config(c);
  gpt2* model = zeroed(1, sizeof(*model));
  model->config = *c;
  model->rows = c->batch * c->length;
  make_parameters(model);
  make_values(model);
  model->attention =
      attention_new(c->device, c->p, c->layers, c->batch, c->length, c->heads, c->width / c->heads);
  return model;
}

void gpt2_free(gpt2* model) {
  attention_free(model->attention);
  for (int i = 0; i < model->num_parameters; ++i) parameter_free(&model->parameters[i]);
  for (int i = 0; i < model->config.layers; ++i) {
    layer_values* v = &model->layers[i];
    free(v->in), free(v->middle), free(v->normal_1), free(v->qkv);
    free(v->o), free(v->normal_2), free(v->up), free(v->gelu);
  }
  free(model->last), free(model->last_normal), free(model->logits);
  free(model->grad_sum), free(model->grad_narrow), free(model->grad_wide);
  free(model->tokens), free(model->targets), free(model->layers), free(model->parameters);
  free(model);
}

int gpt2_parameters(gpt2* model, parameter** parameters) {
  *parameters = model->parameters;
  return model->num_parameters;
}

const float* gpt2_logits(const gpt2* model) { return model->logits; }

/* Linear and norm layers whose weights, and the bias behind them, are parameters of the list. */
static void linear(gpt2* model, const parameter* w, const float* x, float* y) {
  const int out = w[1].count;
  linear_forward(model->rows, w->count / out, out, x, w->value, w[1].value, y);
}

static void linear_back(gpt2* model, parameter* w, const float* x, const float* grad_y,
                        float* grad_x) {
  const int out = w[1].count;
  linear_backward(model->rows, w->count / out, out, x, w->value, grad_y, grad_x, w->gradient,
                  w[1].gradient);
}

static void norm(gpt2* model, const parameter* gain, const float* x, float* y) {
  norm_forward(model->rows, gain->count, x, gain->value, gain[1].value, y);
}

static void norm_back(gpt2* model, parameter* gain, const float* x, const float* grad_y,
                      float* grad_x) {
  norm_backward(model->rows, gain->count, x, gain->value, grad_y, grad_x, gain->gradient,
                gain[1].gradient);
}

static void add(gpt2* model, const float* x, float* sum) {
  for (int i = 0; i < model->rows * model->config.width; ++i) sum[i] += x[i];
}

static void embed(gpt2* model, float* x) {
  const int w = model->config.width;
  for (int r = 0; r < model->rows; ++r) {
    const float* token = &model->parameters[EMBEDDING].value[model->tokens[r] * w];
    const float* position = &model->parameters[POSITION].value[r % model->config.length * w];
    for (int i = 0; i < w; ++i) x[r * w + i] = token[i] + position[i];
  }
}

static void embed_back(gpt2* model) {
  const int w = model->config.width;
  for (int r = 0; r < model->rows; ++r) {
    float* token = &model->parameters[EMBEDDING].gradient[model->tokens[r] * w];
    float* position = &model->parameters[POSITION].gradient[r % model->config.length * w];
    for (int i = 0; i < w; ++i) {
      token[i] += model->grad_sum[r * w + i];
      position[i] += model->grad_sum[r * w + i];
    }
  }
}

/* out = middle + MLP(norm(middle)), middle = in + attention(norm(in)). */
static void layer_forward(gpt2* model, int layer, float* out) {
  layer_values* v = &model->layers[layer];
  norm(model, of_layer(model, layer, GAIN_1), v->in, v->normal_1);
  linear(model, of_layer(model, layer, QKV), v->normal_1, v->qkv);
  attention_forward(model->attention, layer, v->qkv, v->o);
  linear(model, of_layer(model, layer, OUT), v->o, v->middle);
  add(model, v->in, v->middle);
  norm(model, of_layer(model, layer, GAIN_2), v->middle, v->normal_2);
  linear(model, of_layer(model, layer, UP), v->normal_2, v->up);
  gelu_forward(model->rows * 4 * model->config.width, v->up, v->gelu);
  linear(model, of_layer(model, layer, DOWN), v->gelu, out);
  add(model, v->middle, out);
}

/* grad_sum: in: the gradient of what leaves the layer; out: of what enters it. */
static void layer_backward(gpt2* model, int layer) {
  layer_values* v = &model->layers[layer];
  float *sum = model->grad_sum, *narrow = model->grad_narrow, *wide = model->grad_wide;
  linear_back(model, of_layer(model, layer, DOWN), v->gelu, sum, wide);
  gelu_backward(model->rows * 4 * model->config.width, v->up, wide);
  linear_back(model, of_layer(model, layer, UP), v->normal_2, wide, narrow);
  norm_back(model, of_layer(model, layer, GAIN_2), v->middle, narrow, sum);
  linear_back(model, of_layer(model, layer, OUT), v->o, sum, narrow);
  attention_backward(model->attention, layer, narrow, wide);
  linear_back(model, of_layer(model, layer, QKV), v->normal_1, wide, narrow);
  norm_back(model, of_layer(model, layer, GAIN_1), v->in, narrow, sum);
}

double gpt2_forward(gpt2* model, const unsigned char* tokens, const unsigned char* targets) {
  const gpt2_config* c = &model->config;
  memcpy(model->tokens, tokens, (size_t)model->rows);
  memcpy(model->targets, targets, (size_t)model->rows);
  embed(model, model->layers[0].in);
  for (int i = 0; i < c->layers; ++i) {
    layer_forward(model, i, i + 1 < c->layers ? model->layers[i + 1].in : model->last);
  }
  norm(model, &model->parameters[LAST_GAIN], model->last, model->last_normal);
  linear_forward(model->rows, c->width, c->vocab, model->last_normal,
                 model->parameters[EMBEDDING].value, NULL, model->logits);
  return cross_entropy(model->rows, c->vocab, model->logits, model->targets);
}

void gpt2_backward(gpt2* model) {
  const gpt2_config* c = &model->config;
  const parameter* embedding = &model->parameters[EMBEDDING];
  for (int i = 0; i < model->num_parameters; ++i) {
    const parameter* p = &model->parameters[i];
    memset(p->gradient, 0, sizeof(float) * (size_t)p->count);
  }
  cross_entropy_backward(model->rows, c->vocab, model->logits, model->targets);
  linear_backward(model->rows, c->width, c->vocab, model->last_normal, embedding->value,
                  model->logits, model->grad_narrow, embedding->gradient, NULL);
  memset(model->grad_sum, 0, sizeof(float) * (size_t)(model->rows * c->width));
  norm_back(model, &model->parameters[LAST_GAIN], model->last, model->grad_narrow, model->grad_sum);
  for (int i = c->layers - 1; i >= 0; --i) layer_backward(model, i);
  embed_back(model);
}

double gpt2_update(gpt2* model, double learning_rate) {
  double squares = 0;
  for (int i = 0; i < model->num_parameters; ++i)
    squares += parameter_square(&model->parameters[i]);
  const double norm = sqrt(squares), factor = norm > 1 ? 1 / norm : 1;
  model->steps += 1;
  for (int i = 0; i < model->num_parameters; ++i) {
    parameter_update(&model->parameters[i], model->steps, learning_rate, factor);
  }
  return norm;
}
