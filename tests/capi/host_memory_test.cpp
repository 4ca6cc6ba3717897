// The caller's own host memory on the virtual device, in the layouts training code has.
#include <gtest/gtest.h>

#include <algorithm>

#include "reference/numerics.h"
#include "reference/random_inputs.h"
#include "tests/capi/run_capi.h"

namespace lssar {
namespace {

constexpr int64_t kHeads = 4, kKvHeads = 2, kLength = 45, kDim = 32;
constexpr int64_t kRowHeads = kHeads + 2 * kKvHeads;  // q, k and v side by side
constexpr int64_t kRow = kRowHeads * kDim;

Problem bf16_problem() {
  Problem problem;
  problem.causal = true;
  problem.head_dim = problem.head_dim_v = kDim;
  problem.heads = kHeads;
  problem.kv_heads = kKvHeads;
  return problem;
}

// [length, heads, dim] within rows of `kRow`, from and to contiguous [heads, length, dim].
std::vector<uint16_t> slice(const std::vector<uint16_t>& packed, int64_t first, int64_t heads) {
  std::vector<uint16_t> result;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < kLength; ++i)
      for (int64_t c = 0; c < kDim; ++c)
        result.push_back(packed[i * kRow + (first + h) * kDim + c]);
  return result;
}

void place(std::vector<uint16_t>& packed, int64_t first, const std::vector<float>& values) {
  const auto heads = static_cast<int64_t>(values.size()) / (kLength * kDim);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < kLength; ++i)
      for (int64_t c = 0; c < kDim; ++c)
        packed[i * kRow + (first + h) * kDim + c] =
            encode_bf16(values[(h * kLength + i) * kDim + c]);
}

lssar_tensor in_rows(std::vector<uint16_t>& packed, int64_t first) {
  return {packed.data() + first * kDim, {0, kDim, kRow}};
}

std::vector<float> decoded(const std::vector<uint16_t>& bits) {
  std::vector<float> values;
  for (const uint16_t b : bits) values.push_back(decode_bf16(b));
  return values;
}

class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    auto context = open_context(LSSAR_DEVICE_VIRTUAL);
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    context_ = std::move(*context);
    const lssar_problem problem =
        to_c(bf16_problem(), LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD);
    lssar_plan* plan = nullptr;
    ASSERT_EQ(lssar_plan_create(context_.get(), &problem, nullptr, &plan), LSSAR_STATUS_OK);
    plan_.reset(plan);
    ASSERT_EQ(lssar_plan_prepare(plan), LSSAR_STATUS_OK) << lssar_last_error_detail();
    call_.struct_size = sizeof(call_);
    call_.sizes = to_c(sizes_);
    ASSERT_EQ(lssar_plan_saved_sizes(plan, &call_.sizes, &saved_), LSSAR_STATUS_OK);
    ASSERT_EQ(lssar_plan_workspace_size(plan, &call_.sizes, &call_.workspace_bytes),
              LSSAR_STATUS_OK);
    // operator new aligns to 16 bytes, which is all that is asked for.
    saved_o_.resize(saved_.o / 4 + 1);
    saved_stats_.resize(saved_.stats / 4);
    saved_x_.resize(saved_.x / 4 + 1);
    workspace_.resize(call_.workspace_bytes / 4);
    call_.saved_o = saved_o_.data();
    call_.saved_stats = saved_stats_.data();
    call_.saved_x = saved_x_.data();
    call_.workspace = workspace_.data();
  }

  const Sizes sizes_{1, kHeads, kKvHeads, kLength, kLength};
  ContextPtr context_;
  PlanPtr plan_;
  lssar_saved_sizes saved_ = {};
  std::vector<float> saved_o_, saved_stats_, saved_x_, workspace_;
  lssar_call call_ = {};
};

TEST_F(HostMemory, PackedTensorsGiveTheBitsOfContiguousOnes) {
  const RandomInputs random = random_inputs(bf16_problem(), sizes_, InputKind::kGauss, 11);
  const auto expected = run_capi(context_.get(), bf16_problem(), sizes_,
                                 {random.q, random.k, random.v, random.grad_o});
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();

  // The hulls of packed gradients overlap, as those of the inputs do; no elements do.
  std::vector<uint16_t> qkv(kLength * kRow), grad_qkv(kLength * kRow, 0xFFFF);
  std::vector<uint16_t> o(kHeads * kLength * kDim, 0xFFFF), grad_o(kHeads * kLength * kDim);
  place(qkv, 0, random.q);
  place(qkv, kHeads, random.k);
  place(qkv, kHeads + kKvHeads, random.v);
  for (size_t i = 0; i < grad_o.size(); ++i) grad_o[i] = encode_bf16(random.grad_o[i]);
  call_.q = in_rows(qkv, 0);
  call_.k = in_rows(qkv, kHeads);
  call_.v = in_rows(qkv, kHeads + kKvHeads);
  call_.o = {o.data(), {0, kLength * kDim, kDim}};
  call_.grad_o = {grad_o.data(), {0, kLength * kDim, kDim}};
  call_.grad_q = in_rows(grad_qkv, 0);
  call_.grad_k = in_rows(grad_qkv, kHeads);
  call_.grad_v = in_rows(grad_qkv, kHeads + kKvHeads);
  ASSERT_EQ(lssar_execute_forward_train(plan_.get(), &call_), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  ASSERT_EQ(lssar_execute_backward(plan_.get(), &call_), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  EXPECT_EQ(decoded(o), expected->o);
  EXPECT_EQ(decoded(slice(grad_qkv, 0, kHeads)), expected->grad_q);
  EXPECT_EQ(decoded(slice(grad_qkv, kHeads, kKvHeads)), expected->grad_k);
  EXPECT_EQ(decoded(slice(grad_qkv, kHeads + kKvHeads, kKvHeads)), expected->grad_v);
}

TEST_F(HostMemory, BroadcastKeysAndValuesGiveTheBitsOfRepeatedOnes) {
  const RandomInputs random = random_inputs(bf16_problem(), sizes_, InputKind::kGauss, 12);
  CapiInputs repeated{random.q, random.k, random.v, {}};
  const int64_t one_head = kLength * kDim;
  std::copy_n(repeated.k.begin(), one_head, repeated.k.begin() + one_head);
  std::copy_n(repeated.v.begin(), one_head, repeated.v.begin() + one_head);
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD_TRAIN;
  const auto expected = run_capi(context_.get(), bf16_problem(), sizes_, repeated, options);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();

  std::vector<uint16_t> q, k, v, o(kHeads * one_head, 0xFFFF);
  for (const float x : random.q) q.push_back(encode_bf16(x));
  for (int64_t i = 0; i < one_head; ++i) {
    k.push_back(encode_bf16(random.k[i]));
    v.push_back(encode_bf16(random.v[i]));
  }
  call_.q = {q.data(), {0, one_head, kDim}};
  call_.k = {k.data(), {0, 0, kDim}};
  call_.v = {v.data(), {0, 0, kDim}};
  call_.o = {o.data(), {0, one_head, kDim}};
  ASSERT_EQ(lssar_execute_forward_train(plan_.get(), &call_), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  EXPECT_EQ(decoded(o), expected->o);
}

}  // namespace
}  // namespace lssar
