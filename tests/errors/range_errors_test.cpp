// What a caller can get wrong in a call of one of the forward's two passes over a range of keys.
#include <limits>
#include <optional>

#include "tests/errors/capi_errors.h"

namespace lssar {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

class RangeErrors : public testing::Test {
 protected:
  void SetUp() override {
    auto context = open_context(LSSAR_DEVICE_RECORD);
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    context_ = std::move(*context);
    lssar_problem problem = valid_problem();
    problem.passes = LSSAR_PASS_ROW_SUMS | LSSAR_PASS_WEIGHTED_SUM;
    problem.alignment = 16;
    lssar_plan* plan = nullptr;
    ASSERT_EQ(lssar_plan_create(context_.get(), &problem, nullptr, &plan), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    plan_.reset(plan);
    ASSERT_EQ(lssar_plan_prepare(plan), LSSAR_STATUS_OK) << lssar_last_error_detail();
    valid_.emplace(plan);
    call_ = valid_->call;
    call_.row_stats = call_.saved_stats;
    call_.range = {100, 200, 50, 90};
  }

  lssar_status row_sums() { return lssar_execute_row_sums(plan_.get(), &call_); }
  lssar_status weighted_sum() { return lssar_execute_weighted_sum(plan_.get(), &call_); }

  ContextPtr context_;
  PlanPtr plan_;
  std::optional<ValidCall> valid_;
  lssar_call call_ = {};
};

TEST_F(RangeErrors, TheValidCallIsValid) {
  EXPECT_EQ(row_sums(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  EXPECT_EQ(weighted_sum(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(RangeErrors, WhatAPassDoesNotUseIsNotLookedAt) {
  call_.v.data = call_.o.data = nullptr;
  call_.saved_stats = call_.partial_o = nullptr;
  call_.saved_o = nullptr;
  EXPECT_EQ(row_sums(), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(RangeErrors, NullPointers) {
  call_.row_stats = nullptr;
  EXPECT_FAILS(row_sums(), INVALID_ARGUMENT, "row_stats = NULL");
  EXPECT_FAILS(weighted_sum(), INVALID_ARGUMENT, "row_stats = NULL");
  call_.row_stats = call_.saved_stats;
  call_.partial_o = nullptr;
  EXPECT_FAILS(weighted_sum(), INVALID_ARGUMENT, "partial_o = NULL");
  call_.partial_o = valid_->call.partial_o;
  call_.v.data = nullptr;
  EXPECT_FAILS(weighted_sum(), INVALID_ARGUMENT, "v = NULL");
}

TEST_F(RangeErrors, Misaligned) {
  ++call_.row_stats;
  EXPECT_FAILS(row_sums(), INVALID_ARGUMENT, "row_stats.data");
  call_.row_stats = call_.saved_stats;
  ++call_.partial_o;
  EXPECT_FAILS(weighted_sum(), INVALID_ARGUMENT, "partial_o.data");
}

TEST_F(RangeErrors, Overlaps) {
  call_.row_stats = static_cast<float*>(call_.q.data);
  EXPECT_FAILS(row_sums(), INVALID_ARGUMENT, "row_stats overlaps q");
  call_.row_stats = call_.partial_o;
  EXPECT_FAILS(weighted_sum(), INVALID_ARGUMENT, "row_stats overlaps partial_o");
}

TEST_F(RangeErrors, TheKeysMustLieWithinAll) {
  call_.range.first_key = -1;
  EXPECT_FAILS(row_sums(), INVALID_ARGUMENT, "range.first_key = -1: allowed are 0 to 2147483614");
  call_.range.first_key = kMost - kKeys + 1;
  EXPECT_FAILS(row_sums(), INVALID_ARGUMENT, "range.first_key = 2147483615: allowed are 0 to");
  call_.range.first_key = 100;
  for (const int64_t bad : {int64_t{-1}, 100 + kKeys - 1, kMost + 1}) {
    call_.range.num_keys = bad;
    EXPECT_FAILS(weighted_sum(), INVALID_ARGUMENT,
                 "range.num_keys = " + std::to_string(bad) +
                     ": allowed are 133 (first_key + seq_k) to 2147483647");
  }
  for (const int64_t good : {int64_t{0}, 100 + kKeys, kMost}) {
    call_.range.num_keys = good;
    EXPECT_EQ(row_sums(), LSSAR_STATUS_OK) << lssar_last_error_detail();
  }
}

TEST_F(RangeErrors, TheQueriesMustLieWithinAll) {
  call_.range.first_query = -1;
  EXPECT_FAILS(weighted_sum(), INVALID_ARGUMENT, "range.first_query = -1: allowed are 0 to");
  call_.range.first_query = 50;
  call_.range.num_queries = 50 + kQueries - 1;
  EXPECT_FAILS(row_sums(), INVALID_ARGUMENT,
               "range.num_queries = 66: allowed are 67 (first_query + seq_q)");
}

TEST_F(RangeErrors, ThePlanWasNotMadeForThePass) {
  EXPECT_FAILS(lssar_execute_forward(plan_.get(), &call_), NOT_PREPARED,
               "this plan was not made for forward");
  lssar_problem problem = valid_problem();
  problem.passes = LSSAR_PASS_FORWARD;
  lssar_plan* plan = nullptr;
  ASSERT_EQ(lssar_plan_create(context_.get(), &problem, nullptr, &plan), LSSAR_STATUS_OK);
  const PlanPtr other(plan);
  EXPECT_FAILS(lssar_execute_row_sums(plan, &call_), NOT_PREPARED,
               "this plan was not made for row-sums");
  EXPECT_FAILS(lssar_execute_weighted_sum(plan, &call_), NOT_PREPARED,
               "this plan was not made for weighted-sum");
}

}  // namespace
}  // namespace lssar
