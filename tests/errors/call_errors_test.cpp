// What a caller can get wrong in a call: every check of the arguments of an execute.
#include <functional>

#include "tests/errors/capi_errors.h"

namespace lssar {
namespace {

// One prepared plan for all tests; the record device launches nothing. Its kernels come from the
// tests' cache: ctest runs each test in a process of its own.
class CallErrors : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto context = open_context(LSSAR_DEVICE_RECORD);
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    context_ = context->release();
    const lssar_problem problem = valid_problem();
    ASSERT_EQ(lssar_plan_create(context_, &problem, nullptr, &plan_), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    ASSERT_EQ(lssar_plan_prepare(plan_), LSSAR_STATUS_OK) << lssar_last_error_detail();
  }
  static void TearDownTestSuite() {
    lssar_plan_destroy(plan_);
    lssar_context_destroy(context_);
  }
  void SetUp() override { ASSERT_NE(plan_, nullptr); }

  lssar_status forward() { return lssar_execute_forward(plan_, &call_); }
  lssar_status train() { return lssar_execute_forward_train(plan_, &call_); }
  lssar_status backward() { return lssar_execute_backward(plan_, &call_); }

  static lssar_context* context_;
  static lssar_plan* plan_;
  ValidCall valid_{plan_};
  lssar_call& call_ = valid_.call;
};

lssar_context* CallErrors::context_ = nullptr;
lssar_plan* CallErrors::plan_ = nullptr;

TEST_F(CallErrors, TheValidCallIsValid) {
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  EXPECT_EQ(train(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  EXPECT_EQ(backward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(CallErrors, NullPlanOrCall) {
  EXPECT_FAILS(lssar_execute_forward(nullptr, &call_), INVALID_ARGUMENT, "plan = NULL");
  EXPECT_FAILS(lssar_execute_forward_train(plan_, nullptr), INVALID_ARGUMENT, "call = NULL");
  EXPECT_FAILS(lssar_execute_backward(plan_, nullptr), INVALID_ARGUMENT, "call = NULL");
}

TEST_F(CallErrors, StructSizeNotSet) {
  call_.struct_size = 0;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "call.struct_size = 0: must be sizeof(lssar_call)");
}

TEST_F(CallErrors, OfAnOlderCallersStructOnlyItsFieldsAreRead) {
  call_.struct_size = offsetof(lssar_call, range);
  call_.row_stats = reinterpret_cast<float*>(1);  // NULL would be meant
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  call_.struct_size = sizeof(call_);
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "row_stats.data = 0x1");
}

TEST_F(CallErrors, NullTensors) {
  const auto expect_null = [&](lssar_tensor& tensor, const std::string& name,
                               const std::function<lssar_status()>& execute) {
    void* const data = tensor.data;
    tensor.data = nullptr;
    EXPECT_FAILS(execute(), INVALID_ARGUMENT, name + " = NULL: it has 1 x ");
    tensor.data = data;
  };
  expect_null(call_.q, "q", [&] { return forward(); });
  expect_null(call_.k, "k", [&] { return forward(); });
  expect_null(call_.v, "v", [&] { return forward(); });
  expect_null(call_.o, "o", [&] { return forward(); });
  expect_null(call_.o, "o", [&] { return backward(); });
  expect_null(call_.grad_o, "grad_o", [&] { return backward(); });
  expect_null(call_.grad_q, "grad_q", [&] { return backward(); });
  expect_null(call_.grad_k, "grad_k", [&] { return backward(); });
  expect_null(call_.grad_v, "grad_v", [&] { return backward(); });
}

TEST_F(CallErrors, NullSavedTensors) {
  const lssar_call valid = call_;
  call_.saved_o = nullptr;
  EXPECT_FAILS(train(), INVALID_ARGUMENT, "saved_o = NULL");
  EXPECT_FAILS(backward(), INVALID_ARGUMENT, "saved_o = NULL");
  call_ = valid;
  call_.saved_stats = nullptr;
  EXPECT_FAILS(train(), INVALID_ARGUMENT, "saved_stats = NULL");
  call_ = valid;
  call_.saved_x = nullptr;
  EXPECT_FAILS(backward(), INVALID_ARGUMENT, "saved_x = NULL");
}

TEST_F(CallErrors, TensorsThePassDoesNotUseAreNotLookedAt) {
  call_.saved_o = nullptr;
  call_.grad_q.data = nullptr;
  call_.grad_o.strides[2] = -1;
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(CallErrors, NullIsAllowedWhereThereAreNoElements) {
  call_.sizes.seq_k = 0;
  call_.k.data = nullptr;
  call_.v.data = nullptr;
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  call_.sizes.batch = 0;
  call_.q.data = nullptr;
  call_.o.data = nullptr;
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(CallErrors, Sizes) {
  const auto expect_bad = [&](int64_t& field, int64_t value, const std::string& text) {
    const int64_t before = field;
    field = value;
    EXPECT_FAILS(forward(), INVALID_ARGUMENT, text);
    field = before;
  };
  expect_bad(call_.sizes.batch, -1, "sizes.batch = -1: allowed are 0 to 2147483647");
  expect_bad(call_.sizes.heads, 0, "sizes.heads = 0: allowed are 1 to 2147483647");
  expect_bad(call_.sizes.kv_heads, 0, "sizes.kv_heads = 0: allowed are 1 to 2147483647");
  expect_bad(call_.sizes.kv_heads, 3, "sizes.kv_heads = 3: must divide sizes.heads = 2");
  expect_bad(call_.sizes.seq_q, INT64_MIN, "sizes.seq_q = -9223372036854775808: allowed are 0 to");
  expect_bad(call_.sizes.seq_k, int64_t{1} << 31, "sizes.seq_k = 2147483648: allowed are 0 to");
}

TEST_F(CallErrors, TooManyBlocksForAGrid) {
  call_.sizes = {1 << 20, 1 << 14, 1, 1, 0};
  // Strides that the sizes allow; the memory is never looked at.
  const int64_t batch_stride = int64_t{1} << 19;
  call_.q.strides[0] = batch_stride;
  call_.q.strides[1] = kDim;
  call_.o = call_.q;
  call_.o.data = static_cast<char*>(call_.q.data) + (int64_t{1} << 50);
  call_.workspace_bytes = SIZE_MAX;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "allowed are 2^31 - 1 blocks in all");
}

TEST_F(CallErrors, NegativeStride) {
  call_.q.strides[2] = -kDim;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "q.row stride = -32: allowed are 0 and more elements");
}

TEST_F(CallErrors, StridesBeyondTheAddressSpace) {
  call_.k.strides[2] = INT64_MAX / 4;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "reach beyond 2^63 bytes");
}

TEST_F(CallErrors, MisalignedPointer) {
  call_.v.data = static_cast<char*>(call_.v.data) + 1;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "v.data = 0x");
  EXPECT_THAT(lssar_last_error_detail(), testing::HasSubstr("must be a multiple of 2 bytes"));
}

TEST_F(CallErrors, MisalignedSavedTensorAndWorkspace) {
  const lssar_call valid = call_;
  call_.saved_stats += 1;
  EXPECT_FAILS(train(), INVALID_ARGUMENT, "saved_stats.data = 0x");
  EXPECT_THAT(lssar_last_error_detail(), testing::HasSubstr("must be a multiple of 16 bytes"));
  call_ = valid;
  call_.workspace = static_cast<char*>(call_.workspace) + 8;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "workspace.data = 0x");
}

