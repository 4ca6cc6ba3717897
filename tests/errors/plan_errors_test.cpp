// What a caller can get wrong in a problem, a plan's options, or by the order of calls.
#include <cmath>
#include <limits>

#include "tests/errors/capi_errors.h"

namespace lssar {
namespace {

lssar_plan_options with_schedule(const char* json) {
  lssar_plan_options options = {};
  options.struct_size = sizeof(options);
  options.schedule_json = json;
  return options;
}

class PlanErrors : public testing::Test {
 protected:
  void SetUp() override {
    auto context = open_context(LSSAR_DEVICE_RECORD, LSSAR_COMPILER_AUTO, "", "none");
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    context_ = std::move(*context);
  }

  lssar_status create() { return lssar_plan_create(context_.get(), &problem_, options_, &plan_); }
  void TearDown() override { lssar_plan_destroy(plan_); }

  ContextPtr context_;
  lssar_problem problem_ = valid_problem();
  const lssar_plan_options* options_ = nullptr;
  lssar_plan* plan_ = nullptr;
};

TEST_F(PlanErrors, NullArguments) {
  EXPECT_FAILS(lssar_plan_create(nullptr, &problem_, nullptr, &plan_), INVALID_ARGUMENT,
               "context = NULL");
  EXPECT_FAILS(lssar_plan_create(context_.get(), nullptr, nullptr, &plan_), INVALID_ARGUMENT,
               "problem = NULL");
  EXPECT_FAILS(lssar_plan_create(context_.get(), &problem_, nullptr, nullptr), INVALID_ARGUMENT,
               "plan = NULL");
}

TEST_F(PlanErrors, StructSizeTooSmall) {
  problem_.struct_size = offsetof(lssar_problem, score) - 1;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "must be sizeof(lssar_problem)");
}

TEST_F(PlanErrors, StructSizeIsGarbage) {
  problem_.struct_size = SIZE_MAX;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "problem.struct_size = 18446744073709551615");
}

TEST_F(PlanErrors, NoPass) {
  problem_.passes = 0;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "passes = 0: allowed are 1 (forward)");
}

TEST_F(PlanErrors, UnknownPass) {
  problem_.passes = 33;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "passes = 33: allowed are 1 (forward)");
}

TEST_F(PlanErrors, UnknownDtype) {
  problem_.dtype = 3;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "dtype = 3: allowed are 0 (fp16), 1 (bf16), 2 (fp32)");
}

TEST_F(PlanErrors, HeadDim) {
  for (const int bad : {0, 7, 12, 264, -8}) {
    problem_.head_dim = bad;
    problem_.head_dim_v = 64;
    EXPECT_FAILS(create(), INVALID_ARGUMENT, "head_dim = " + std::to_string(bad) + ":");
    EXPECT_THAT(lssar_last_error_detail(), testing::HasSubstr("8 to 256"));
  }
}

TEST_F(PlanErrors, HeadDimV) {
  problem_.head_dim_v = 300;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "head_dim_v = 300:");
}

TEST_F(PlanErrors, Lengths) {
  problem_.seq_q = -1;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "seq_q = -1:");
  problem_.seq_q = 16;
  problem_.seq_k = int64_t{1} << 31;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "seq_k = 2147483648:");
}

TEST_F(PlanErrors, BatchAndHeads) {
  problem_.batch = -1;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "batch = -1:");
  problem_.batch = 1;
  problem_.heads = -4;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "heads = -4:");
  problem_.heads = 6;
  problem_.kv_heads = 4;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "kv_heads = 4:");
}

TEST_F(PlanErrors, CausalIsNeitherZeroNorOne) {
  problem_.causal = 2;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "causal = 2: allowed are 0 and 1");
}

TEST_F(PlanErrors, Power) {
  for (const int bad : {-1, 1025}) {
    problem_.p = bad;
    EXPECT_FAILS(create(), INVALID_ARGUMENT, "p = " + std::to_string(bad) + ":");
  }
}

TEST_F(PlanErrors, Offset) {
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    problem_.offset = bad;
    EXPECT_FAILS(create(), INVALID_ARGUMENT, "offset = ");
  }
}

