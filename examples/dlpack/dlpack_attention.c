#include "dlpack_attention.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lssar/lssar.h"

struct dl_attention {
  lssar_context* context;
  lssar_plan* plan;
  DLDevice device;
  DLDataType dtype;
  int64_t head_dim, head_dim_v;
  atomic_int users; /* the caller, and each result, whose memory is the context's */
};

typedef struct result {
  DLManagedTensor tensor;
  int64_t shape[4];
  dl_attention* attention;
} result;

static _Thread_local char last_error[1024];

const char* dl_attention_error(void) { return last_error; }

static void set_error(const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_error, sizeof(last_error), format, values);
  va_end(values);
}

static int is_ok(lssar_status status) {
  if (status == LSSAR_STATUS_OK) return 1;
  set_error("%s: %s", lssar_status_string(status), lssar_last_error_detail());
  return 0;
}

static void release(dl_attention* attention) {
  if (atomic_fetch_sub(&attention->users, 1) > 1) return;
  lssar_plan_destroy(attention->plan);
  lssar_context_destroy(attention->context);
  free(attention);
}

void dl_attention_free(dl_attention* attention) { release(attention); }

/* Whether a tensor has a form that lssar takes; if not, the error says why. */
static int has_form(const char* name, const DLTensor* t) {
  if (t->ndim != 4) {
    set_error("%s: %d dimensions; must be 4, [batch, heads, length, dim]", name, (int)t->ndim);
    return 0;
  }
  if (t->strides != NULL && t->shape[3] > 1 && t->strides[3] != 1) {
    set_error("%s: its last stride is %lld; must be 1", name, (long long)t->strides[3]);
    return 0;
  }
  return 1;
}

/* -1 for a type that lssar does not have. */
static int32_t dtype_of(DLDataType type) {
  if (type.lanes != 1) return -1;
  if (type.code == kDLFloat && type.bits == 32) return LSSAR_DTYPE_FP32;
  if (type.code == kDLFloat && type.bits == 16) return LSSAR_DTYPE_FP16;
  if (type.code == kDLBfloat && type.bits == 16) return LSSAR_DTYPE_BF16;
  return -1;
}

static int open_device(dl_attention* attention) {
  lssar_context_options options = {.struct_size = sizeof(options)};
  options.device_ordinal = attention->device.device_id;
  if (attention->device.device_type == kDLCPU) {
    options.device = LSSAR_DEVICE_CPU;
  } else if (attention->device.device_type == kDLCUDA) {
    options.device = LSSAR_DEVICE_CUDA;
  } else {
    set_error("q: device type %d; must be %d, CPU, or %d, CUDA", (int)attention->device.device_type,
              kDLCPU, kDLCUDA);
    return 0;
  }
  return is_ok(lssar_context_create(&options, &attention->context));
}

static int make_plan(dl_attention* attention, int causal, int p) {
  lssar_problem problem = {.struct_size = sizeof(problem)};
  problem.passes = LSSAR_PASS_FORWARD;
  problem.dtype = dtype_of(attention->dtype);
  if (problem.dtype < 0) {
    set_error(
        "q: type code %d with %d bits and %d lanes; must be a float of 16 or 32 bits or a "
        "bfloat of 16, with one lane",
        attention->dtype.code, attention->dtype.bits, attention->dtype.lanes);
    return 0;
  }
  problem.head_dim = (int32_t)attention->head_dim;
  problem.head_dim_v = (int32_t)attention->head_dim_v;
  problem.causal = causal;
  problem.p = p;
  problem.offset = 1;
  return is_ok(lssar_plan_create(attention->context, &problem, NULL, &attention->plan)) &&
         is_ok(lssar_plan_prepare(attention->plan));
}

dl_attention* dl_attention_new(const DLManagedTensor* q, const DLManagedTensor* v, int causal,
                               int p) {
  const DLTensor *tq = &q->dl_tensor, *tv = &v->dl_tensor;
  if (!has_form("q", tq) || !has_form("v", tv)) return NULL;
  dl_attention* attention = calloc(1, sizeof(*attention));
  if (attention == NULL) {
    set_error("out of memory");
    return NULL;
  }
  attention->device = tq->device;
  attention->dtype = tq->dtype;
  attention->head_dim = tq->shape[3];
  attention->head_dim_v = tv->shape[3];
  atomic_init(&attention->users, 1);
  if (open_device(attention) && make_plan(attention, causal, p)) return attention;
  release(attention);
  return NULL;
}