TEST_F(CallErrors, PlanForAlignedTensorsRefusesOthers) {
  lssar_problem problem = valid_problem();
  problem.passes = LSSAR_PASS_FORWARD;
  problem.alignment = 16;
  lssar_plan* raw = nullptr;
  ASSERT_EQ(lssar_plan_create(context_, &problem, nullptr, &raw), LSSAR_STATUS_OK);
  const PlanPtr plan(raw);
  ASSERT_EQ(lssar_plan_prepare(raw), LSSAR_STATUS_OK) << lssar_last_error_detail();
  EXPECT_EQ(lssar_execute_forward(raw, &call_), LSSAR_STATUS_OK) << lssar_last_error_detail();
  const lssar_call valid = call_;
  call_.k.data = static_cast<char*>(call_.k.data) + 2;
  EXPECT_FAILS(lssar_execute_forward(raw, &call_), INVALID_ARGUMENT,
               "must be a multiple of 16 bytes");
  call_ = valid;
  call_.q.strides[1] += 1;
  EXPECT_FAILS(lssar_execute_forward(raw, &call_), INVALID_ARGUMENT,
               "q.head stride = 545 elements");
}

TEST_F(CallErrors, ZeroStrideOfAnInputIsAllowed) {
  call_.sizes.batch = 4;
  call_.sizes.seq_q = 4;
  call_.k.strides[0] = call_.k.strides[1] = 0;
  call_.v.strides[0] = call_.v.strides[1] = 0;
  call_.q.strides[0] = call_.q.strides[1] = 0;
  call_.o.strides[0] = 4 * kDim * 2;
  call_.o.strides[1] = 4 * kDim;
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(CallErrors, ZeroStrideOfAnOutput) {
  call_.o.strides[1] = 0;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "o: strides 1088, 0, 32 put several of its");
  call_.grad_k.strides[2] = 0;
  EXPECT_FAILS(backward(), INVALID_ARGUMENT, "grad_k: strides 1056, 1056, 0 put several of its");
}

