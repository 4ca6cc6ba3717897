// What a caller can get wrong with a score function that has a sink.
#include <cstddef>
#include <optional>
#include <vector>

#include "tests/errors/capi_errors.h"

namespace lssar {
namespace {

lssar_problem problem_with(const char* score) {
  lssar_problem problem = valid_problem();
  problem.passes |= LSSAR_PASS_ROW_SUMS | LSSAR_PASS_WEIGHTED_SUM;
  problem.p = 0;
  problem.score = score;
  problem.alignment = 16;
  return problem;
}

class SinkErrors : public testing::Test {
 protected:
  void SetUp() override {
    auto context = open_context(LSSAR_DEVICE_RECORD);
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    context_ = std::move(*context);
  }

  void prepare(const char* score) {
    const lssar_problem problem = problem_with(score);
    lssar_plan* plan = nullptr;
    ASSERT_EQ(lssar_plan_create(context_.get(), &problem, nullptr, &plan), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    plan_.reset(plan);
    ASSERT_EQ(lssar_plan_prepare(plan), LSSAR_STATUS_OK) << lssar_last_error_detail();
    valid_.emplace(plan);
    call_ = valid_->call;
    call_.row_stats = call_.saved_stats;
    call_.sink = sink_.data();
    call_.grad_sink = grad_sink_.data();
  }

  lssar_status create(const lssar_problem& problem) {
    lssar_plan* plan = nullptr;
    const lssar_status status = lssar_plan_create(context_.get(), &problem, nullptr, &plan);
    const PlanPtr unused(plan);
    return status;
  }
  lssar_status forward() { return lssar_execute_forward(plan_.get(), &call_); }
  lssar_status backward() { return lssar_execute_backward(plan_.get(), &call_); }
  lssar_status row_sums() { return lssar_execute_row_sums(plan_.get(), &call_); }
  lssar_status weighted_sum() { return lssar_execute_weighted_sum(plan_.get(), &call_); }

  ContextPtr context_;
  PlanPtr plan_;
  std::optional<ValidCall> valid_;
  std::vector<float> sink_ = std::vector<float>(kHeads + 1);
  std::vector<float> grad_sink_ = std::vector<float>(kHeads + 1);
  lssar_call call_ = {};
};

TEST_F(SinkErrors, TheValidCallIsValid) {
  prepare("softmax,sink=per_head");
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  EXPECT_EQ(lssar_execute_forward_train(plan_.get(), &call_), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  EXPECT_EQ(backward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  EXPECT_EQ(row_sums(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  EXPECT_EQ(weighted_sum(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  ++call_.sink, ++call_.grad_sink;  // multiples of 4 bytes are enough for the kernel of 16
  EXPECT_EQ(backward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(SinkErrors, NullPointers) {
  prepare("softmax,sink=per_head");
  call_.grad_sink = nullptr;
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  EXPECT_FAILS(backward(), INVALID_ARGUMENT, "grad_sink = NULL: it has 1 x 1 x 1 x 2 elements");
  call_.sink = nullptr;
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "sink = NULL: it has 1 x 1 x 1 x 2 elements");
  EXPECT_FAILS(weighted_sum(), INVALID_ARGUMENT, "sink = NULL");
  EXPECT_EQ(row_sums(), LSSAR_STATUS_OK) << lssar_last_error_detail();  // knows no sink
}

TEST_F(SinkErrors, AnOlderCallersStructHasNone) {
  prepare("softmax,sink=per_head");
  call_.struct_size = offsetof(lssar_call, sink);
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "sink = NULL");
  prepare("softmax");
  call_.struct_size = offsetof(lssar_call, sink);
  EXPECT_EQ(forward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(SinkErrors, PointersThatAreNotAligned) {
  prepare("softmax,sink=per_head");
  call_.sink = reinterpret_cast<const float*>(reinterpret_cast<const char*>(sink_.data()) + 2);
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "sink.data");
  EXPECT_FAILS(forward(), INVALID_ARGUMENT, "must be a multiple of 4 bytes");
}

TEST_F(SinkErrors, Overlaps) {
  prepare("softmax,sink=per_head");
  call_.grad_sink = sink_.data();
  EXPECT_FAILS(backward(), INVALID_ARGUMENT, "grad_sink overlaps sink");
}

TEST_F(SinkErrors, OfScoreFunctionsThatHaveNoneAreNotLookedAt) {
  prepare("softmax");
  call_.sink = nullptr;
  call_.grad_sink = reinterpret_cast<float*>(1);
  EXPECT_EQ(backward(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(SinkErrors, OtherScoreFunctions) {
  EXPECT_FAILS(create(problem_with("sigmoid,sink=per_head")), INVALID_ARGUMENT,
               "score.sink = per_head with score.phi = sigmoid");
  EXPECT_FAILS(create(problem_with("softmax,normalizer=none,sink=per_head")), INVALID_ARGUMENT,
               "score.sink = per_head with score.normalizer = none");
  EXPECT_FAILS(create(problem_with("softmax,sink=yes")), INVALID_ARGUMENT,
               "score.sink = \"yes\": allowed are none, per_head");
}

}  // namespace
}  // namespace lssar