/* Whether a tensor has these sizes, and the device and type of the kernels. */
static int fits(const dl_attention* attention, const char* name, const DLTensor* t, int64_t batch,
                int64_t heads, int64_t length, int64_t dim) {
  const int64_t wanted[] = {batch, heads, length, dim};
  if (!has_form(name, t)) return 0;
  for (int i = 0; i < 4; ++i) {
    if (t->shape[i] == wanted[i]) continue;
    set_error("%s: size %lld in dimension %d; must be %lld", name, (long long)t->shape[i], i,
              (long long)wanted[i]);
    return 0;
  }
  const DLDevice device = attention->device;
  if (t->device.device_type != device.device_type || t->device.device_id != device.device_id) {
    set_error("%s: on device %d:%d; must be on %d:%d as the kernels are", name,
              (int)t->device.device_type, (int)t->device.device_id, (int)device.device_type,
              (int)device.device_id);
    return 0;
  }
  if (dtype_of(t->dtype) != dtype_of(attention->dtype)) {
    set_error("%s: must have the type that the kernels were made for", name);
    return 0;
  }
  return 1;
}

/* DLPack's strides are elements, as lssar's are. */
static lssar_tensor view(const DLTensor* t) {
  lssar_tensor out = {(char*)t->data + t->byte_offset, {0}};
  const int64_t *size = t->shape, row = size[3];
  const int64_t contiguous[] = {size[1] * size[2] * row, size[2] * row, row};
  for (int i = 0; i < 3; ++i) out.strides[i] = t->strides == NULL ? contiguous[i] : t->strides[i];
  return out;
}

static void delete_result(DLManagedTensor* self) {
  result* r = self->manager_ctx;
  lssar_buffer_free(r->attention->context, self->dl_tensor.data); /* cannot report an error */
  release(r->attention);
  free(r);
}

/* Contiguous, [batch, heads, length, dim]; NULL after an error. */
static result* new_result(dl_attention* attention, const lssar_sizes* sizes) {
  result* r = calloc(1, sizeof(*r));
  if (r == NULL) {
    set_error("out of memory");
    return NULL;
  }
  const int64_t shape[] = {sizes->batch, sizes->heads, sizes->seq_q, attention->head_dim_v};
  size_t bytes = attention->dtype.bits / 8;
  for (int i = 0; i < 4; ++i) bytes *= (size_t)(r->shape[i] = shape[i]);
  r->attention = attention;
  r->tensor.dl_tensor.device = attention->device;
  r->tensor.dl_tensor.dtype = attention->dtype;
  r->tensor.dl_tensor.ndim = 4;
  r->tensor.dl_tensor.shape = r->shape;
  r->tensor.manager_ctx = r;
  r->tensor.deleter = delete_result;
  if (!is_ok(lssar_buffer_alloc(attention->context, bytes, &r->tensor.dl_tensor.data))) {
    free(r);
    return NULL;
  }
  atomic_fetch_add(&attention->users, 1);
  return r;
}

static int execute(const dl_attention* attention, lssar_call* call) {
  void* workspace;
  if (!is_ok(lssar_plan_workspace_size(attention->plan, &call->sizes, &call->workspace_bytes)) ||
      !is_ok(lssar_buffer_alloc(attention->context, call->workspace_bytes, &workspace))) {
    return 0;
  }
  call->workspace = workspace;
  const int is_done = is_ok(lssar_execute_forward(attention->plan, call)) &&
                      is_ok(lssar_synchronize(attention->context, NULL));
  return is_ok(lssar_buffer_free(attention->context, workspace)) && is_done;
}

DLManagedTensor* dl_attention_forward(dl_attention* attention, const DLManagedTensor* q,
                                      const DLManagedTensor* k, const DLManagedTensor* v) {
  const DLTensor *tq = &q->dl_tensor, *tk = &k->dl_tensor, *tv = &v->dl_tensor;
  if (!has_form("q", tq) || !has_form("k", tk)) return NULL;
  const lssar_sizes sizes = {tq->shape[0], tq->shape[1], tk->shape[1], tq->shape[2], tk->shape[2]};
  if (!fits(attention, "q", tq, sizes.batch, sizes.heads, sizes.seq_q, attention->head_dim) ||
      !fits(attention, "k", tk, sizes.batch, sizes.kv_heads, sizes.seq_k, attention->head_dim) ||
      !fits(attention, "v", tv, sizes.batch, sizes.kv_heads, sizes.seq_k, attention->head_dim_v)) {
    return NULL;
  }
  result* r = new_result(attention, &sizes);
  if (r == NULL) return NULL;
  lssar_call call = {.struct_size = sizeof(call)};
  call.sizes = sizes;
  call.q = view(tq);
  call.k = view(tk);
  call.v = view(tv);
  call.o = view(&r->tensor.dl_tensor);
  if (execute(attention, &call)) return &r->tensor;
  delete_result(&r->tensor);
  return NULL;
}
