/* lssar.h: LSSAR attention (and LSSA) on a GPU, a CPU or a virtual device, from C.
 *
 * This file is the manual of the C API, for C99 and C++11. A whole program is examples/attention.c.
 * What is computed, per batch entry and head, in natural logarithms:
 *
 *     A_ij = softplus(log(head_dim) log(N_i) cos(q_i, k_j))      N_i: keys row i sees
 *     P_ij = A_ij / sum_j A_ij
 *     W_ij = max(N_i P_ij - offset, 0)^p                         offset is 0 where N_i <= 3
 *     o_i  = sum_j W_ij v_j / sum_j W_ij                         p = 0 (LSSA): o_i = sum_j P_ij v_j
 *
 * Conventions
 *
 *  1. Order of calls. lssar_context_create, lssar_plan_create, lssar_plan_prepare, then any number
 *     of lssar_execute_*; then destroy. Prepare compiles the kernels or finds them on disk.
 *  2. Handles. lssar_context and lssar_plan are opaque. The caller owns them from _create to
 *     _destroy. A plan keeps what it needs of its context, so destroy them in either order.
 *     Destroying NULL does nothing. Do not use a handle after its destruction or in a child process
 *     after fork. Do not destroy it while a thread uses it or its work runs on a GPU.
 *  3. Structs. Zero the whole, then set struct_size to sizeof the struct and the fields you need. A
 *     field of 0 has the default in its comment. New versions may append fields, and read an older
 *     caller's struct as it was meant. A longer struct is accepted if its unknown part is zero.
 *     Structs without struct_size never grow. Structs and strings are read during the call only.
 *  4. Errors. Every function that can fail returns an lssar_status. After a failure
 *     lssar_last_error_detail() has one line that names the field, its value and what is allowed.
 *     The library prints nothing, never aborts, and lets no C++ exception out. Each function lists
 *     its statuses; any may also return OUT_OF_MEMORY, and INTERNAL, a bug. A call that fails
 *     leaves its outputs as they were, unless its comment says otherwise.
 *  5. Tensors are [batch, heads, length, dim]. The last dimension is contiguous. The strides of the
 *     other three are given in elements, so [batch, length, heads, dim] and packed q, k, v need no
 *     copy. Inputs may have strides of 0 (broadcast). A tensor that is written must not have two
 *     elements at one address and must not share memory with another tensor of the call.
 *  6. Alignment. Every pointer and stride must be a multiple of the element size. A call takes a
 *     faster kernel if all of them are multiples of 16 bytes. Saved tensors, row statistics and the
 *     workspace must be aligned to 16 bytes; their contents are opaque unless described here.
 *  7. Memory. The caller owns all memory and keeps it valid until the work is done. Pointers are
 *     device pointers (or managed memory) on a cuda device, and ordinary host pointers on the cpu
 *     and virtual devices. lssar_buffer_alloc gives memory that is right for all of them.
 *  8. Streams. `stream` is a CUstream (or cudaStream_t) of the context's device, passed as void*;
 *     NULL is the default stream. Work of one stream runs in the order of the calls; the caller
 *     orders streams. The cpu and virtual devices ignore it: execute returns when the work is done.
 *  9. Threads. Any number of threads may call every function at once, on the same handles too
 *     (destroy: convention 2). Concurrent calls must not write the same memory: each needs its own
 *     workspace. The detail text is per thread. No function needs a current CUDA context, and all
 *     leave the thread's as it was. The cpu device gives the same bits for any number of threads.
 * 10. CUDA graphs. lssar_execute_* only check their arguments and enqueue kernels. They allocate
 *     nothing, compile nothing, take no lock and do not synchronise, so you may capture them. (On
 *     the cpu device they take locks, and each thread allocates its scratch memory once.) Plan and
 *     memory must then outlive the graph. Call every other function outside capture.
 * 11. Data. NaN, infinities, denormal numbers and zero vectors are data, never errors. A NaN or
 *     infinity in q or k gives NaN in exactly the rows of o that see it. In v, or in the backward,
 *     it stays within its batch entry and kv head. A row that sees no key, or has no weights, gives
 *     0. If the squared length of a row of q or k overflows float32, the result is unspecified.
 * 12. Versions. Functions and structs keep their meaning and layout within one LSSAR_ABI_VERSION,
 *     the number of the soname: a program built with a header of 1.x runs with every later
 *     liblssar.so.1. Releases may append functions, enumerators and fields.
 *
 * Environment variables: docs/environment.md.
 */
#ifndef LSSAR_LSSAR_H_
#define LSSAR_LSSAR_H_

#include <stddef.h>
#include <stdint.h>

