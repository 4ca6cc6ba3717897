/* LSSAR attention through the C API, forward and backward, as a training step does: C99.
 *
 *     attention            on a GPU if there is one, else on the virtual device
 *     attention cpu        on the cpu device
 *     attention virtual    on the virtual device
 *
 *     cc -std=c99 examples/attention.c -o attention -Iinclude -Lbuild/release/lib -llssar -lm \
 *       -Wl,-rpath,"$PWD/build/release/lib"
 *
 * compiles it in the source folder. A causal problem in bf16: 4 query heads that share 2 kv heads,
 * 256 tokens, head dim 64. Prints some numbers and timings. Exit code 0, or 1 with the library's
 * message.
 */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lssar/lssar.h"

enum { BATCH = 1, HEADS = 4, KV_HEADS = 2, LENGTH = 256, DIM = 64 };

/* Every call of the library goes through this. */
#define CHECK(call) check((call), #call)

static void check(lssar_status status, const char* what) {
  if (status == LSSAR_STATUS_OK) return;
  fprintf(stderr, "%s\n  %s: %s\n", what, lssar_status_string(status), lssar_last_error_detail());
  exit(1);
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* bf16 is the upper half of a float32; rounded to nearest, ties to even. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static float from_bf16(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/* A contiguous tensor [BATCH, heads, LENGTH, DIM] in device memory. */
static lssar_tensor new_tensor(lssar_context* context, int heads) {
  lssar_tensor tensor;
  CHECK(lssar_buffer_alloc(context, sizeof(uint16_t) * BATCH * heads * LENGTH * DIM, &tensor.data));
  tensor.strides[0] = (int64_t)heads * LENGTH * DIM;
  tensor.strides[1] = (int64_t)LENGTH * DIM;
  tensor.strides[2] = DIM;
  return tensor;
}

/* The same with numbers in it: sums of a few waves, different for every seed. */
static lssar_tensor new_input(lssar_context* context, int heads, int seed) {
  const size_t count = (size_t)BATCH * heads * LENGTH * DIM;
  const lssar_tensor tensor = new_tensor(context, heads);
  uint16_t* host = malloc(count * sizeof(*host));
  if (host == NULL) exit(1);
  for (size_t i = 0; i < count; ++i) {
    const double x = (double)i + 1000.0 * seed;
    host[i] = to_bf16((float)(sin(0.37 * x) + sin(1.71 * x + seed) + sin(0.011 * x * seed)));
  }
  CHECK(lssar_buffer_write(context, tensor.data, host, count * sizeof(*host)));
  free(host);
  return tensor;
}

/* Prints the first numbers of the last row of head 0, and the norm of the whole tensor. */
static void print_tensor(lssar_context* context, const char* name, lssar_tensor tensor, int heads) {
  const size_t count = (size_t)BATCH * heads * LENGTH * DIM;
  uint16_t* host = malloc(count * sizeof(*host));
  double sum = 0;
  if (host == NULL) exit(1);
  CHECK(lssar_buffer_read(context, host, tensor.data, count * sizeof(*host)));
  for (size_t i = 0; i < count; ++i) {
    sum += (double)from_bf16(host[i]) * from_bf16(host[i]);
  }
  printf("%-6s |.| = %10.5f   last row:", name, sqrt(sum));
  for (int i = 0; i < 4; ++i) printf(" %9.5f", from_bf16(host[(LENGTH - 1) * DIM + i]));
  printf(" ...\n");
  free(host);
}

int main(int argc, char** argv) {
  lssar_context_options options = {0};
  options.struct_size = sizeof(options);
  if (argc > 1 && strcmp(argv[1], "cpu") == 0) options.device = LSSAR_DEVICE_CPU;
  if (argc > 1 && strcmp(argv[1], "virtual") == 0) options.device = LSSAR_DEVICE_VIRTUAL;
  lssar_context* context = NULL;
  CHECK(lssar_context_create(&options, &context));

  lssar_context_info info = {0};
  info.struct_size = sizeof(info);
  CHECK(lssar_context_get_info(context, &info));
  printf("%s on %s, compiling for %s\n", lssar_build_info(), info.device_name, info.target);

  lssar_problem problem = {0};
  problem.struct_size = sizeof(problem);
  problem.passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  problem.dtype = LSSAR_DTYPE_BF16;
  problem.head_dim = DIM;
  problem.heads = HEADS;
  problem.kv_heads = KV_HEADS;
  problem.causal = 1;
  problem.p = 15;
  problem.offset = 1.0;
  problem.alignment = 16; /* lssar_buffer_alloc and contiguous rows of 128 bytes */
  lssar_plan* plan = NULL;
  CHECK(lssar_plan_create(context, &problem, NULL, &plan));
  const double prepare_start = now_ms();
  CHECK(lssar_plan_prepare(plan));
  CHECK(lssar_context_get_info(context, &info));
  printf("prepare        %8.2f ms (%d compiled, %d from the cache on disk)\n",
         now_ms() - prepare_start, (int)info.cache_misses, (int)info.cache_disk_hits);

  lssar_call call = {0};
  call.struct_size = sizeof(call);
  call.sizes.batch = BATCH;
  call.sizes.heads = HEADS;
  call.sizes.kv_heads = KV_HEADS;
  call.sizes.seq_q = LENGTH;
  call.sizes.seq_k = LENGTH;
  call.q = new_input(context, HEADS, 1);
  call.k = new_input(context, KV_HEADS, 2);
  call.v = new_input(context, KV_HEADS, 3);
  call.grad_o = new_input(context, HEADS, 4);
  call.o = new_tensor(context, HEADS);
  call.grad_q = new_tensor(context, HEADS);
  call.grad_k = new_tensor(context, KV_HEADS);
  call.grad_v = new_tensor(context, KV_HEADS);

  lssar_saved_sizes saved; /* beside o, which the backward reads, too */
  void* saved_stats;
  CHECK(lssar_plan_saved_sizes(plan, &call.sizes, &saved));
  CHECK(lssar_buffer_alloc(context, saved.o, &call.saved_o));
  CHECK(lssar_buffer_alloc(context, saved.stats, &saved_stats));
  CHECK(lssar_buffer_alloc(context, saved.x, &call.saved_x));
  call.saved_stats = saved_stats;
  CHECK(lssar_plan_workspace_size(plan, &call.sizes, &call.workspace_bytes));
  CHECK(lssar_buffer_alloc(context, call.workspace_bytes, &call.workspace));

  const double forward_start = now_ms();
  CHECK(lssar_execute_forward_train(plan, &call));
  CHECK(lssar_synchronize(context, call.stream));
  const double backward_start = now_ms();
  CHECK(lssar_execute_backward(plan, &call));
  CHECK(lssar_synchronize(context, call.stream));
  const double end = now_ms();
  printf("forward-train  %8.2f ms\nbackward       %8.2f ms\n", backward_start - forward_start,
         end - backward_start);

  print_tensor(context, "o", call.o, HEADS);
  print_tensor(context, "grad_q", call.grad_q, HEADS);
  print_tensor(context, "grad_k", call.grad_k, KV_HEADS);
  print_tensor(context, "grad_v", call.grad_v, KV_HEADS);

  void* buffers[] = {call.q.data,  call.k.data,      call.v.data,      call.grad_o.data,
                     call.o.data,  call.grad_q.data, call.grad_k.data, call.grad_v.data,
                     call.saved_o, call.saved_stats, call.saved_x,     call.workspace};
  for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); ++i) {
    CHECK(lssar_buffer_free(context, buffers[i]));
  }
  lssar_plan_destroy(plan);
  lssar_context_destroy(context);
  return 0;
}
