/* The C API from a C99 program: layout, versions, texts, and a context. Exit code 1 on a failure.
 */
#include <stdio.h>
#include <string.h>

#include "tests/capi/layout.h"

int check_layout_cxx11(void);

static int failures = 0;

static void expect(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "failed: %s (%s)\n", what, lssar_last_error_detail());
  ++failures;
}

static void check_enumerators(void) {
  expect(LSSAR_STATUS_OK == 0 && LSSAR_STATUS_INVALID_ARGUMENT == 1 &&
             LSSAR_STATUS_UNSUPPORTED == 2 && LSSAR_STATUS_MISSING == 3 &&
             LSSAR_STATUS_COMPILE_ERROR == 4 && LSSAR_STATUS_DEVICE_ERROR == 5 &&
             LSSAR_STATUS_IO_ERROR == 6 && LSSAR_STATUS_NOT_PREPARED == 7 &&
             LSSAR_STATUS_OUT_OF_MEMORY == 8 && LSSAR_STATUS_INTERNAL == 9 &&
             LSSAR_STATUS_CANCELLED == 10,
         "status codes have their fixed values");
  expect(LSSAR_DTYPE_FP16 == 0 && LSSAR_DTYPE_BF16 == 1 && LSSAR_DTYPE_FP32 == 2,
         "dtypes have their fixed values");
  expect(LSSAR_PASS_FORWARD == 1 && LSSAR_PASS_FORWARD_TRAIN == 2 && LSSAR_PASS_BACKWARD == 4 &&
             LSSAR_PASS_ROW_SUMS == 8 && LSSAR_PASS_WEIGHTED_SUM == 16,
         "passes have their fixed values");
  expect(LSSAR_DEVICE_AUTO == 0 && LSSAR_DEVICE_CUDA == 1 && LSSAR_DEVICE_VIRTUAL == 2 &&
             LSSAR_DEVICE_RECORD == 3,
         "devices have their fixed values");
  expect(LSSAR_COMPILER_AUTO == 0 && LSSAR_COMPILER_NVRTC == 1 && LSSAR_COMPILER_LLVM == 2,
         "compilers have their fixed values");
  expect(LSSAR_TUNING_DEFAULT == 0 && LSSAR_TUNING_BUILT_IN == 1 && LSSAR_TUNING_TUNE == 2,
         "tuning policies have their fixed values");
  expect(LSSAR_BUDGET_NORMAL == 0 && LSSAR_BUDGET_QUICK == 1 && LSSAR_BUDGET_FULL == 2,
         "budgets have their fixed values");
  expect(LSSAR_DETERMINISM_REPEATABLE == 0 && LSSAR_DETERMINISM_ANY == 1,
         "kinds of determinism have their fixed values");
  expect(LSSAR_ORIGIN_GIVEN == 0 && LSSAR_ORIGIN_EXACT == 1 && LSSAR_ORIGIN_NEAREST == 2 &&
             LSSAR_ORIGIN_ARCHITECTURE == 3 && LSSAR_ORIGIN_PREDICTED == 4 &&
             LSSAR_ORIGIN_DEFAULT == 5,
         "origins of schedules have their fixed values");
}

static void check_version(void) {
  expect(lssar_version() == LSSAR_VERSION, "the library is of this header's version");
  expect(lssar_abi_version() == LSSAR_ABI_VERSION, "the library is of this header's ABI");
  expect(strcmp(lssar_version_string(), "1.0.0") == 0, "version string");
  expect(strncmp(lssar_build_info(), "lssar 1.0.0", 11) == 0, "build info");
}

static void check_context(void) {
  lssar_context_options options;
  lssar_context_info info;
  lssar_context* context = NULL;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.device = LSSAR_DEVICE_VIRTUAL;
  options.target = "sm_90";
  options.cache_directory = "none";
  expect(lssar_context_create(&options, &context) == LSSAR_STATUS_OK, "create a context");
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  expect(lssar_context_get_info(context, &info) == LSSAR_STATUS_OK, "get its info");
  expect(info.device == LSSAR_DEVICE_VIRTUAL, "the device is the virtual one");
  expect(strcmp(info.target, "sm_90") == 0, "the target is the one asked for");
  expect(info.cache_misses == 0, "nothing was compiled");
  lssar_context_destroy(context);
}

static void check_buffers(void) {
  lssar_context_options options;
  lssar_context* context = NULL;
  void* buffer = NULL;
  char sent[1000], received[1000];
  size_t i;
  for (i = 0; i < sizeof(sent); ++i) sent[i] = (char)(i * 7);
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.device = LSSAR_DEVICE_VIRTUAL;
  options.cache_directory = "none";
  expect(lssar_context_create(&options, &context) == LSSAR_STATUS_OK, "create a context");
  expect(lssar_buffer_alloc(context, sizeof(sent), &buffer) == LSSAR_STATUS_OK, "allocate");
  expect((uintptr_t)buffer % 256 == 0, "buffers are aligned to 256 bytes");
  expect(lssar_buffer_write(context, buffer, sent, sizeof(sent)) == LSSAR_STATUS_OK, "write");
  expect(lssar_buffer_read(context, received, buffer, sizeof(sent)) == LSSAR_STATUS_OK, "read");
  expect(memcmp(sent, received, sizeof(sent)) == 0, "what was written is read");
  expect(lssar_buffer_free(context, buffer) == LSSAR_STATUS_OK, "free");
  lssar_context_destroy(context);
}

int main(void) {
  failures += check_layout("C99");
  failures += check_layout_cxx11();
  check_enumerators();
  check_version();
  check_context();
  check_buffers();
  if (failures != 0) fprintf(stderr, "%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
