/* The binary interface between the core (llvm_compiler.cpp) and the LLVM compiler library
 * (llvm_module.cpp, liblssar_llvm.so): plain C, so that neither side's C++ library, exceptions or
 * allocator matter to the other.
 *
 * Conventions: the library fills a result, and lssar_llvm_release frees it. Strings end in NUL and
 * have their length beside them. Nothing is thrown. Every function may be called from any number of
 * threads at once.
 */
#ifndef LSSAR_COMPILE_LLVM_ABI_H_
#define LSSAR_COMPILE_LLVM_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised with every change below. The core refuses a library with another number. */
#define LSSAR_LLVM_ABI_VERSION 2u

/* The result of a compile. */
enum lssar_llvm_outcome {
  LSSAR_LLVM_DONE = 0,    /* the requested result is set */
  LSSAR_LLVM_REFUSED = 1, /* an error of the source or the options: see log */
  LSSAR_LLVM_FAILED = 2   /* the compiler itself failed (memory, a fatal error of LLVM): see log */
};

/* What a compile makes. The options say for which target. */
enum lssar_llvm_output {
  LSSAR_LLVM_PTX = 0,
  LSSAR_LLVM_OBJECT = 1 /* an ELF object of the host's architecture */
};

struct lssar_llvm_request {
  int32_t output;        /* enum lssar_llvm_output */
  const char* file_name; /* the name diagnostics give the source */
  const char* source;
  size_t source_bytes;
  const char* const* options; /* of clang's front end, as for `clang -cc1` */
  size_t num_options;
};

struct lssar_llvm_result {
  int32_t outcome; /* enum lssar_llvm_outcome */
  char* image; /* PTX, or an object */
  size_t image_bytes;
  char* log; /* diagnostics, including warnings */
  size_t log_bytes;
};

/* An object in executable memory. */
typedef struct lssar_llvm_loaded lssar_llvm_loaded;

struct lssar_llvm_load_result {
  int32_t outcome;           /* enum lssar_llvm_outcome */
  lssar_llvm_loaded* loaded; /* LSSAR_LLVM_DONE; lssar_llvm_unload frees it and its memory */
  char* log;                 /* else why not; free with lssar_llvm_release_log */
};

struct lssar_llvm_function_result {
  void* address; /* NULL: see log */
  char* log;     /* free with lssar_llvm_release_log */
};

typedef uint32_t lssar_llvm_abi_version_fn(void);
typedef const char* lssar_llvm_version_fn(void); /* "19.1.7"; static */
typedef void lssar_llvm_compile_fn(const struct lssar_llvm_request*, struct lssar_llvm_result*);
typedef void lssar_llvm_release_fn(struct lssar_llvm_result*);
/* Links an object into this process. It may name memcpy, memmove, memset and sched_yield and
 * nothing else that it does not define. */
typedef void lssar_llvm_load_fn(const char* object, size_t bytes, struct lssar_llvm_load_result*);
/* The address of a function of the object, or why there is none. */
typedef void lssar_llvm_function_fn(lssar_llvm_loaded*, const char* name,
                                    struct lssar_llvm_function_result*);
typedef void lssar_llvm_unload_fn(lssar_llvm_loaded*);
typedef void lssar_llvm_release_log_fn(char* log);

/* What the library exports, and nothing else. */
#pragma GCC visibility push(default)
lssar_llvm_abi_version_fn lssar_llvm_abi_version;
lssar_llvm_version_fn lssar_llvm_version;
lssar_llvm_compile_fn lssar_llvm_compile;
lssar_llvm_release_fn lssar_llvm_release;
lssar_llvm_load_fn lssar_llvm_load;
lssar_llvm_function_fn lssar_llvm_function;
lssar_llvm_unload_fn lssar_llvm_unload;
lssar_llvm_release_log_fn lssar_llvm_release_log;
#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* LSSAR_COMPILE_LLVM_ABI_H_ */
