// Calls of sequences with lengths of their own: each is right, and nothing outside is touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/capi/varlen_call.h"

namespace lssar {
namespace {

using testing::HasSubstr;

class Varlen : public testing::Test {
 protected:
  void SetUp() override {
    LSSAR_NEEDS_CPU_KERNELS();
    auto opened = open_context(LSSAR_DEVICE_CPU);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    context_ = std::move(*opened);
  }
  ContextPtr context_;
};

TEST_F(Varlen, PackedSequencesAreRight) {
  for (const DType dtype : {DType::kFp32, DType::kBf16})
    for (const bool causal : {false, true}) check(context_.get(), packed_case(dtype, causal));
}

TEST_F(Varlen, RowsThatAreNotUsedAreNotTouched) {
  VarlenCase c = packed_case(DType::kFp32, true);
  c.q.rows = {9, 3, 130, 40, 1, 12, 2};
  c.k.rows = {7, 8, 140, 3, 97, 64, 0};
  check(context_.get(), c);
  c.q.is_packed = c.k.is_packed = false;
  check(context_.get(), c);
}

TEST_F(Varlen, FewQueriesReadACacheOfKeys) {
  VarlenCase c = packed_case(DType::kBf16, true);
  c.q = {{1, 1, 2, 1}, false, {2, 2, 2, 2}};
  c.k = {{1, 200, 77, 0}, false, {200, 200, 200, 200}};
  check(context_.get(), c);
}

TEST_F(Varlen, TheGradientOfASinkIsTheSumOverSequences) {
  VarlenCase c = packed_case(DType::kFp32, true);
  c.problem.p = 0;
  c.problem.score = *parse_score("softmax,sink=per_head");
  check(context_.get(), c);
}

TEST_F(Varlen, RotaryPositionsBeginAnewInEachSequence) {
  check(context_.get(), rotary_case(DType::kFp32, true));
  // Rows of no sequence between and behind, and then a padded batch.
  VarlenCase c = rotary_case(DType::kBf16, false);
  c.problem.rotary_interleaved = true;
  c.problem.window_left = 20;
  c.q.rows = {9, 3, 67, 4, 1, 13, 2};
  c.k.rows = {7, 8, 70, 3, 97, 64, 1};
  check(context_.get(), c);
  c.q.is_packed = c.k.is_packed = false;
  check(context_.get(), c);
}

TEST_F(Varlen, FewRotaryQueriesReadACacheOfKeys) {
  VarlenCase c = rotary_case(DType::kFp32, true);
  c.q = {{1, 1, 2, 0}, true};
  c.k = {{1, 200, 77, 0}, false, {200, 200, 200, 200}};
  check(context_.get(), c);
}

// Each sequence has the bits of a call of its own.
TEST_F(Varlen, RotaryBitsAreThoseOfCallsOfOneSequence) {
  const VarlenCase c = rotary_case(DType::kFp32, true);
  const PlanPtr plan = make_plan(context_.get(), c);
  VarlenCall memory(c);
  const lssar_call call = memory.make(plan.get());
  ASSERT_EQ(lssar_execute_forward_train(plan.get(), &call), LSSAR_STATUS_OK);
  ASSERT_EQ(lssar_execute_backward(plan.get(), &call), LSSAR_STATUS_OK);
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  for (const int64_t b : {0, 2, 4, 5}) {
    const RandomInputs& in = memory.inputs[b];
    const auto alone =
        run_capi(context_.get(), c.problem, memory.sizes_of(b),
                 {in.q, in.k, in.v, in.grad_o, {}, in.rotary_cos, in.rotary_sin}, options);
    ASSERT_TRUE(alone.ok()) << alone.status().to_string();
    EXPECT_EQ(memory.o.take(b), alone->o_train) << b;
    EXPECT_EQ(memory.grad_q.take(b), alone->grad_q) << b;
    EXPECT_EQ(memory.grad_k.take(b), alone->grad_k) << b;
    EXPECT_EQ(memory.grad_v.take(b), alone->grad_v) << b;
  }
}

TEST_F(Varlen, SequencesWithoutPositionsAreNamed) {
  const VarlenCase c = rotary_case(DType::kFp32, true);
  const PlanPtr plan = make_plan(context_.get(), c);
  VarlenCall memory(c);
  const lssar_call good = memory.make(plan.get());
  const auto expect = [&](const char* what, const auto& change) {
    lssar_call call = good;
    change(call);
    EXPECT_EQ(lssar_execute_forward(plan.get(), &call), LSSAR_STATUS_INVALID_ARGUMENT) << what;
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr(what));
  };
  const Lengths fewer = {7, 4, 66, 0, 97, 12, 1};
  expect("sequence 2 has 67 queries and 66 keys: allowed with rotary_dim are 0 to 66 queries",
         [&](lssar_call& call) { call.seqused_k = fewer.data(); });
  expect("rotary_positions = 96: allowed are seq_k = 97 to 2147483647",
         [](lssar_call& call) { call.rotary_positions = 96; });
  expect("rotary_sin = NULL: it has 1 x 1 x 97 x 24 elements",
         [](lssar_call& call) { call.rotary_sin = nullptr; });
  EXPECT_TRUE(memory.o.is_poison());
}

TEST_F(Varlen, NoSequences) {
  VarlenCase c = packed_case(DType::kFp32, true);
  c.q.lengths = c.k.lengths = {};
  check(context_.get(), c);
}

// A row has the same bits alone and among others, and for any number of threads.
TEST_F(Varlen, BitsDependOnNoOtherSequenceAndNoThread) {
  const VarlenCase together = packed_case(DType::kFp32, true);
  const PlanPtr plan = make_plan(context_.get(), together);
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    VarlenCase c = together;
    c.num_threads = threads;
    VarlenCall memory(c);
    const lssar_call call = memory.make(plan.get());
    ASSERT_EQ(lssar_execute_forward_train(plan.get(), &call), LSSAR_STATUS_OK);
    ASSERT_EQ(lssar_execute_backward(plan.get(), &call), LSSAR_STATUS_OK);
    std::vector<float> all;
    for (int64_t b = 0; b < c.q.count(); ++b)
      for (Rows* rows : {&memory.o, &memory.grad_q, &memory.grad_k, &memory.grad_v}) {
        const std::vector<float> values = rows->take(b);
        all.insert(all.end(), values.begin(), values.end());
      }
    if (first.empty()) first = all;
    EXPECT_EQ(std::memcmp(first.data(), all.data(), all.size() * sizeof(float)), 0) << threads;
  }
  // Sequence 2 alone, as a call without varlen.
  VarlenCall memory(together);
  const lssar_call call = memory.make(plan.get());
  ASSERT_EQ(lssar_execute_forward(plan.get(), &call), LSSAR_STATUS_OK);
  const RandomInputs& in = memory.inputs[2];
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  const auto alone = run_capi(context_.get(), together.problem, memory.sizes_of(2),
                              {in.q, in.k, in.v, {}}, options);
  ASSERT_TRUE(alone.ok()) << alone.status().to_string();
  EXPECT_EQ(memory.o.take(2), alone->o);
}

