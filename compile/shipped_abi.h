/* The interface of liblssar_kernels.so: kernels of CPU targets that were compiled when lssar was
 * packaged (tools/lssar/ship_kernels.cpp writes it). Plain C, like compile/llvm_abi.h. */
#ifndef LSSAR_COMPILE_SHIPPED_ABI_H_
#define LSSAR_COMPILE_SHIPPED_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by every change of the structs or of `kernel`'s meaning. */
#define LSSAR_SHIPPED_ABI_VERSION 1

/* A function of a kernel. `kernel`: shipped_kernel_name() of its source. */
typedef struct lssar_shipped_function {
  const char* kernel;
  const char* entry;
  void (*code)(void); /* cast to the entry's type before it is called */
} lssar_shipped_function;

typedef struct lssar_shipped_table {
  int32_t abi_version;
  int32_t num_functions;
  const lssar_shipped_function* functions; /* sorted by kernel */
  const char* compiler;                    /* that made them, "llvm 19.1.7" */
} lssar_shipped_table;

/* Lives as long as the library. */
const lssar_shipped_table* lssar_shipped_kernels(void);

#ifdef __cplusplus
}
#endif

#endif /* LSSAR_COMPILE_SHIPPED_ABI_H_ */
