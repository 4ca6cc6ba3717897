// Packed keys of the cpu device take a bounded part of the workspace: heads take turns for it.
#include <gtest/gtest.h>

#include <cmath>

#include "score/score_text.h"
#include "tests/capi/run_capi.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

constexpr int kDim = 24, kDimV = 8;
constexpr int64_t kKeys = 1200, kQueries = 5;

// 108 KiB of panels for a head in the forward, and 154 KiB in the backward, of 32 MiB.
Problem wide_problem() {
  Problem problem = forward_problem(DType::kFp32, kDim, kDimV, 0, false);
  problem.score = *parse_score("softmax,sink=per_head");
  problem.heads = problem.kv_heads = 4;
  return problem;
}

Result<CapiOutputs> run(lssar_context* context, const Sizes& sizes, const CapiInputs& inputs) {
  return run_capi(context, wide_problem(), sizes, inputs);
}

// The same for a part of the batch.
CapiInputs part_of(const CapiInputs& all, int64_t first, int64_t count) {
  const auto cut = [&](const std::vector<float>& x, int64_t per_batch) {
    return std::vector<float>(x.begin() + first * per_batch,
                              x.begin() + (first + count) * per_batch);
  };
  return {cut(all.q, 4 * kQueries * kDim), cut(all.k, 4 * kKeys * kDim),
          cut(all.v, 4 * kKeys * kDimV), cut(all.grad_o, 4 * kQueries * kDimV), all.sink};
}

void append(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// 320 heads take two turns, and 160 take one. The gradient of sinks is summed over both.
TEST(CapiCpuPanels, HeadsThatTakeTurnsHaveTheSameBits) {
  LSSAR_NEEDS_CPU_KERNELS();
  const auto context = open_context(LSSAR_DEVICE_CPU);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const RandomInputs random =
      random_inputs(wide_problem(), sizes_with(80, 4, 4, kQueries, kKeys), InputKind::kGauss, 5);
  const CapiInputs inputs{random.q, random.k, random.v, random.grad_o, random.sink};
  const auto all = run(context->get(), sizes_with(80, 4, 4, kQueries, kKeys), inputs);
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  CapiOutputs halves;
  halves.grad_sink.assign(4, 0.0f);
  for (const int64_t first : {0, 40}) {
    const auto half =
        run(context->get(), sizes_with(40, 4, 4, kQueries, kKeys), part_of(inputs, first, 40));
    ASSERT_TRUE(half.ok()) << half.status().to_string();
    append(halves.o, half->o);
    append(halves.grad_q, half->grad_q);
    append(halves.grad_k, half->grad_k);
    append(halves.grad_v, half->grad_v);
    for (size_t head = 0; head < 4; ++head) halves.grad_sink[head] += half->grad_sink[head];
  }
  EXPECT_EQ(all->o, halves.o);
  EXPECT_EQ(all->grad_q, halves.grad_q);
  EXPECT_EQ(all->grad_k, halves.grad_k);
  EXPECT_EQ(all->grad_v, halves.grad_v);
  for (size_t head = 0; head < 4; ++head)
    EXPECT_TRUE(std::abs(all->grad_sink[head] - halves.grad_sink[head]) <=
                1e-5f * (1 + std::abs(halves.grad_sink[head])));
}

// The limits: 64 MB, and for the backward also a float32 copy of dq, dk and dv.
TEST(CapiCpuPanels, TheWorkspaceOfManyKeysIsBounded) {
  LSSAR_NEEDS_CPU_KERNELS();
  const auto context = open_context(LSSAR_DEVICE_CPU);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  for (const int dim : {64, 128}) {
    const Problem problem = forward_problem(DType::kFp32, dim, dim, 15, true);
    const lssar_sizes sizes = to_c(sizes_with(1, 8, 8, 16384, 16384));
    const auto bytes = [&](lssar_pass pass) {
      const lssar_problem c = to_c(problem, pass);
      lssar_plan* plan = nullptr;
      EXPECT_EQ(lssar_plan_create(context->get(), &c, nullptr, &plan), LSSAR_STATUS_OK);
      const PlanPtr owner(plan);
      size_t workspace = 0;
      EXPECT_EQ(lssar_plan_workspace_size(plan, &sizes, &workspace), LSSAR_STATUS_OK);
      return static_cast<double>(workspace);
    };
    const double copy = 4.0 * 3 * 8 * 16384 * dim;
    EXPECT_LE(bytes(LSSAR_PASS_FORWARD), 34e6) << dim;
    EXPECT_LE(bytes(LSSAR_PASS_FORWARD_TRAIN), 34e6) << dim;
    EXPECT_LE(bytes(LSSAR_PASS_BACKWARD), 40e6 + copy / 3) << dim;
  }
}

}  // namespace
}  // namespace lssar
