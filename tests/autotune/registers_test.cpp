// The registers that the cost model expects a tile to need, beside what ptxas 13.0 reports.
#include "autotune/space/registers.h"

#include <gtest/gtest.h>

#include "autotune/model/cost_model.h"
#include "autotune/model/kernel_work.h"
#include "autotune/model/problem_figures.h"

namespace lssar {
namespace {

enum class Kernel { kForward, kDkdv, kDq };

// Bytes that ptxas 13.0.88 spills with these tiles, for bf16, p = 15, run-time lengths, sm_90a,
// without a mask. (At d 128 pass 2 with 160 keys needs one register too many.)
// To make one again:
//   lssar emit --target sm_90a ... --schedule '{"forward": {"block_cols": 128}}' > k.cu
//   nvcc -std=c++17 -cubin -arch=sm_90a -Xptxas -v k.cu
struct Fact {
  Kernel kernel;
  int dim, rows, cols, score_cols;
  int spilled;
};
const Fact kFacts[] = {
    {Kernel::kForward, 128, 128, 112, 160, 0},   {Kernel::kForward, 128, 128, 128, 160, 0},
    {Kernel::kForward, 128, 128, 144, 160, 0},   {Kernel::kForward, 128, 128, 96, 160, 0},
    {Kernel::kForward, 256, 128, 32, 64, 0},     {Kernel::kForward, 128, 128, 80, 160, 0},
    {Kernel::kForward, 64, 192, 64, 64, 0},      {Kernel::kForward, 64, 192, 80, 80, 0},
    {Kernel::kForward, 64, 192, 96, 96, 0},      {Kernel::kForward, 64, 128, 176, 160, 0},
    {Kernel::kForward, 128, 128, 176, 160, 112}, {Kernel::kForward, 128, 128, 128, 192, 0},
    {Kernel::kForward, 128, 192, 80, 96, 100},   {Kernel::kDkdv, 128, 128, 64, 0, 0},
    {Kernel::kDkdv, 128, 128, 80, 0, 0},         {Kernel::kDkdv, 128, 128, 96, 0, 192},
    {Kernel::kDkdv, 64, 128, 80, 0, 0},          {Kernel::kDkdv, 64, 128, 96, 0, 0},
    {Kernel::kDkdv, 64, 128, 112, 0, 0},         {Kernel::kDkdv, 64, 128, 128, 0, 0},
    {Kernel::kDq, 128, 128, 64, 0, 0},           {Kernel::kDq, 128, 128, 80, 0, 0},
    {Kernel::kDq, 128, 128, 96, 0, 0},           {Kernel::kDq, 64, 128, 96, 0, 0},
    {Kernel::kDq, 64, 128, 112, 0, 0},           {Kernel::kDq, 64, 128, 128, 0, 252},
};

struct Case {
  Problem problem;
  Schedule schedule;
  Target target = *target_from_name("sm_90a");
};

Case case_of(const Fact& fact) {
  Case c;
  c.problem.pass = fact.kernel == Kernel::kForward ? Pass::kForward : Pass::kBackward;
  c.problem.head_dim = c.problem.head_dim_v = fact.dim;
  c.schedule = default_schedule(c.problem, c.target);
  Tiling& tiling = fact.kernel == Kernel::kForward ? c.schedule.forward
                   : fact.kernel == Kernel::kDkdv  ? c.schedule.dkdv
                                                   : c.schedule.dq;
  tiling.block_rows = fact.rows;
  tiling.block_cols = fact.cols;
  if (fact.score_cols > 0) c.schedule.hopper.score_cols = fact.score_cols;
  return c;
}

TEST(Registers, TilesSpillWherePtxasSaysSo) {
  for (const Fact& fact : kFacts) {
    SCOPED_TRACE(testing::Message()
                 << int(fact.kernel) << " d " << fact.dim << " " << fact.rows << "x" << fact.cols);
    const Case c = case_of(fact);
    const Sizes sizes = {4, 16, 16, 4096, 4096};
    ProblemFigures figures(c.problem, sizes);
    const PassWork work =
        work_of(c.problem, sizes, c.schedule, c.target, *gpu_model("sm_90a"), figures);
    const size_t kernel = fact.kernel == Kernel::kDq ? 1 : 0;
    EXPECT_EQ(work.kernels[kernel].spill_factor > 1, fact.spilled > 0);
  }
}

// No default does: hopper_table_test compiles them.
TEST(Registers, DefaultsDoNotSpill) {
  for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward})
    for (const int dim : {64, 96, 128, 192, 256}) {
      Case c;
      c.problem.pass = pass;
      c.problem.head_dim = c.problem.head_dim_v = dim;
      const Sizes sizes = {4, 16, 16, 4096, 4096};
      ProblemFigures figures(c.problem, sizes);
      const PassWork work = work_of(c.problem, sizes, default_schedule(c.problem, c.target),
                                    c.target, *gpu_model("sm_90a"), figures);
      for (const KernelWork& kernel : work.kernels)
        EXPECT_EQ(kernel.spill_factor, 1) << pass_name(pass) << " d " << dim << kernel.entry;
    }
}

}  // namespace
}  // namespace lssar
