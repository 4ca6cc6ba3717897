/* Trains a small GPT-2 in plain C; its attention is LSSAR, by lssar's C API (attention.c).
 *
 *     example_gpt2                              300 steps on the CPU device
 *     example_gpt2 --device virtual --steps 5   on the virtual device
 *     example_gpt2 --p 0                        with LSSA
 *
 * The text is made here: lines such as "kalo met piru. piru saw kalo." with new names in each. Half
 * of the names can only be known by looking back. The same options give the same losses.
 *
 * Exit codes: 0 done; 1 the library's or the memory's error; 2 wrong options.
 */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpt2.h"
#include "random.h"

enum { LENGTH = 64, BATCH = 8, ROWS = BATCH * LENGTH, VOCAB = 128, LINE = 30, NAME = 4 };
enum { TEXT_LINES = 4000, VALIDATION_BATCHES = 8, WARM_UP = 20, REPORT_EVERY = 20 };
static const double kRate = 0.003;

typedef struct options {
  const char* device;
  int steps, p;
} options;

static int fail(const char* option, const char* value, const char* allowed) {
  fprintf(stderr, "%s: '%s'; must be %s\n", option, value, allowed);
  return 2;
}

/* 0, or the exit code of an error. */
static int parse(int argc, char** argv, options* chosen) {
  for (int i = 1; i < argc; i += 2) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    char* end = NULL;
    const long number = strtol(value, &end, 10);
    const int is_number = *value != '\0' && *end == '\0';
    if (strcmp(name, "--device") == 0) {
      if (strcmp(value, "cpu") != 0 && strcmp(value, "virtual") != 0) {
        return fail(name, value, "cpu or virtual");
      }
      chosen->device = value;
    } else if (strcmp(name, "--steps") == 0) {
      if (!is_number || number < 1 || number > 1000000) return fail(name, value, "1 to 1000000");
      chosen->steps = (int)number;
    } else if (strcmp(name, "--p") == 0) {
      if (!is_number || number < 0 || number > 1024) return fail(name, value, "0 to 1024");
      chosen->p = (int)number;
    } else {
      return fail("option", name, "--device, --steps or --p");
    }
  }
  return 0;
}

/* Two syllables. */
static void make_name(uint64_t* seed, char* name) {
  for (int i = 0; i < NAME; i += 2) {
    name[i] = "klmnprst"[random_below(seed, 8)];
    name[i + 1] = "aeiou"[random_below(seed, 5)];
  }
  name[NAME] = '\0';
}

/* `lines` lines of LINE bytes, and a 0. */
static char* make_text(uint64_t seed, int lines) {
  char* text = malloc((size_t)lines * LINE + 1);
  if (text == NULL) perror("make_text"), exit(1);
  for (int i = 0; i < lines; ++i) {
    char a[NAME + 1], b[NAME + 1];
    make_name(&seed, a);
    make_name(&seed, b);
    snprintf(text + i * LINE, LINE + 1, "%s met %s. %s saw %s.\n", a, b, b, a);
  }
  return text;
}

/* Windows that begin anywhere. */
static void make_batch(const char* text, int lines, uint64_t* seed, unsigned char* tokens,
                       unsigned char* targets) {
  for (int i = 0; i < BATCH; ++i) {
    const char* start = text + random_below(seed, lines * LINE - LENGTH);
    memcpy(tokens + i * LENGTH, start, LENGTH);
    memcpy(targets + i * LENGTH, start + 1, LENGTH);
  }
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void train(gpt2* model, const options* chosen) {
  unsigned char tokens[ROWS], targets[ROWS];
  char* text = make_text(1, TEXT_LINES);
  uint64_t seed = 2;
  double start = now_ms();
  for (int step = 1; step <= chosen->steps; ++step) {
    make_batch(text, TEXT_LINES, &seed, tokens, targets);
    const double loss = gpt2_forward(model, tokens, targets);
    gpt2_backward(model);
    const double norm = gpt2_update(model, kRate * fmin(1, (double)step / WARM_UP));
    if (step != 1 && step != chosen->steps && step % REPORT_EVERY != 0) continue;
    printf("step %4d  loss %.4f  norm of the gradient %.3f  %.0f ms\n", step, loss, norm,
           now_ms() - start);
    fflush(stdout);
  }
  free(text);
}

/* On lines that training has not seen. */
static double validation_loss(gpt2* model, const char* text, int lines) {
  unsigned char tokens[ROWS], targets[ROWS];
  uint64_t seed = 3;
  double sum = 0;
  for (int i = 0; i < VALIDATION_BATCHES; ++i) {
    make_batch(text, lines, &seed, tokens, targets);
    sum += gpt2_forward(model, tokens, targets);
  }
  return sum / VALIDATION_BATCHES;
}

/* Prints what the model finds likeliest after the first half of a line. */
static void continue_line(gpt2* model, const char* text) {
  enum { GIVEN = LINE + 15 }; /* a line, and "kalo met piru. " of the next */
  unsigned char tokens[ROWS] = {0}, targets[ROWS] = {0};
  memcpy(tokens, text, GIVEN);
  for (int i = GIVEN; i < 2 * LINE; ++i) {
    gpt2_forward(model, tokens, targets); /* later tokens do not change what it says of this one */
    const float* logits = gpt2_logits(model) + (i - 1) * VOCAB;
    int best = 0;
    for (int j = 1; j < VOCAB; ++j) best = logits[j] > logits[best] ? j : best;
    tokens[i] = (unsigned char)best;
  }
  printf("given      %.15s\ncontinued  ", text + LINE);
  for (int i = GIVEN; i < 2 * LINE; ++i) putchar(tokens[i] >= ' ' ? tokens[i] : '|');
  printf("\nthe text   %.15s", text + GIVEN);
}

int main(int argc, char** argv) {
  options chosen = {.device = "cpu", .steps = 300, .p = 15};
  const int error = parse(argc, argv, &chosen);
  if (error != 0) return error;
  const gpt2_config config = {.device = chosen.device,
                              .p = chosen.p,
                              .vocab = VOCAB,
                              .layers = 2,
                              .heads = 2,
                              .width = 64,
                              .length = LENGTH,
                              .batch = BATCH,
                              .seed = 1};
  gpt2* model = gpt2_new(&config);
  train(model, &chosen);
  enum { LINES = 400 };
  char* text = make_text(4, LINES);
  printf("validation loss %.4f\n", validation_loss(model, text, LINES));
  continue_line(model, text);
  free(text);
  gpt2_free(model);
  return 0;
}
