/* All that this example says to lssar. Pointers of the cpu and the virtual device are those of the
 * host, so the model's own memory is handed over, and q, k and v are strided views of qkv. On a GPU
 * they would be device memory, and the rest of the model kernels. */
#include "attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lssar/lssar.h"

struct attention {
  lssar_context* context;
  lssar_plan* plan;
  lssar_call* calls; /* one per layer, with its saved tensors */
  int layers, width;
};

static void check(lssar_status status) {
  if (status == LSSAR_STATUS_OK) return;
  fprintf(stderr, "%s: %s\n", lssar_status_string(status), lssar_last_error_detail());
  exit(1);
}

/* Saved tensors and the workspace of a layer. Layers run one after another: one workspace would do,
 * but then a call would not be complete by itself. saved.o is 0: in float32 the model's own o is all
 * that the backward needs of it. */
static void allocate(attention* a, lssar_call* call) {
  lssar_saved_sizes saved;
  void* stats;
  check(lssar_plan_saved_sizes(a->plan, &call->sizes, &saved));
  check(lssar_plan_workspace_size(a->plan, &call->sizes, &call->workspace_bytes));
  check(lssar_buffer_alloc(a->context, saved.o, &call->saved_o));
  check(lssar_buffer_alloc(a->context, saved.stats, &stats));
  check(lssar_buffer_alloc(a->context, saved.x, &call->saved_x));
  check(lssar_buffer_alloc(a->context, call->workspace_bytes, &call->workspace));
  call->saved_stats = stats;
}

attention* attention_new(const char* device, int p, int layers, int batch, int length, int heads,
                         int head_dim) {
  attention* a = calloc(1, sizeof(*a));
  lssar_call* calls = calloc((size_t)layers, sizeof(*calls));
  if (a == NULL || calls == NULL) perror("attention_new"), exit(1);
  *a = (attention){.calls = calls, .layers = layers, .width = heads * head_dim};
  lssar_context_options options = {.struct_size = sizeof(options)};
  options.device = strcmp(device, "cpu") == 0 ? LSSAR_DEVICE_CPU : LSSAR_DEVICE_VIRTUAL;
  check(lssar_context_create(&options, &a->context));
  const lssar_problem problem = {.struct_size = sizeof(problem),
                                 .passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD,
                                 .dtype = LSSAR_DTYPE_FP32,
                                 .head_dim = head_dim,
                                 .causal = 1,
                                 .p = p,
                                 .offset = 1,
                                 .alignment = 16};
  check(lssar_plan_create(a->context, &problem, NULL, &a->plan));
  check(lssar_plan_prepare(a->plan)); /* compiles, or finds the kernels in the cache */
  for (int i = 0; i < layers; ++i) {
    a->calls[i].struct_size = sizeof(lssar_call);
    a->calls[i].sizes = (lssar_sizes){batch, heads, heads, length, length};
    allocate(a, &a->calls[i]);
  }
  return a;
}

void attention_free(attention* a) {
  for (int i = 0; i < a->layers; ++i) {
    lssar_call* call = &a->calls[i];
    void* buffers[] = {call->saved_o, call->saved_stats, call->saved_x, call->workspace};
    for (int j = 0; j < 4; ++j) check(lssar_buffer_free(a->context, buffers[j]));
  }
  lssar_plan_destroy(a->plan);
  lssar_context_destroy(a->context);
  free(a->calls);
  free(a);
}

/* [batch, heads, length, head_dim], of rows of `parts` times the width: 3 in qkv, where q, k and v
 * are parts 0, 1 and 2, and 1 in o. */
static lssar_tensor view(const attention* a, float* data, int part, int parts) {
  const lssar_sizes* sizes = &a->calls[0].sizes;
  const int64_t row = (int64_t)parts * a->width;
  return (lssar_tensor){data + part * a->width, {sizes->seq_q * row, a->width / sizes->heads, row}};
}

void attention_forward(attention* a, int layer, float* qkv, float* o) {
  lssar_call* call = &a->calls[layer];
  call->q = view(a, qkv, 0, 3), call->k = view(a, qkv, 1, 3), call->v = view(a, qkv, 2, 3);
  call->o = view(a, o, 0, 1);
  check(lssar_execute_forward_train(a->plan, call));
}

void attention_backward(attention* a, int layer, float* grad_o, float* grad_qkv) {
  lssar_call* call = &a->calls[layer]; /* with q, k, v and o of the forward */
  call->grad_o = view(a, grad_o, 0, 1);
  call->grad_q = view(a, grad_qkv, 0, 3), call->grad_k = view(a, grad_qkv, 1, 3);
  call->grad_v = view(a, grad_qkv, 2, 3);
  check(lssar_execute_backward(a->plan, call));
}
