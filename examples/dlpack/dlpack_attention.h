/* Attention of tensors of other libraries, handed over and back by DLPack without copies.
 *
 * The structs are those of the DLPack standard before its version 1.0, which every library still
 * takes. A program that has dlpack/dlpack.h includes that instead. */
#ifndef LSSAR_EXAMPLES_DLPACK_DLPACK_ATTENTION_H_
#define LSSAR_EXAMPLES_DLPACK_DLPACK_ATTENTION_H_

#include <stdint.h>

typedef enum { kDLCPU = 1, kDLCUDA = 2 } DLDeviceType;
typedef enum { kDLFloat = 2, kDLBfloat = 4 } DLDataTypeCode;

typedef struct {
  int32_t device_type; /* DLDeviceType; other libraries have more of them */
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code; /* DLDataTypeCode, likewise */
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: contiguous */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

/* The kernels for one device, type and pair of head dims. Several threads may call at once. */
typedef struct dl_attention dl_attention;

/* For tensors like q and v. NULL after an error. */
dl_attention* dl_attention_new(const DLManagedTensor* q, const DLManagedTensor* v, int causal,
                               int p);
/* Results may outlive it. */
void dl_attention_free(dl_attention* attention);

/* q [batch, heads, queries, head_dim], k [batch, kv_heads, keys, head_dim], v [batch, kv_heads,
 * keys, head_dim_v] -> [batch, heads, queries, head_dim_v], contiguous. The inputs are read during
 * the call and stay the caller's. The result is the caller's, who ends it by its deleter. On CUDA
 * the inputs must be ready on the default stream; the result is complete. NULL after an error. */
DLManagedTensor* dl_attention_forward(dl_attention* attention, const DLManagedTensor* q,
                                      const DLManagedTensor* k, const DLManagedTensor* v);

/* Why this thread's last call returned NULL. */
const char* dl_attention_error(void);

#endif /* LSSAR_EXAMPLES_DLPACK_DLPACK_ATTENTION_H_ */
