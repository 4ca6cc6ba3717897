// Results of a CPU kernel against the float64 reference, by the error rule.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "reference/error_rule.h"
#include "reference/random_inputs.h"
#include "tests/cpu/cpu_kernel.h"

#define LSSAR_NEEDS_CPU_KERNELS() \
  if (std::string why; !can_run_cpu_kernels(&why)) GTEST_SKIP() << why

namespace lssar {

inline std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Every kind but kGauss, which other tests have.
// Bit by bit, so that 0 and -0 differ, and so do NaNs with other bits.
inline size_t num_different(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  size_t count = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    count += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
  return count;
}

inline constexpr InputKind kSpecialKinds[] = {
    InputKind::kPeaky, InputKind::kClustered, InputKind::kOpposed,
    InputKind::kTies,  InputKind::kNearTies,  InputKind::kZeros,
    InputKind::kHuge,  InputKind::kLocal,     InputKind::kShifted};

// One of the targets. Where a test has many kernels, each is compiled for one target in turn.
inline std::vector<std::string> target_in_turn(size_t turn) {
  const std::vector<std::string> all = cpu_target_names();
  return {all[turn % all.size()]};
}

// The turn of a power: in fp32 another one than in 16 bits.
inline size_t turn_of_power(DType dtype, int p, double offset) {
  return static_cast<size_t>(p % 2 + (dtype == DType::kFp32 ? 1 : 0) + (offset == 1.0 ? 0 : 1));
}

inline Sizes sizes_with(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq_q,
                        int64_t seq_k) {
  Sizes sizes;
  sizes.batch = batch;
  sizes.heads = heads;
  sizes.kv_heads = kv_heads;
  sizes.seq_q = seq_q;
  sizes.seq_k = seq_k;
  return sizes;
}

inline Problem forward_problem(DType dtype, int dim, int dim_v, int p, bool causal) {
  Problem problem;
  problem.dtype = dtype;
  problem.head_dim = dim;
  problem.head_dim_v = dim_v;
  problem.p = p;
  problem.causal = causal;
  problem.alignment = dtype_bytes(dtype);
  return problem;
}

inline void expect_o(const Problem& problem, const ReferenceOutputs& expected,
                     const Result<CpuOutputs>& outputs) {
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const TensorError error =
      compare(expected.o, outputs->o, allowed_error(problem, OutputTensor::kO, expected));
  EXPECT_TRUE(error.is_right()) << to_string(problem) << ": " << error.to_string();
}

// Random inputs of `kind`, the source of each of the targets.
inline void check_forward(const Problem& problem, const Sizes& sizes, InputKind kind,
                          const CpuRun& run = {}, uint64_t seed = 20261124,
                          const std::vector<std::string>& targets = cpu_target_names()) {
  const RandomInputs inputs = random_inputs(problem, sizes, kind, seed);
  const auto expected = reference_attention(problem, sizes,
                                            {widened(inputs.q),
                                             widened(inputs.k),
                                             widened(inputs.v),
                                             {},
                                             widened(inputs.sink),
                                             {},
                                             {},
                                             widened(inputs.alibi_slopes)});
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  for (const std::string& target : targets) {
    SCOPED_TRACE(target + " " + input_kind_name(kind) + " " + std::to_string(sizes.seq_q) + "x" +
                 std::to_string(sizes.seq_k));
    expect_o(problem, *expected,
             run_cpu_kernel(
                 target, problem, sizes,
                 {inputs.q, inputs.k, inputs.v, {}, {}, inputs.sink, inputs.alibi_slopes}, run));
  }
}

inline void expect_gradients(const Problem& problem, const ReferenceOutputs& expected,
                             const Result<CpuOutputs>& outputs) {
  expect_o(problem, expected, outputs);
  if (!outputs.ok()) return;
  const auto expect = [&](OutputTensor tensor, const std::vector<float>& actual) {
    const TensorError error = compare(reference_values(expected, tensor), actual,
                                      allowed_error(problem, tensor, expected));
    EXPECT_TRUE(error.is_right()) << to_string(problem) << ": " << tensor_name(tensor) << ": "
                                  << error.to_string();
  };
  expect(OutputTensor::kDq, outputs->dq);
  expect(OutputTensor::kDk, outputs->dk);
  expect(OutputTensor::kDv, outputs->dv);
}

// The same for the forward for training and the backward.
inline void check_training(const Problem& problem, const Sizes& sizes, InputKind kind,
                           const CpuRun& run = {}, uint64_t seed = 20261125,
                           const std::vector<std::string>& targets = cpu_target_names()) {
  const RandomInputs inputs = random_inputs(problem, sizes, kind, seed);
  const auto expected = reference_attention(problem, sizes,
                                            {widened(inputs.q),
                                             widened(inputs.k),
                                             widened(inputs.v),
                                             widened(inputs.grad_o),
                                             widened(inputs.sink),
                                             {},
                                             {},
                                             widened(inputs.alibi_slopes)});
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  for (const std::string& target : targets) {
    SCOPED_TRACE(target + " " + input_kind_name(kind) + " " + std::to_string(sizes.seq_q) + "x" +
                 std::to_string(sizes.seq_k));
    expect_gradients(
        problem, *expected,
        run_cpu_training(
            target, problem, sizes,
            {inputs.q, inputs.k, inputs.v, inputs.grad_o, {}, inputs.sink, inputs.alibi_slopes},
            run));
  }
}

}  // namespace lssar