TEST_F(CallErrors, OutputOverAnInput) {
  call_.o.data = call_.q.data;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "o overlaps q");
}

TEST_F(CallErrors, OutputPartlyOverAnInput) {
  call_.o.data = static_cast<char*>(call_.v.data) + 64;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "o overlaps v");
}

TEST_F(CallErrors, TwoOutputsAtOnePlace) {
  call_.grad_v.data = call_.grad_k.data;
  EXPECT_FAILS(backward(), INVALID_ARGUMENT, "grad_v overlaps grad_k");
}

TEST_F(CallErrors, WorkspaceOverASavedTensor) {
  call_.saved_o = call_.workspace;
  EXPECT_FAILS(backward(), INVALID_ARGUMENT, "workspace overlaps saved_o");
}

TEST_F(CallErrors, InputsMayShareMemory) {
  call_.v = call_.k;
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(CallErrors, PackedGradientsDoNotOverlap) {
  // [length, q heads, k heads, v heads, dim] in one buffer; all lengths equal.
  call_.sizes.seq_q = call_.sizes.seq_k = 9;
  const int64_t row = (kHeads + 2 * kKvHeads) * kDim;
  std::vector<uint16_t> packed(9 * row + 8);
  char* base = reinterpret_cast<char*>(packed.data());
  base += (16 - reinterpret_cast<uintptr_t>(base) % 16) % 16;
  call_.grad_q = {base, {0, kDim, row}};
  call_.grad_k = {base + kHeads * kDim * 2, {0, kDim, row}};
  call_.grad_v = {base + (kHeads + kKvHeads) * kDim * 2, {0, kDim, row}};
  EXPECT_EQ(backward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(CallErrors, NumberOfThreads) {
  call_.num_threads = -1;
  EXPECT_FAILS(backward(), INVALID_ARGUMENT, "num_threads = -1: allowed are 0 and more");
  for (const int64_t allowed : {int64_t{0}, int64_t{1}, INT64_MAX}) {
    call_.num_threads = allowed;
    EXPECT_EQ(backward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  }
}

TEST_F(CallErrors, WorkspaceTooSmall) {
  call_.workspace_bytes = 16;
  EXPECT_FAILS(backward(), INVALID_ARGUMENT, "workspace_bytes = 16: this call needs ");
}

TEST_F(CallErrors, NullWorkspace) {
  call_.workspace = nullptr;
  EXPECT_FAILS(backward(), INVALID_ARGUMENT,
               "workspace = NULL: it has " + std::to_string(call_.workspace_bytes) + " bytes");
}

TEST_F(CallErrors, NaNAndDenormalsAreData) {
  auto* q = static_cast<uint16_t*>(call_.q.data);
  q[0] = 0x7FC0;  // NaN
  q[1] = 0x0001;  // denormal
  q[2] = 0xFF80;  // -infinity
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

}  // namespace
}  // namespace lssar