TEST_F(Varlen, BadLengthsAreNamed) {
  const VarlenCase c = packed_case(DType::kFp32, true);
  const PlanPtr plan = make_plan(context_.get(), c);
  VarlenCall memory(c);
  const lssar_call good = memory.make(plan.get());
  const auto expect = [&](const char* what, const auto& change) {
    lssar_call call = good;
    change(call);
    EXPECT_EQ(lssar_execute_forward(plan.get(), &call), LSSAR_STATUS_INVALID_ARGUMENT) << what;
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr(what));
  };
  const Lengths falling = {0, 5, 3, 135, 168, 169, 181, 181};
  expect("cu_seqlens_q[2] = 3: allowed are 5 to 135",
         [&](lssar_call& call) { call.cu_seqlens_q = falling.data(); });
  const Lengths negative = {-1, 5, 5, 135, 168, 169, 181, 181};
  expect("cu_seqlens_q[0] = -1: allowed are 0 to 181",
         [&](lssar_call& call) { call.cu_seqlens_q = negative.data(); });
  const Lengths beyond = {0, 7, 11, 141, 141, 238, 243, 244};
  expect("cu_seqlens_k[7] = 244: allowed are 243 to 243",
         [&](lssar_call& call) { call.cu_seqlens_k = beyond.data(); });
  expect("cu_seqlens_q[3] = 135: allowed are 5 to 134",
         [&](lssar_call& call) { call.sizes.seq_q = 129; });
  const Lengths many = {5, 0, 131, 33, 1, 12, 0};
  expect("seqused_q[2] = 131: allowed are 0 to 130",
         [&](lssar_call& call) { call.seqused_q = many.data(); });
  const Lengths less = {7, 4, 130, 0, 97, -5, 0};
  expect("seqused_k[5] = -5", [&](lssar_call& call) { call.seqused_k = less.data(); });
  // The array itself is wrong, so its numbers say nothing.
  const auto misaligned = [](const Lengths& lengths) {
    return reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(lengths.data()) + 1);
  };
  expect("cu_seqlens_k.data = ", [&](lssar_call& call) { call.cu_seqlens_k = misaligned(beyond); });
  expect("seqused_q.data = ", [&](lssar_call& call) { call.seqused_q = misaligned(many); });
  expect("total_q = -1", [&](lssar_call& call) { call.total_q = -1; });
  expect("workspace_bytes = 64", [&](lssar_call& call) { call.workspace_bytes = 64; });
  expect("varlen needs at least one",
         [&](lssar_call& call) { call.cu_seqlens_q = call.cu_seqlens_k = nullptr; });
  EXPECT_TRUE(memory.o.is_poison());
}

