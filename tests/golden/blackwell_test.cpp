// Default kernels for sm_120, whose blocks have 99 KiB of shared memory, against the float64
// reference. The virtual device gives a block no more than its target does.
#include <gtest/gtest.h>

#include "compile/compiler.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

// The only default with 128 rows to a block.
TEST(Blackwell, TheWidestForwardIsRight) {
  if (!open_compiler(CompilerChoice::kNvrtc).ok()) GTEST_SKIP() << "NVRTC is not installed";
  Problem problem;
  problem.causal = true;
  problem.head_dim = problem.head_dim_v = 256;
  const Result<Target> target = target_from_name("sm_120");
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  ASSERT_EQ(default_schedule(problem, *target).forward.block_rows, 128);
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  for (const int64_t length : {0, 1, 15, 16, 17, 127, 128, 129, 211})
    check_against_reference(problem, make_sizes(1, 2, 1, length, length), InputKind::kGauss,
                            options, {LSSAR_COMPILER_NVRTC, "sm_120"});
}

}  // namespace
}  // namespace lssar