#define LSSAR_API __attribute__((visibility("default")))
#ifdef __cplusplus
#define LSSAR_NOEXCEPT noexcept
extern "C" {
#else
#define LSSAR_NOEXCEPT
#endif

/* ---- Versions ------------------------------------------------------------------------------ */
#define LSSAR_VERSION_MAJOR 1
#define LSSAR_VERSION_MINOR 0
#define LSSAR_VERSION_PATCH 0
#define LSSAR_VERSION \
  (LSSAR_VERSION_MAJOR * 10000 + LSSAR_VERSION_MINOR * 100 + LSSAR_VERSION_PATCH)
#define LSSAR_ABI_VERSION 1

/* LSSAR_VERSION and LSSAR_ABI_VERSION of the loaded library, to compare with this header's. */
LSSAR_API int lssar_version(void) LSSAR_NOEXCEPT;
LSSAR_API int lssar_abi_version(void) LSSAR_NOEXCEPT;
/* "1.0.0", and for bug reports "lssar 1.0.0, g++ 12.2.0, release". Static: never freed. */
LSSAR_API const char* lssar_version_string(void) LSSAR_NOEXCEPT;
LSSAR_API const char* lssar_build_info(void) LSSAR_NOEXCEPT;

/* ---- Errors -------------------------------------------------------------------------------- */
/* A library of this ABI version returns no other value. Values are fixed. */
typedef enum lssar_status {
  LSSAR_STATUS_OK = 0,
  LSSAR_STATUS_INVALID_ARGUMENT = 1, /* a field or pointer is out of its range */
  LSSAR_STATUS_UNSUPPORTED = 2,      /* well formed, but nothing here computes it */
  LSSAR_STATUS_MISSING = 3,          /* a compiler, device or file was not found */
  LSSAR_STATUS_COMPILE_ERROR = 4, /* a compiler refused a generated source: a bug; please report */
  LSSAR_STATUS_DEVICE_ERROR = 5,  /* load, launch or copy failed */
  LSSAR_STATUS_IO_ERROR = 6,      /* a file could not be read or written */
  LSSAR_STATUS_NOT_PREPARED = 7,  /* execute on a plan, or for a pass, that was not prepared */
  LSSAR_STATUS_OUT_OF_MEMORY = 8, /* of the host or of the device */
  LSSAR_STATUS_INTERNAL = 9,      /* a bug of the library's; please report */
  LSSAR_STATUS_CANCELLED = 10     /* the caller's callback asked for it */
} lssar_status;

/* "invalid argument", ...; "unknown status" for a number that is no status. Static: never freed. */
LSSAR_API const char* lssar_status_string(lssar_status status) LSSAR_NOEXCEPT;

/* The detail of this thread's last failed call, valid until its next one; "" if none failed. */
LSSAR_API const char* lssar_last_error_detail(void) LSSAR_NOEXCEPT;

/* ---- Log ----------------------------------------------------------------------------------- */
typedef enum lssar_log_level {
  LSSAR_LOG_ERROR = 0,   /* a request failed */
  LSSAR_LOG_WARNING = 1, /* a call continued with less: say, the cache cannot be written */
  LSSAR_LOG_INFO = 2,    /* one line per kernel a plan prepares, compile, cache miss, device */
  LSSAR_LOG_DEBUG = 3,   /* everything else, except: */
  LSSAR_LOG_TRACE = 4    /* one line per execute */
} lssar_log_level;

/* Receives one message. `level` is an lssar_log_level; `message` is valid during the call. Any
 * thread may call it, several at once. It must not call the library or throw. The lines of a
 * prepare ("prepare: ") and an execute ("execute: ") end in a command that repeats it. */
typedef void (*lssar_log_callback)(int level, const char* message, void* user);

/* Sends messages up to and including `level` to `callback`; NULL turns logging off. A process has
 * one callback, which takes the place of LSSAR_LOG's output. INVALID_ARGUMENT: an unknown level. */
LSSAR_API lssar_status lssar_set_log_callback(lssar_log_callback callback, void* user,
                                              int level) LSSAR_NOEXCEPT;

/* ---- Context: a device, a compiler and a binary cache -------------------------------------- */
typedef struct lssar_context lssar_context;
typedef struct lssar_plan lssar_plan; /* the kernels of a problem */

typedef enum lssar_device {
  LSSAR_DEVICE_AUTO = 0,    /* the first GPU if there is one, else the virtual device */
  LSSAR_DEVICE_CUDA = 1,    /* a GPU, through its driver */
  LSSAR_DEVICE_VIRTUAL = 2, /* interprets the kernels on the CPU: exact, portable, slow */
  LSSAR_DEVICE_RECORD = 3,  /* computes nothing, counts launches: for measuring host overhead */
  LSSAR_DEVICE_CPU = 4      /* machine code for the host's CPU, by the LLVM compiler; needs AVX2:
                               docs/cpu.md */
} lssar_device;

typedef enum lssar_compiler {
  LSSAR_COMPILER_AUTO = 0,  /* NVRTC if it is found, else LLVM */
  LSSAR_COMPILER_NVRTC = 1, /* NVIDIA's, opened at run time */
  LSSAR_COMPILER_LLVM = 2   /* clang's, in a library of its own */
} lssar_compiler;

/* The caller's threads, for the cpu device. A function of this type calls task(work, i) once for
 * every i from 0 to n - 1, in any order and on any threads, its own included. It returns when all
 * of these calls have returned. n is 2 to 1024. A thread may get several i. Executes that run at
 * the same time call it at the same time. A task neither calls it nor waits for other tasks. The
 * function must not throw, and nothing may call the task after it has returned. If it leaves an i
 * out, repeats one, or takes one that is out of range, execute returns DEVICE_ERROR. */
typedef void (*lssar_task)(void* work, int64_t i);
typedef void (*lssar_parallel_for)(void* user, int64_t n, lssar_task task, void* work);

typedef struct lssar_context_options {
  size_t struct_size;
  int32_t device;              /* lssar_device */
  int32_t device_ordinal;      /* which GPU, from 0 */
  int32_t compiler;            /* lssar_compiler */
  int32_t reserved;            /* 0 */
  const char* target;          /* "sm_80", ..., "x86-64-v3", ...; NULL: the device's own (virtual:
                                  sm_80; cpu: the highest level that the machine runs) */
  const char* cache_directory; /* NULL: LSSAR_CACHE_DIR, else $XDG_CACHE_HOME/lssar, else
                                  ~/.cache/lssar; "none": in memory only */
  uint64_t cache_max_bytes;    /* above it least recently used entries are removed; 0: 1 GiB */
  const char* tuning_table;    /* file of measured schedules, read once, here; NULL or "":
                                  LSSAR_TUNING_TABLE, else tuning.jsonl in the cache directory;
                                  "none": no table */
  lssar_parallel_for parallel_for; /* cpu: runs each execute, with n at most its num_threads, unless
                                      one thread is enough. NULL: the context's own threads */
  void* parallel_for_user;         /* handed to parallel_for */
} lssar_context_options;

/* Opens the device. `options` NULL: every default. *context is NULL on failure. A cache directory
 * that cannot be used is no error: binaries are then kept in memory, and lssar_context_get_info
 * says why. A missing or unreadable tuning table is none either; the log warns. The first prepare,
 * or plan that finds records, opens the compiler. The cpu device's is opened here, because nothing
 * else makes its kernels. INVALID_ARGUMENT: a bad option. MISSING: no such device, or no compiler
 * for the cpu device. UNSUPPORTED: a CPU without the device's or the target's instructions, a
 * compiler that makes no code for CPUs, a newer version's field that is set. DEVICE_ERROR. */
LSSAR_API lssar_status lssar_context_create(const lssar_context_options* options,
                                            lssar_context** context) LSSAR_NOEXCEPT;
LSSAR_API void lssar_context_destroy(lssar_context* context) LSSAR_NOEXCEPT;

/* What a context opened. Strings belong to the context. */
typedef struct lssar_context_info {
  size_t struct_size;          /* set by the caller; the library writes no more than this */
  int32_t device;              /* LSSAR_DEVICE_CUDA, _VIRTUAL, _RECORD or _CPU: never _AUTO */
  int32_t num_sms;             /* cpu, virtual: threads that run blocks */
  const char* device_name;     /* "NVIDIA H200"; cpu: the CPU's name */
  const char* driver;          /* "" where there is none */
  const char* target;          /* "sm_90a" */
  const char* cache_directory; /* "": in memory only */
  const char* cache_problem;   /* why the directory is not used; "" if it is or none was wanted */
  uint64_t cache_memory_hits;  /* prepared kernels found in this process, */
  uint64_t cache_disk_hits;    /* on disk, */
  uint64_t cache_misses;       /* or compiled */
} lssar_context_info;

/* INVALID_ARGUMENT: a NULL pointer, a struct_size that is too small. */
LSSAR_API lssar_status lssar_context_get_info(const lssar_context* context,
                                              lssar_context_info* info) LSSAR_NOEXCEPT;

/* ---- Problem ------------------------------------------------------------------------------- */
typedef enum lssar_dtype {
  LSSAR_DTYPE_FP16 = 0,
  LSSAR_DTYPE_BF16 = 1,
  LSSAR_DTYPE_FP32 = 2
} lssar_dtype;

/* Passes that a plan is made for, or-ed together. */
typedef enum lssar_pass {
  LSSAR_PASS_FORWARD = 1,       /* o */
  LSSAR_PASS_FORWARD_TRAIN = 2, /* o, and what the backward needs */
  LSSAR_PASS_BACKWARD = 4,      /* grad_q, grad_k, grad_v */
  LSSAR_PASS_ROW_SUMS = 8,      /* the forward's first pass over the keys: see "Keys in ranges" */
  LSSAR_PASS_WEIGHTED_SUM = 16  /* the forward's second pass over the keys */
} lssar_pass;

typedef struct lssar_problem {
  size_t struct_size;
  uint32_t passes;    /* lssar_pass bits, at least one */
  int32_t dtype;      /* lssar_dtype of every tensor but the saved ones */
  int32_t head_dim;   /* d of q and k: a multiple of 8, 8 to 256 */
  int32_t head_dim_v; /* dv of v and o: likewise; 0: head_dim */
  int64_t seq_q;      /* a length the kernels are made for, up to 2^31 - 1; 0: any length, given */
  int64_t seq_k;      /*   with each call */
  int64_t batch;      /* what calls will typically have, to choose a schedule by: calls may have */
  int64_t heads;      /*   other values. 0: 1 */
  int64_t kv_heads; /* divides heads; query head h reads kv head h / (heads / kv_heads); 0: heads */
  int32_t causal;   /* 1: row i sees keys j < clamp(i + 1 + seq_k - seq_q, 0, seq_k); 0: all keys */
  int32_t p;        /* power of the re-weighting, 1 to 1024; 0: none (LSSA) */
  double offset;    /* of the re-weighting, finite, >= 0 (usually 1); without effect if p = 0 */
  int32_t alignment; /* 16: every pointer and stride will be a multiple of 16 bytes, which halves
                        what prepare compiles; 0: take what each call brings */
  int32_t reserved;  /* 0 */
  const char* score; /* the score function: "softmax", "phi=relu(x)^2,normalizer=sum_abs", JSON:
                        docs/math.md, "The family"; NULL or "": the formulas at the top */
  int32_t varlen;    /* 1: calls have sequences of their own lengths ("Sequences" below); seq_q and
                        seq_k are then the most that one may have, to choose a schedule by, and 0
                        is any number. 0: calls have one length */
  int32_t reserved2; /* 0 */
  /* Windows. Row i stands at position pos = i + seq_k - seq_q. It sees key j if j < prefix, or if
   * j <= hi and (j < window_sinks or j >= lo), where hi is the least of pos + window_right, pos if
   * causal, and the last position of pos's chunk, and lo is the larger of pos - window_left and the
   * first position of that chunk. N_i counts these keys. All 0: no window. */
  int32_t has_window;   /* 1: window_left and window_right hold; 0: they are 0 and limit nothing */
  int32_t reserved3;    /* 0 */
  int64_t window_left;  /* keys seen before pos; -1: all */
  int64_t window_right; /* keys seen after pos; -1: all */
  int64_t window_sinks; /* the first keys, which neither window_left nor chunk hides */
  int64_t prefix;       /* the first keys, which every row sees, even one before them */
  int64_t chunk;        /* a row sees keys of its chunk [n chunk, n chunk + chunk); 0: no chunks */
  int32_t invariant;    /* 1: a row's result has the same bits whatever the batch, the other rows of
                           the call and the threads (docs/invariance.md).
                           0: bits may depend on the other rows of the call */
  int32_t reserved4;    /* 0 */
  /* Rotary positions (docs/rotary.md). Key j stands at position j, and query i at position
   * i + seq_k - seq_q. In a row at position m, pair c of columns (x, y) becomes
   * (x cos - y sin, y cos + x sin), with cos = call.rotary_cos[m, c] and sin likewise. Other
   * columns stay. With varlen, positions and lengths are those of the row's own sequence. Not with
   * passes over ranges of keys. */
  int32_t rotary_dim;         /* the first columns of q and k: even, 2 to head_dim; 0: none */
  int32_t rotary_interleaved; /* pair c is columns 2c and 2c + 1 (1), or c and c + rotary_dim / 2 */
} lssar_problem;

/* ---- Plan: the kernels of a problem ---------------------------------------------------------- */
/* Where a plan's schedules come from if none is given. Only LSSAR_TUNING_TUNE measures. */
typedef enum lssar_tuning {
  LSSAR_TUNING_DEFAULT = 0,  /* the context's tuning table, the one that comes with the library, or
                                the default: whichever has the best evidence */
  LSSAR_TUNING_BUILT_IN = 1, /* only what comes with the library: the same on every machine */
  LSSAR_TUNING_TUNE = 2      /* as 0, after a search by lssar_plan_prepare if no record exists */
} lssar_tuning;

/* What backwards of the same inputs on one GPU have in common. Other passes repeat every bit. */
typedef enum lssar_determinism {
  LSSAR_DETERMINISM_REPEATABLE = 0, /* every bit */
  LSSAR_DETERMINISM_ANY = 1         /* sums in any order, where a tuning table says it is faster */
} lssar_determinism;

/* How long lssar_tune searches, per pass of a problem. */
typedef enum lssar_budget {
  LSSAR_BUDGET_NORMAL = 0, /* at most about 2 minutes */
  LSSAR_BUDGET_QUICK = 1,  /* at most about 20 seconds */
  LSSAR_BUDGET_FULL = 2    /* as long as it takes */
} lssar_budget;

/* How far a search has got. Strings are valid during the call. */
typedef struct lssar_tune_progress {
  size_t struct_size;  /* set by the library */
  const char* problem; /* one line */
  const char* stage;   /* "enumerate", "blocks", "threads", "halving", "final", "verify", "done" */
  const char* best;    /* the best schedule so far, one line; "": none yet */
  int32_t search, num_searches; /* which, from 0, of how many: one per pass of each problem */
  int32_t done, total;          /* candidates of this stage */
  double best_ms;               /* 0: none yet */
  double elapsed_s, limit_s;    /* limit_s 0: none */
} lssar_tune_progress;

/* Called now and then on the thread that tunes. A result other than 0 ends the search at its next
 * step. It must not call the library for the same plan, and must not throw. */
typedef int32_t (*lssar_tune_callback)(const lssar_tune_progress* progress, void* user);

typedef struct lssar_tune_options {
  size_t struct_size;
  int32_t budget;               /* lssar_budget */
  int32_t determinism;          /* lssar_determinism: what schedules may be chosen */
  int32_t parallel_compiles;    /* 0: one per core, at most 16 */
  int32_t reserved;             /* 0 */
  lssar_tune_callback callback; /* NULL: none */
  void* user;                   /* handed to the callback */
  const char* worker; /* path of lssar-tune-worker; NULL: LSSAR_TUNE_WORKER, else as installed */
  /* For problems with varlen: the lengths of the sequences that are timed. Two arrays in host
   * memory, with num_lengths numbers each. lssar_tune and lssar_plan_create copy them. */
  const int64_t* lengths_q; /* queries of each, 0 to the problem's seq_q, or to 2^31 - 1 if that is
                               0. NULL: made up (see lssar_tune) */
  const int64_t* lengths_k; /* keys of each, likewise by seq_k; NULL: as many as queries */
  int64_t num_lengths;      /* 1 to 2^20; 0 where lengths_q is NULL */
} lssar_tune_options;

/* Searches for the best schedule of every pass of every problem, on the context's device, and keeps
 * what it measures in the context's tuning table, where later plans and other processes find it.
 * What the table knows already is not measured again. Candidates run in other processes. One search
 * at a time uses a device. On the virtual device nothing is measured: the result is predicted.
 * `problems` are `num_problems` pointers. Lengths, batch and heads are those that calls will
 * typically have. A length of 0 stands for 4096, and one batch entry of one head for 16 heads of as
 * many entries as make 16K queries or keys. With varlen batch is the number of sequences, up to
 * 2^20; the longest has these lengths, and the others are evenly shorter. The lengths of `options`
 * are those of the sequences instead. Then each problem must have varlen, and a batch of 0, 1 or
 * num_lengths; one sequence must have a query and a key; all queries, and all keys, are at most
 * 2^31 - 1; with rotary_dim no sequence has more queries than keys. With invariant only schedules
 * that change no bit are tried. Takes minutes, and should have the device for itself. `options` may
 * be NULL. Row sums and weighted sums are skipped, because they have one schedule. A problem that
 * fails does not stop the others; the first failure is returned. INVALID_ARGUMENT: options or a
 * problem, before anything is searched; UNSUPPORTED: the device is record, which cannot be tuned;
 * MISSING: no worker program, no compiler; DEVICE_ERROR: no candidate passed, or another process
 * has been tuning on this device for 10 minutes; IO_ERROR: the table cannot be written; CANCELLED:
 * by the callback; what was measured until then is kept. */
LSSAR_API lssar_status lssar_tune(lssar_context* context, const lssar_problem* const* problems,
                                  size_t num_problems,
                                  const lssar_tune_options* options) LSSAR_NOEXCEPT;

typedef struct lssar_plan_options {
  size_t struct_size;
  const char* schedule_json;      /* NULL or "": chosen as `tuning` says. Else a JSON object as
                                     `lssar emit --schedule` takes; other fields keep defaults */
  int32_t tuning;                 /* lssar_tuning */
  int32_t determinism;            /* lssar_determinism */
  const lssar_tune_options* tune; /* of LSSAR_TUNING_TUNE (its determinism is the plan's), with the
                                     lengths of calls' sequences; NULL: every default. Where these
                                     have at most 16 queries each, the problem must state seq_q */
} lssar_plan_options;

/* Checks the problem and chooses schedules. `options` may be NULL. *plan is NULL on failure.
 * INVALID_ARGUMENT: a field out of its range, or an illegal schedule. UNSUPPORTED: varlen,
 * rotary_dim or invariant with passes over ranges of keys; a newer version's field that is set.
 * OUT_OF_MEMORY. */
LSSAR_API lssar_status lssar_plan_create(lssar_context* context, const lssar_problem* problem,
                                         const lssar_plan_options* options,
                                         lssar_plan** plan) LSSAR_NOEXCEPT;
LSSAR_API void lssar_plan_destroy(lssar_plan* plan) LSSAR_NOEXCEPT;

/* Makes the plan's kernels ready: finds them in the cache, or compiles and stores them, then loads
 * them. Threads that prepare the same problem compile it once. A prepared plan is left as it is;
 * after a failure you may try again. LSSAR_TUNING_TUNE first searches if the table has no record.
 * Until it returns, the plan's schedules may then change, and with them the sizes of its workspace
 * and of what it saves; the errors of lssar_tune are possible, too.
 * MISSING: no compiler. COMPILE_ERROR: the detail has the compiler's log and the path of the
 * source. DEVICE_ERROR: the image does not load. OUT_OF_MEMORY. */
LSSAR_API lssar_status lssar_plan_prepare(lssar_plan* plan) LSSAR_NOEXCEPT;

/* Where a schedule came from, from the best evidence to the least. */
typedef enum lssar_schedule_origin {
  LSSAR_ORIGIN_GIVEN = 0,        /* schedule_json of the plan's options */
  LSSAR_ORIGIN_EXACT = 1,        /* measured on this GPU, for problems like this one */
  LSSAR_ORIGIN_NEAREST = 2,      /* measured on this GPU, at other sizes or without the
                                    window, varlen, rotary_dim or invariant */
  LSSAR_ORIGIN_ARCHITECTURE = 3, /* measured on another GPU of the architecture */
  LSSAR_ORIGIN_PREDICTED = 4,    /* by the cost model */
  LSSAR_ORIGIN_DEFAULT = 5       /* nothing was found: the default schedule */
} lssar_schedule_origin;

/* The schedule of a pass. A pass may have two kernels: one for calls aligned to 16 bytes
 * (convention 6), and one for all other calls, which the `unaligned_*` fields describe. With one
 * kernel unaligned_schedule_json and unaligned_reason are NULL. Strings belong to the plan. */
typedef struct lssar_schedule_info {
  size_t struct_size; /* set by the caller */
  int32_t origin;     /* lssar_schedule_origin */
  int32_t unaligned_origin;
  const char* reason;        /* one line: which record decided, or why none did */
  const char* schedule_json; /* as plan_options.schedule_json takes it, every field */
  const char* unaligned_reason;
  const char* unaligned_schedule_json;
} lssar_schedule_info;

/* The plan need not be prepared. INVALID_ARGUMENT: a NULL pointer, a `pass` that is not one
 * lssar_pass, or too small a struct_size. NOT_PREPARED: the plan was not made for this pass. */
LSSAR_API lssar_status lssar_plan_get_schedule(const lssar_plan* plan, int32_t pass,
                                               lssar_schedule_info* info) LSSAR_NOEXCEPT;

/* The sizes of one call, each up to 2^31 - 1. Lengths and batch may be 0; kv_heads divides heads.
 * If the problem fixes a length, the call's must be the same; with varlen, at most that. */
typedef struct lssar_sizes {
  int64_t batch, heads, kv_heads;
  int64_t seq_q, seq_k;
} lssar_sizes;

/* Bytes of workspace that a call of these sizes needs, for any of the plan's passes; it may be 0.
 * Ask for every size: smaller calls may need more, as one query of many heads does on a CPU.
 * The plan need not be prepared. INVALID_ARGUMENT: a NULL pointer, or sizes out of range. */
LSSAR_API lssar_status lssar_plan_workspace_size(const lssar_plan* plan, const lssar_sizes* sizes,
                                                 size_t* bytes) LSSAR_NOEXCEPT;

/* Bytes of what the forward for training saves. row_stats has the size `stats`. */
typedef struct lssar_saved_sizes {
  size_t o;     /* saved_o: what rounding took from o, bf16 [batch, heads, seq_q, head_dim_v]: o in
                 * float32 less o as written. 0 if dtype is fp32 (the pointer is then ignored) */
  size_t stats; /* saved_stats: float32 [4, batch, heads, seq_q]; opaque with a score; sum_j A_ij;
                 * m = max_j N_i P_ij - offset; zs = sum_j W_ij / m^p; the largest score in bits */
  size_t x;     /* saved_x: opaque; 0 if the plan needs none (the pointer is then ignored) */
} lssar_saved_sizes;

/* The plan need not be prepared. INVALID_ARGUMENT: a NULL pointer, or sizes out of range. */
LSSAR_API lssar_status lssar_plan_saved_sizes(const lssar_plan* plan, const lssar_sizes* sizes,
                                              lssar_saved_sizes* saved) LSSAR_NOEXCEPT;

/* Workspace and saved bytes of calls of a plan with problem.varlen. `sizes` are those of the calls:
 * batch sequences of at most seq_q queries and seq_k keys. total_q and total_k: rows of all
 * sequences together, used or not, 0 to 2^31 - 1. `workspace_bytes` and `saved` may be NULL.
 * The plan need not be prepared. INVALID_ARGUMENT: plan or sizes is NULL, or a size is out of
 * range. */
LSSAR_API lssar_status lssar_plan_varlen_sizes(const lssar_plan* plan, const lssar_sizes* sizes,
                                               int64_t total_q, int64_t total_k,
                                               size_t* workspace_bytes,
                                               lssar_saved_sizes* saved) LSSAR_NOEXCEPT;

/* ---- Execute ------------------------------------------------------------------------------- */
/* [batch, heads, length, dim] at data. Strides of the first three are in elements, 0 or more; a
 * contiguous tensor has { heads * length * dim, length * dim, dim }. The library ignores the stride
 * of a size of 1, and data if the tensor has no elements. */
typedef struct lssar_tensor {
  void* data;
  int64_t strides[3]; /* batch, head, row */
} lssar_tensor;

/* Where a call's keys and queries are among all. Row 0 of k and v is key first_key of num_keys; row
 * 0 of q is query first_query of num_queries. Only problems with a causal mask or a window read the
 * queries' part. Values are 0 to 2^31 - 1; the call's rows lie within num_*. A num_* of 0 is the
 * smallest that fits. */
typedef struct lssar_range {
  int64_t first_key, num_keys;
  int64_t first_query, num_queries;
} lssar_range;

/* The arguments of an execute. A pass ignores what it does not read (r) or write (w).
 *                       shape                            forward forward backward row  weighted
 *                                                                _train           _sums _sum
 *   q                   [batch, heads, seq_q, head_dim]      r      r       r      r      r
 *   k                   [batch, kv_heads, seq_k, head_dim]   r      r       r      r      r
 *   v                   [batch, kv_heads, seq_k, head_dim_v] r      r       r             r
 *   o                   [batch, heads, seq_q, head_dim_v]    w      w       r
 *   grad_o              like o                                              r
 *   grad_q, _k, _v      like q, k, v                                        w
 *   saved_o, _stats, _x lssar_plan_saved_sizes bytes                w       r
 *   workspace           lssar_plan_workspace_size bytes      w      w       w      w      w
 *   range                                                                          r      r
 *   row_stats           like saved_stats                     w                     w      r w
 *   partial_o           float32, contiguous, shape of o                                   w
 *   sink                float32 [heads], with score's sink   r      r       r             r
 *   grad_sink           like sink                                           w
 *   rotary_cos, _sin    [rotary_positions, rotary_dim / 2]   r      r       r
 *   alibi_slopes        float32 [heads], with score's alibi  r      r       r      r      r
 *   k_new, v_new        see "New keys"                       r
 *   key_norms           see "Norms of keys"                  rw
 *
 * The backward needs the q, k, v, sink of its forward_train, and o and what else that wrote. Both
 * use one plan, or two of the same problem with the same saved sizes. Gradients are overwritten,
 * not added to, and bitwise repeatable unless the plan's determinism or a given schedule says
 * otherwise. A forward writes row_stats if not NULL: all planes of saved_stats, up to the order of
 * sums. */
typedef struct lssar_call {
  size_t struct_size;
  lssar_sizes sizes;
  lssar_tensor q, k, v, o;
  lssar_tensor grad_o, grad_q, grad_k, grad_v;
  void* saved_o;
  float* saved_stats;
  void* saved_x;
  void* workspace;
  size_t workspace_bytes;
  void* stream; /* convention 8 */
  lssar_range range;
  float* row_stats;
  float* partial_o;
  int64_t num_threads; /* cpu, virtual: the most threads that run the call; 0: as many as the
                          calling thread has CPUs. Only a parallel_for may have more threads than
                          these CPUs. The cpu device takes fewer for little work */
  const float* sink;   /* only with a score that has one; aligned to 4 bytes */
  float* grad_sink;
  const int32_t* cu_seqlens_q; /* these six only with problem.varlen: see "Sequences" */
  const int32_t* cu_seqlens_k;
  const int32_t* seqused_q;
  const int32_t* seqused_k;
  int64_t total_q, total_k;
  /* Only with problem.rotary_dim: float32, contiguous, aligned to 4 bytes. The backward needs those
   * of its forward_train. Then no call or sequence has more queries than keys, and q, k and their
   * gradients are those before the rotation. */
  const float* rotary_cos;
  const float* rotary_sin;
  int64_t rotary_positions; /* at least seq_k; up to 2^31 - 1 */
  /* Only with a score that has alibi; aligned to 4 bytes. Head h adds -alibi_slopes[h] |pos - j| to
   * the score of query i and key j, pos = i + seq_k - seq_q; with varlen, in their own sequence.
   * Slopes have no gradient; the backward needs those of its forward_train. */
  const float* alibi_slopes;
  /* New keys and values of a forward with problem.varlen: see "New keys". */
  lssar_tensor k_new, v_new;
  int64_t seq_new;               /* the most of one sequence; 0: there are none */
  const int32_t* cu_seqlens_new; /* NULL: every sequence has seq_new */
  int64_t total_new;             /* rows of packed ones; read only with cu_seqlens_new */
  float* key_norms;              /* may be NULL: see "Norms of keys" */
} lssar_call;

/* Each enqueues one pass on call->stream. Capture-safe (convention 10). If a check fails (every
 * status but DEVICE_ERROR) nothing was enqueued and no memory was touched. After DEVICE_ERROR the
 * contents of what the call writes are undefined. Errors of work that runs later on a GPU come from
 * lssar_synchronize or the caller's own synchronisation.
 * INVALID_ARGUMENT: sizes or range out of range, NULL data, misaligned data or strides, a negative
 * stride, strides that reach beyond 2^63 bytes, written tensors that overlap, or a workspace that
 * is too small. NOT_PREPARED: the plan is not prepared, or not made for this pass. DEVICE_ERROR. */
LSSAR_API lssar_status lssar_execute_forward(const lssar_plan* plan,
                                             const lssar_call* call) LSSAR_NOEXCEPT;
LSSAR_API lssar_status lssar_execute_forward_train(const lssar_plan* plan,
                                                   const lssar_call* call) LSSAR_NOEXCEPT;
LSSAR_API lssar_status lssar_execute_backward(const lssar_plan* plan,
                                              const lssar_call* call) LSSAR_NOEXCEPT;

/* Sequences of their own lengths, for a plan with problem.varlen: documents packed one after
 * another, a padded batch, or queries against a cache of keys. Sequence b attends to its own keys
 * alone, as a call of batch 1 with its lengths would: N_i, and with causal the alignment of the
 * last query with the last key, are the sequence's own. sizes.batch is the number of sequences,
 * sizes.seq_q and seq_k are the most queries and keys that one may have. A GPU decodes fast with a
 * plan for LSSAR_PASS_FORWARD alone whose problem has a seq_q of 1 to 16 and a seq_k of 0 or above
 * 512: blocks then divide the keys (docs/varlen.md, "Decoding"). At least one of these is not NULL:
 *
 *   cu_seqlens_q [batch + 1]  q, o, grad_o and grad_q are packed: [1, heads, total_q, dim], and
 *                             rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1 are sequence b's.
 *                             NULL: [batch, heads, seq_q, dim], and entry b is sequence b
 *   cu_seqlens_k [batch + 1]  the same for k, v, grad_k and grad_v, with total_k
 *   seqused_q    [batch]      how many rows of sequence b are queries, from its first on. NULL: all
 *   seqused_k    [batch]      the same for keys: say, how full a cache is
 *
 * A sequence may have no queries or no keys. Rows that are in no sequence are neither read nor
 * written. lssar_plan_varlen_sizes has the bytes of the workspace and of what is saved. Saved
 * tensors, row_stats included, hold sequence after sequence, each as a call of batch 1 with its
 * queries would. The part of sequence b begins behind the rows before it, whether used or not.
 * The arrays are in memory of the device. cu_seqlens must not decrease and must stay within total_q
 * or total_k, and no length may be above that of `sizes`. With rotary_dim no sequence may have more
 * queries than keys. On the cpu and virtual devices INVALID_ARGUMENT names the entry that breaks
 * this. A GPU reads the arrays when the call runs; if an entry breaks this, nothing is computed,
 * and no other memory is touched. Row sums and weighted sums take no sequences, and `range` is
 * ignored. A row's bits do not depend on the other sequences, unless dq_mode is atomic. */

/* New keys: a forward of sequences may bring keys and values that k and v, say caches, do not hold
 * yet. It writes them over the last rows of each sequence's k and v, and then attends to all. So
 * seqused_k, or cu_seqlens_k, counts them. k and v are then written tensors (convention 5).
 *
 *   k_new, v_new               [batch, kv_heads, seq_new, head_dim or head_dim_v], strides of their
 *                              own: seq_new of each sequence
 *   cu_seqlens_new [batch + 1] NULL, or k_new and v_new are packed: [1, kv_heads, total_new, dim],
 *                              and rows cu_seqlens_new[b] to cu_seqlens_new[b + 1] - 1 are those of
 *                              sequence b, at most seq_new
 *
 * seq_new and total_new are 0 to 2^31 - 1. With seq_new 0 there are no new keys, and the other
 * fields are ignored; it must be 0 in other passes, and in calls without sequences. Alignment is as
 * that of k and v. The array is in memory of the device. A bad entry counts as a bad length, and so
 * do more new keys than a sequence has keys. With rotary_dim k and k_new hold keys before the
 * rotation. */

/* Norms of keys: a GPU reads all keys once for their norms alone, unless blocks divide the keys of
 * a few queries. A caller may keep the norms beside k; keys are then read twice, not three times.
 * key_norms is float32, aligned to 4 bytes, contiguous, with an entry for each row of k:
 * [batch, kv_heads, seq_k], or with cu_seqlens_k [1, kv_heads, total_k]. The entry of key k_j is
 * 1 / |k_j|: 0 where |k_j| is at most 1e-12, NaN where a component is not finite or |k_j|^2 is
 * beyond float32.
 *
 * The call writes the entries of its new keys. It may take all others from here instead of from the
 * keys, so they must be what earlier calls wrote for the keys that k holds. To fill them at first,
 * bring all keys as new ones. A call with key_norms = NULL needs no entries and writes none; after
 * it those of its new keys are missing. key_norms overlaps no other tensor of the call. Results
 * have the same bits with key_norms and without. The cpu device writes the entries of new keys and
 * reads no others, because it packs all keys anyway.
 *
 * Only a forward with problem.varlen may have key_norms, with a score that takes norms of keys and
 * without rotary_dim (norms are those of turned keys then). INVALID_ARGUMENT elsewhere. */

/* Keys in ranges: the forward's two passes one by one, with errors as above, so that keys may be
 * split over GPUs (context parallelism), calls (ring attention) or streams (few queries, many
 * keys). Queries may be split too. With r for the ranges of keys, per row i of q:
 *
 *   1. row_sums of each r: R_r = sum_j A_ij and s_r, the largest score, over the keys of r that row
 *      i sees; N_i is of all keys. Into row_stats: plane 0 is R_r, plane 3 is s_r in bits. A row
 *      that sees keys, but none of r, gets 0 and -infinity; one that sees none at all, zeros.
 *   2. Merge: R = sum_r R_r, s = max_r s_r; two all-reduces of one plane each.
 *   3. weighted_sum of each r, with merged planes 0 and 3 in row_stats:
 *      partial_o = sum_j w_ij v_j, zs_r = sum_j w_ij, w_ij = W_ij / m_i^p, over the keys of r.
 *      Into row_stats: plane 1 is m_i, for every r the same; plane 2 is zs_r.
 *   4. Merge: o_i = sum_r partial_o / sum_r zs_r, and 0 where that sum is 0.
 * With a score, or p above 64, step 1 writes all planes, and step 2 merges planes 1 to 3 by maxima
 * and R = sum_r R_r 2^(e_r - e), with e_r plane 2 of r and e the largest of them (0 if R_r is 0).
 * Step 3 reads and replaces all planes, and adds the sink: docs/math.md, "Keys in parts".
 * Float32 is enough for the sums, in any order. With zs summed too, row_stats has what the
 * forward_train of the whole would save; saved_o is what rounding takes from o_i. Convention 11
 * holds if your sums and quotient keep NaN. The backward takes no range. Both passes give the same
 * bits every time. GPUs run them by portable kernels. */
LSSAR_API lssar_status lssar_execute_row_sums(const lssar_plan* plan,
                                              const lssar_call* call) LSSAR_NOEXCEPT;
LSSAR_API lssar_status lssar_execute_weighted_sum(const lssar_plan* plan,
                                                  const lssar_call* call) LSSAR_NOEXCEPT;

/* ---- Memory of the context's device: conveniences ------------------------------------------- */
/* For programs that do not manage GPU memory themselves. All of them block. Buffers are aligned to
 * 256 bytes; 0 bytes give NULL, which may be freed. Copies stay within one buffer of this context.
 * On failure *buffer is NULL. INVALID_ARGUMENT: NULL if bytes is not 0. DEVICE_ERROR. */
LSSAR_API lssar_status lssar_buffer_alloc(lssar_context* context, size_t bytes,
                                          void** buffer) LSSAR_NOEXCEPT;
LSSAR_API lssar_status lssar_buffer_free(lssar_context* context, void* buffer) LSSAR_NOEXCEPT;
LSSAR_API lssar_status lssar_buffer_write(lssar_context* context, void* buffer, const void* host,
                                          size_t bytes) LSSAR_NOEXCEPT;
LSSAR_API lssar_status lssar_buffer_read(lssar_context* context, void* host, const void* buffer,
                                         size_t bytes) LSSAR_NOEXCEPT;
/* Waits for a stream of the context's device, and reports errors of its work. DEVICE_ERROR. */
LSSAR_API lssar_status lssar_synchronize(lssar_context* context, void* stream) LSSAR_NOEXCEPT;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* LSSAR_LSSAR_H_ */
