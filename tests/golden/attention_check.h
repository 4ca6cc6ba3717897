// Runs a problem through the C API and compares its results with the float64 reference or with a
// golden case. golden_test, sweep_test and rules_test share it.
//
// One context per (compiler, target, schedule seed) in a process. With LSSAR_TEST_SEED_TURN the
// checks of a test take the seeds 0 to 9 in turn; the test's name and this number choose the first.
// Threads: only the main thread of a test may call it.
#pragma once

#include <string>

#include "reference/error_rule.h"
#include "reference/random_inputs.h"
#include "reference/reference.h"
#include "tests/capi/run_capi.h"
#include "tests/golden/golden_case.h"

namespace lssar {

// The target of tests that name none: LSSAR_TEST_TARGET, or else sm_80.
std::string test_target();

// A schedule for what does not depend on tiles: Hopper's kernels take half as long to compile with
// small tiles as with the default ones. Other targets have the default schedule ("").
std::string small_tiles(const std::string& target = test_target());

// Where the kernels of a test run. By default any compiler and test_target() on the virtual device;
// LSSAR_TEST_DEVICE=cuda uses a GPU with its own target, and =cpu the cpu device.
struct CheckDevice {
  lssar_compiler compiler = LSSAR_COMPILER_AUTO;
  std::string target = test_target();
  bool is_cpu = false;  // the cpu device, for the machine's own target
};

// The kind of device that it means.
lssar_device device_kind(const CheckDevice& device = {});

// Fails the test if the context cannot be opened.
lssar_context* shared_context(const CheckDevice& device = {});

// Runs all passes of a training step on random inputs of `kind`, and compares every output with the
// reference by the error rule. An overflow of the dtype is right. A test failure names the tensor
// and the error.
void check_against_reference(const Problem& problem, const Sizes& sizes, InputKind kind,
                             const CapiOptions& options = {}, const CheckDevice& device = {},
                             uint64_t seed = 20260731);

// Compares one output with the reference, likewise.
void expect_close(const Problem& problem, OutputTensor tensor, const ReferenceOutputs& expected,
                  const std::vector<float>& actual);

void check_golden_case(const GoldenCase& golden, const CapiOptions& options,
                       const CheckDevice& device);

Sizes make_sizes(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq_q, int64_t seq_k);

}  // namespace lssar