TEST_F(Varlen, BadProblemsAreNamed) {
  const VarlenCase c = packed_case(DType::kFp32, true);
  const auto expect = [&](lssar_status status, const char* what, const auto& change) {
    lssar_problem problem = varlen_problem(c);
    change(problem);
    lssar_plan* plan = nullptr;
    EXPECT_EQ(lssar_plan_create(context_.get(), &problem, nullptr, &plan), status) << what;
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr(what));
  };
  expect(LSSAR_STATUS_INVALID_ARGUMENT, "varlen = 2: allowed are 0 and 1",
         [](lssar_problem& problem) { problem.varlen = 2; });
  expect(LSSAR_STATUS_INVALID_ARGUMENT, "seq_q = -1: allowed are whole numbers from 0",
         [](lssar_problem& problem) { problem.seq_q = -1; });
  expect(LSSAR_STATUS_UNSUPPORTED, "row-sums",
         [](lssar_problem& problem) { problem.passes = LSSAR_PASS_ROW_SUMS; });
}

// Stated lengths bound those of calls, and may be longer.
TEST_F(Varlen, NoCallHasMoreThanTheProblemStates) {
  VarlenCase c = packed_case(DType::kFp32, true);
  c.states_longest = true;
  check(context_.get(), c);
  const PlanPtr plan = make_plan(context_.get(), c);
  VarlenCall memory(c);
  const lssar_call call = memory.make(plan.get());
  const auto expect = [&](const char* what, const auto& change) {
    lssar_call bad = call;
    change(bad.sizes);
    EXPECT_EQ(lssar_execute_forward(plan.get(), &bad), LSSAR_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr(what));
    size_t bytes = 0;
    EXPECT_EQ(lssar_plan_varlen_sizes(plan.get(), &bad.sizes, 200, 300, &bytes, nullptr),
              LSSAR_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr(what));
  };
  expect("sizes.seq_q = 131: allowed are 0 to 130, because the problem has varlen and seq_q = 130",
         [](lssar_sizes& sizes) { sizes.seq_q = 131; });
  expect("sizes.seq_k = 500: allowed are 0 to 130, because the problem has varlen and seq_k = 130",
         [](lssar_sizes& sizes) { sizes.seq_k = 500; });
  EXPECT_TRUE(memory.o.is_poison());
}

TEST_F(Varlen, SizesThatOverflowAreErrors) {
  const PlanPtr plan = make_plan(context_.get(), packed_case(DType::kFp32, true));
  const lssar_sizes sizes = {1, 1 << 30, 1 << 30, 0, 10};
  size_t bytes = 0;
  EXPECT_EQ(lssar_plan_varlen_sizes(plan.get(), &sizes, 0, 2147483647, &bytes, nullptr),
            LSSAR_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(lssar_last_error_detail(), HasSubstr("at most 2^63 - 1"));
}

TEST_F(Varlen, OnlyPlansOfVarlenTakeSequences) {
  const VarlenCase c = packed_case(DType::kFp32, true);
  lssar_problem problem = varlen_problem(c);
  problem.varlen = 0;
  lssar_plan* made = nullptr;
  ASSERT_EQ(lssar_plan_create(context_.get(), &problem, nullptr, &made), LSSAR_STATUS_OK);
  const PlanPtr plan(made);
  ASSERT_EQ(lssar_plan_prepare(made), LSSAR_STATUS_OK);
  VarlenCall memory(c);
  lssar_call call = memory.make(make_plan(context_.get(), c).get());
  EXPECT_EQ(lssar_execute_forward(made, &call), LSSAR_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(lssar_last_error_detail(), HasSubstr("made without varlen"));
}

}  // namespace
}  // namespace lssar
