// Runs a problem through the C API and holds its results to the float64 reference or to a golden
// case: what golden_test, sweep_test and rules_test share.
//
// One context per (compiler, target, schedule seed) in a process. With LSSAR_TEST_SEED_TURN the
// checks of a test take the seeds 0 to 9 in turn, the first by the test's name and this number.
// Threads: for the main thread of a test.
#pragma once

#include <string>

#include "reference/random_inputs.h"
#include "reference/reference.h"
#include "tests/capi/run_capi.h"
#include "tests/golden/golden_case.h"

namespace lssar {

// The target of tests that name none: LSSAR_TEST_TARGET, or else sm_80.
std::string test_target();

// Where the kernels of a test run: "auto" compiler and test_target() on the virtual device by
// default; LSSAR_TEST_DEVICE=cuda takes a GPU instead (its own target).
struct CheckDevice {
  lssar_compiler compiler = LSSAR_COMPILER_AUTO;
  std::string target = test_target();
};

// Fails the test where the context cannot be opened.
lssar_context* shared_context(const CheckDevice& device = {});

// Random inputs of `kind`, all passes of a training step, every output against the reference by the
// error rule; an overflow of the dtype is right. Adds a test failure that names the tensor and the
// error.
void check_against_reference(const Problem& problem, const Sizes& sizes, InputKind kind,
                             const CapiOptions& options = {}, const CheckDevice& device = {},
                             uint64_t seed = 20260731);

void check_golden_case(const GoldenCase& golden, const CapiOptions& options,
                       const CheckDevice& device);

Sizes make_sizes(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq_q, int64_t seq_k);

}  // namespace lssar
