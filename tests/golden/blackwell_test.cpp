// Default kernels for sm_120 and sm_86, whose blocks have 99 KiB of shared memory, against the
// float64 reference. The virtual device gives a block no more than its target does.
#include <gtest/gtest.h>

#include <initializer_list>

#include "compile/compiler.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

void expect_wide_forward(const char* name, int dim, std::initializer_list<int64_t> lengths) {
  if (!open_compiler(CompilerChoice::kNvrtc).ok()) GTEST_SKIP() << "NVRTC is not installed";
  Problem problem;
  problem.causal = true;
  problem.head_dim = problem.head_dim_v = dim;
  const Result<Target> target = target_from_name(name);
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  ASSERT_EQ(default_schedule(problem, *target).forward.block_rows, 128);
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  for (const int64_t length : lengths)
    check_against_reference(problem, make_sizes(1, 2, 1, length, length), InputKind::kGauss,
                            options, {LSSAR_COMPILER_NVRTC, name});
}

// The only defaults with 128 rows to a block.
TEST(Blackwell, TheWidestForwardIsRight) {
  expect_wide_forward("sm_120", 256, {0, 1, 15, 16, 17, 127, 128, 129, 211});
}

TEST(Ampere, ForwardsOf128RowsAreRight) {
  expect_wide_forward("sm_86", 96, {0, 1, 64, 65, 129, 211});
  expect_wide_forward("sm_86", 256, {1, 127, 130});
}

}  // namespace
}  // namespace lssar