TEST_F(PlanErrors, Alignment) {
  problem_.alignment = 3;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "alignment = 3:");
}

TEST_F(PlanErrors, ReservedFieldSet) {
  problem_.reserved = 5;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "problem.reserved = 5: allowed are 0");
}

// A limit of 0 and no limit differ, so the flag says whether the limits hold.
TEST_F(PlanErrors, Windows) {
  problem_.window_left = 5;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "window_left = 5: allowed are 0 where has_window is 0");
  problem_.has_window = 2;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "has_window = 2: allowed are 0 and 1");
  problem_.has_window = 1;
  problem_.window_right = -2;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "window_right = -2: allowed are whole numbers from -1");
  problem_.window_right = -1;
  problem_.prefix = -1;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "prefix = -1: allowed are whole numbers from 0");
  problem_.prefix = 0;
  problem_.reserved3 = 1;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "problem.reserved3 = 1: allowed are 0");
}

TEST_F(PlanErrors, Invariant) {
  problem_.invariant = 2;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "invariant = 2: allowed are 0 and 1");
  problem_.invariant = 1;
  problem_.reserved4 = 1;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "problem.reserved4 = 1: allowed are 0");
  problem_.reserved4 = 0;
  const lssar_plan_options options = with_schedule("{\"skip_tiles\": true}");
  options_ = &options;
  EXPECT_FAILS(create(), INVALID_ARGUMENT,
               "schedule.skip_tiles = true: allowed is false with problem.invariant");
}

TEST_F(PlanErrors, ScheduleThatIsNotJson) {
  const lssar_plan_options options = with_schedule("{\"forward\": ");
  options_ = &options;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "schedule: not JSON: line 1, column ");
}

TEST_F(PlanErrors, ScheduleOfBracketsAlone) {
  constexpr size_t kDepth = 1'000'000;  // more than a stack has room for
  const std::string text = std::string(kDepth, '[') + std::string(kDepth, ']');
  const lssar_plan_options options = with_schedule(text.c_str());
  options_ = &options;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "schedule = [...]: allowed is a JSON object");
}

TEST_F(PlanErrors, ScheduleWithAnUnknownField) {
  const lssar_plan_options options = with_schedule("{\"tiles\": 3}");
  options_ = &options;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "tiles");
}

TEST_F(PlanErrors, ScheduleThatIsNotLegal) {
  const lssar_plan_options options = with_schedule("{\"forward\": {\"block_rows\": 40}}");
  options_ = &options;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "schedule.forward.block_rows = 40:");
}

TEST_F(PlanErrors, UnknownTuning) {
  lssar_plan_options options = with_schedule(nullptr);
  options.tuning = 9;
  options_ = &options;
  EXPECT_FAILS(create(), INVALID_ARGUMENT,
               "tuning = 9: allowed are 0 (default), 1 (built-in), 2 (tune)");
}

TEST_F(PlanErrors, UnknownDeterminism) {
  lssar_plan_options options = with_schedule(nullptr);
  options.determinism = -1;
  options_ = &options;
  EXPECT_FAILS(create(), INVALID_ARGUMENT, "determinism = -1: allowed are 0 (repeatable), 1 (any)");
}

