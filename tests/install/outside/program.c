/* program COMPILER: one row of attention on the virtual device, with the compiler that is named
 * (auto or llvm), and the beginning of a search, which needs the worker program. Prints what it
 * did; exit code 1 on a failure. */
#include <lssar/lssar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 20, DIM = 16, COUNT = LENGTH * DIM };
static float q[COUNT], k[COUNT], v[COUNT], o[COUNT];

static void check(lssar_status status, lssar_status expected, const char* what) {
  if (status == expected) return;
  printf("%s: %s: %s\n", what, lssar_status_string(status), lssar_last_error_detail());
  exit(1);
}

static int32_t stop(const lssar_tune_progress* progress, void* user) {
  (void)progress;
  ++*(int*)user;
  return 1;
}

int main(int argc, char** argv) {
  lssar_context_options options = {0};
  lssar_problem problem = {0};
  const lssar_problem* problems[1];
  lssar_tune_options tune = {0};
  lssar_call call = {0};
  lssar_context* context = NULL;
  lssar_plan* plan = NULL;
  lssar_tensor* tensors[4];
  float* values[4];
  int i, t, num_reports = 0;

  if (argc != 2) return 2;
  options.struct_size = sizeof(options);
  options.device = LSSAR_DEVICE_VIRTUAL;
  options.compiler = strcmp(argv[1], "llvm") == 0 ? LSSAR_COMPILER_LLVM : LSSAR_COMPILER_AUTO;
  check(lssar_context_create(&options, &context), LSSAR_STATUS_OK, "context");
  problem.struct_size = sizeof(problem);
  problem.passes = LSSAR_PASS_FORWARD;
  problem.dtype = LSSAR_DTYPE_FP32;
  problem.head_dim = DIM;
  problem.causal = 1;
  problem.p = 3;
  problem.offset = 1;
  check(lssar_plan_create(context, &problem, NULL, &plan), LSSAR_STATUS_OK, "plan");
  check(lssar_plan_prepare(plan), LSSAR_STATUS_OK, "prepare");

  call.struct_size = sizeof(call);
  call.sizes.batch = call.sizes.heads = call.sizes.kv_heads = 1;
  call.sizes.seq_q = call.sizes.seq_k = LENGTH;
  tensors[0] = &call.q, tensors[1] = &call.k, tensors[2] = &call.v, tensors[3] = &call.o;
  values[0] = q, values[1] = k, values[2] = v, values[3] = o;
  for (t = 0; t < 4; ++t) {
    for (i = 0; i < COUNT; ++i) values[t][i] = (float)((i + t) * 7919 % 1013) / 506 - 1;
    tensors[t]->data = values[t];
    tensors[t]->strides[2] = DIM;
  }
  check(lssar_plan_workspace_size(plan, &call.sizes, &call.workspace_bytes), LSSAR_STATUS_OK,
        "workspace");
  check(lssar_buffer_alloc(context, call.workspace_bytes, &call.workspace), LSSAR_STATUS_OK,
        "workspace");
  check(lssar_execute_forward(plan, &call), LSSAR_STATUS_OK, "forward");
  check(lssar_synchronize(context, NULL), LSSAR_STATUS_OK, "synchronize");
  for (i = 0; i < DIM; ++i) { /* the first row sees the first key only */
    if (!(o[i] > v[i] - 1e-5f && o[i] < v[i] + 1e-5f)) {
      printf("o[%d] = %g, not %g\n", i, o[i], v[i]);
      return 1;
    }
  }

  tune.struct_size = sizeof(tune);
  tune.parallel_compiles = 1;
  tune.callback = stop;
  tune.user = &num_reports;
  problems[0] = &problem;
  check(lssar_tune(context, problems, 1, &tune), LSSAR_STATUS_CANCELLED, "tune");
  check(lssar_buffer_free(context, call.workspace), LSSAR_STATUS_OK, "free");
  lssar_plan_destroy(plan);
  lssar_context_destroy(context);
  printf("lssar %s, header %d.%d.%d\n", lssar_version_string(), LSSAR_VERSION_MAJOR,
         LSSAR_VERSION_MINOR, LSSAR_VERSION_PATCH);
  return 0;
}
