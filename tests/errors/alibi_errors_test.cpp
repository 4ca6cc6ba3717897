// What a caller can get wrong with a score function that has ALiBi.
#include <cstddef>
#include <optional>
#include <vector>

#include "tests/errors/capi_errors.h"

namespace lssar {
namespace {

class AlibiErrors : public testing::Test {
 protected:
  void SetUp() override {
    auto context = open_context(LSSAR_DEVICE_RECORD);
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    context_ = std::move(*context);
    lssar_problem problem = valid_problem();
    problem.passes |= LSSAR_PASS_ROW_SUMS | LSSAR_PASS_WEIGHTED_SUM;
    problem.p = 0;
    problem.score = "softmax,alibi=per_head";
    problem.alignment = 16;
    lssar_plan* plan = nullptr;
    ASSERT_EQ(lssar_plan_create(context_.get(), &problem, nullptr, &plan), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    plan_.reset(plan);
    ASSERT_EQ(lssar_plan_prepare(plan), LSSAR_STATUS_OK) << lssar_last_error_detail();
    valid_.emplace(plan);
    call_ = valid_->call;
    call_.row_stats = call_.saved_stats;
    call_.alibi_slopes = slopes_.data();
  }

  std::vector<lssar_status> all_passes() const {
    return {lssar_execute_forward(plan_.get(), &call_),
            lssar_execute_forward_train(plan_.get(), &call_),
            lssar_execute_backward(plan_.get(), &call_),
            lssar_execute_row_sums(plan_.get(), &call_),
            lssar_execute_weighted_sum(plan_.get(), &call_)};
  }

  ContextPtr context_;
  PlanPtr plan_;
  std::optional<ValidCall> valid_;
  std::vector<float> slopes_ = std::vector<float>(kHeads + 1);
  lssar_call call_ = {};
};

TEST_F(AlibiErrors, TheValidCallIsValid) {
  EXPECT_EQ(all_passes(), std::vector<lssar_status>(5, LSSAR_STATUS_OK));
  ++call_.alibi_slopes;  // multiples of 4 bytes are enough for the kernel of 16
  EXPECT_EQ(all_passes(), std::vector<lssar_status>(5, LSSAR_STATUS_OK));
}

TEST_F(AlibiErrors, EveryPassNeedsSlopes) {
  call_.alibi_slopes = nullptr;
  EXPECT_EQ(all_passes(), std::vector<lssar_status>(5, LSSAR_STATUS_INVALID_ARGUMENT));
  EXPECT_FAILS(lssar_execute_forward(plan_.get(), &call_), INVALID_ARGUMENT,
               "alibi_slopes = NULL: it has 1 x 1 x 1 x 2 elements");
}

// A caller that was built before the field gives none.
TEST_F(AlibiErrors, OfAnOlderStruct) {
  call_.struct_size = offsetof(lssar_call, alibi_slopes);
  EXPECT_FAILS(lssar_execute_backward(plan_.get(), &call_), INVALID_ARGUMENT,
               "alibi_slopes = NULL");
}

TEST_F(AlibiErrors, Misaligned) {
  call_.alibi_slopes =
      reinterpret_cast<const float*>(reinterpret_cast<const char*>(slopes_.data()) + 2);
  EXPECT_FAILS(lssar_execute_forward(plan_.get(), &call_), INVALID_ARGUMENT, "alibi_slopes.data");
}

TEST_F(AlibiErrors, OverlapOfAnOutput) {
  call_.alibi_slopes = call_.saved_stats;
  EXPECT_FAILS(lssar_execute_forward_train(plan_.get(), &call_), INVALID_ARGUMENT,
               "saved_stats overlaps alibi_slopes");
}

}  // namespace
}  // namespace lssar