TEST_F(PlanErrors, ScheduleOfAPass) {
  problem_.passes = LSSAR_PASS_FORWARD;
  ASSERT_EQ(create(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  lssar_schedule_info info = {};
  info.struct_size = sizeof(info);
  info.origin = 77;
  EXPECT_FAILS(lssar_plan_get_schedule(nullptr, LSSAR_PASS_FORWARD, &info), INVALID_ARGUMENT,
               "plan = NULL");
  EXPECT_FAILS(lssar_plan_get_schedule(plan_, LSSAR_PASS_FORWARD, nullptr), INVALID_ARGUMENT,
               "info = NULL");
  for (const int32_t bad : {0, 3, 32, -1}) {
    EXPECT_FAILS(lssar_plan_get_schedule(plan_, bad, &info), INVALID_ARGUMENT,
                 "pass = " + std::to_string(bad) + ": allowed are 1 (forward)");
  }
  EXPECT_FAILS(lssar_plan_get_schedule(plan_, LSSAR_PASS_BACKWARD, &info), NOT_PREPARED,
               "this plan was not made for backward");
  info.struct_size = sizeof(info) - 1;
  EXPECT_FAILS(lssar_plan_get_schedule(plan_, LSSAR_PASS_FORWARD, &info), INVALID_ARGUMENT,
               "info.struct_size = 47: must be sizeof(lssar_schedule_info), here 48");
  EXPECT_EQ(info.origin, 77);
}

TEST_F(PlanErrors, SizesOfAQuery) {
  ASSERT_EQ(create(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  lssar_sizes sizes = valid_sizes();
  size_t bytes = 77;
  lssar_saved_sizes saved = {1, 2, 3};
  EXPECT_FAILS(lssar_plan_workspace_size(nullptr, &sizes, &bytes), INVALID_ARGUMENT, "plan = NULL");
  EXPECT_FAILS(lssar_plan_workspace_size(plan_, nullptr, &bytes), INVALID_ARGUMENT, "sizes = NULL");
  EXPECT_FAILS(lssar_plan_workspace_size(plan_, &sizes, nullptr), INVALID_ARGUMENT, "bytes = NULL");
  EXPECT_FAILS(lssar_plan_saved_sizes(plan_, &sizes, nullptr), INVALID_ARGUMENT, "saved = NULL");
  sizes.seq_q = -5;
  EXPECT_FAILS(lssar_plan_workspace_size(plan_, &sizes, &bytes), INVALID_ARGUMENT,
               "sizes.seq_q = -5: allowed are 0 to 2147483647");
  EXPECT_FAILS(lssar_plan_saved_sizes(plan_, &sizes, &saved), INVALID_ARGUMENT, "sizes.seq_q = -5");
  EXPECT_EQ(bytes, 77u);
  EXPECT_EQ(saved.x, 3u);
}

TEST_F(PlanErrors, SizesThatOverflow) {
  ASSERT_EQ(create(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  const lssar_sizes sizes = {INT32_MAX, INT32_MAX, 1, INT32_MAX, 1};
  size_t bytes = 0;
  EXPECT_FAILS(lssar_plan_workspace_size(plan_, &sizes, &bytes), INVALID_ARGUMENT,
               "must be at most 2^63 - 1");
}

TEST_F(PlanErrors, LengthOtherThanTheOneThePlanFixes) {
  problem_.seq_k = 64;
  ASSERT_EQ(create(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  const lssar_sizes sizes = valid_sizes();
  size_t bytes = 0;
  EXPECT_FAILS(lssar_plan_workspace_size(plan_, &sizes, &bytes), INVALID_ARGUMENT,
               "sizes.seq_k = 33: the problem was made for seq_k = 64 only");
}

TEST_F(PlanErrors, ExecuteBeforePrepare) {
  ASSERT_EQ(create(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  const ValidCall valid(plan_);
  EXPECT_FAILS(lssar_execute_forward(plan_, &valid.call), NOT_PREPARED,
               "the plan is not prepared: call prepare first");
}

TEST_F(PlanErrors, ExecuteAPassThePlanWasNotMadeFor) {
  problem_.passes = LSSAR_PASS_FORWARD;
  ASSERT_EQ(create(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  const ValidCall valid(plan_);
  EXPECT_FAILS(lssar_execute_backward(plan_, &valid.call), NOT_PREPARED,
               "this plan was not made for backward");
}

TEST_F(PlanErrors, PrepareNull) {
  EXPECT_FAILS(lssar_plan_prepare(nullptr), INVALID_ARGUMENT, "plan = NULL");
}

TEST_F(PlanErrors, DestroyNullIsNoError) {
  lssar_plan_destroy(nullptr);
  lssar_context_destroy(nullptr);
}

TEST_F(PlanErrors, ACallThatSucceedsLeavesTheDetail) {
  problem_.causal = 2;
  EXPECT_EQ(create(), LSSAR_STATUS_INVALID_ARGUMENT);
  problem_.causal = 1;
  EXPECT_EQ(create(), LSSAR_STATUS_OK);
  EXPECT_STREQ(lssar_last_error_detail(), "causal = 2: allowed are 0 and 1");
}

}  // namespace
}  // namespace lssar
