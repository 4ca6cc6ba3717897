// What a caller can get wrong in lssar_tune and in the policy that tunes.
#include "tests/errors/capi_errors.h"

namespace lssar {
namespace {

class TuneErrors : public testing::Test {
 protected:
  void SetUp() override {
    auto context = open_context(LSSAR_DEVICE_RECORD, LSSAR_COMPILER_AUTO, "", "none");
    ASSERT_TRUE(context.ok()) << context.status().to_string();
    context_ = std::move(*context);
    options_.struct_size = sizeof(options_);
  }
  lssar_status tune() { return lssar_tune(context_.get(), list_, 1, &options_); }

  ContextPtr context_;
  lssar_problem problem_ = valid_problem();
  const lssar_problem* list_[2] = {&problem_, nullptr};
  lssar_tune_options options_ = {};
};

TEST_F(TuneErrors, NullAndEmpty) {
  EXPECT_FAILS(lssar_tune(nullptr, list_, 1, nullptr), INVALID_ARGUMENT, "context = NULL");
  EXPECT_FAILS(lssar_tune(context_.get(), nullptr, 1, nullptr), INVALID_ARGUMENT,
               "problems = NULL");
  EXPECT_FAILS(lssar_tune(context_.get(), list_, 0, nullptr), INVALID_ARGUMENT,
               "num_problems = 0: allowed are 1 and more");
  EXPECT_FAILS(lssar_tune(context_.get(), list_, 2, nullptr), INVALID_ARGUMENT,
               "problems[1]: problem = NULL");
}

TEST_F(TuneErrors, AProblemThatIsWrongIsNamed) {
  lssar_problem other = valid_problem();
  other.head_dim = 7;
  list_[1] = &other;
  EXPECT_FAILS(lssar_tune(context_.get(), list_, 2, nullptr), INVALID_ARGUMENT,
               "problems[1]: head_dim = 7");
}

TEST_F(TuneErrors, Options) {
  options_.struct_size = 8;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT, "tune_options.struct_size = 8: must be");
  options_.struct_size = sizeof(options_);
  options_.budget = 3;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT, "budget = 3: allowed are 0 (normal), 1 (quick), 2 (full)");
  options_.budget = 0;
  options_.determinism = 2;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT, "determinism = 2: allowed are 0 (repeatable), 1 (any)");
  options_.determinism = 0;
  options_.parallel_compiles = -1;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "parallel_compiles = -1: allowed are 0 (one per core) to 256");
  options_.parallel_compiles = 0;
  options_.reserved = 1;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT, "tune_options.reserved = 1: allowed are 0");
}

// The lengths of sequences.
class TuneLengthsErrors : public TuneErrors {
 protected:
  void SetUp() override {
    TuneErrors::SetUp();
    problem_.varlen = 1;
    problem_.passes = LSSAR_PASS_FORWARD;
    problem_.seq_q = problem_.seq_k = 0;
    options_.lengths_q = q_;
    options_.lengths_k = k_;
    options_.num_lengths = 3;
  }
  int64_t q_[3] = {1, 0, 2}, k_[3] = {700, 5, 90};
};

TEST_F(TuneLengthsErrors, GoodOnesGetAsFarAsTheDevice) {
  EXPECT_FAILS(tune(), UNSUPPORTED, "the recording device runs no kernels");
  problem_.batch = 3;
  EXPECT_FAILS(tune(), UNSUPPORTED, "the recording device runs no kernels");
  options_.lengths_k = nullptr;
  EXPECT_FAILS(tune(), UNSUPPORTED, "the recording device runs no kernels");
}

TEST_F(TuneLengthsErrors, Pointers) {
  options_.num_lengths = -1;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT, "tune_options.num_lengths = -1: allowed are 0 to 1048576");
  options_.num_lengths = int64_t{1} << 21;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "tune_options.num_lengths = 2097152: allowed are 0 to 1048576");
  options_.num_lengths = 0;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "tune_options.num_lengths = 0: allowed with lengths_q are 1 to 1048576");
  options_.lengths_q = nullptr;
  EXPECT_FAILS(
      tune(), INVALID_ARGUMENT,
      "tune_options.lengths_q = NULL, with num_lengths = 0 and lengths_k given: allowed is "
      "NULL only with 0 and NULL");
  options_.num_lengths = 3;
  options_.lengths_k = nullptr;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "tune_options.lengths_q = NULL, with num_lengths = 3 and lengths_k = NULL");
}

TEST_F(TuneLengthsErrors, ALength) {
  q_[2] = -1;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "problems[0]: tune_options.lengths_q[2] = -1: allowed are 0 to 2147483647");
  q_[2] = 2;
  k_[0] = int64_t{1} << 31;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "tune_options.lengths_k[0] = 2147483648: allowed are 0 to 2147483647");
  k_[0] = 700;
  problem_.seq_q = 1;
  problem_.seq_k = 800;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "tune_options.lengths_q[2] = 2: allowed are 0 to 1, because seq_q = 1");
  problem_.seq_q = 2;
  problem_.seq_k = 699;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "tune_options.lengths_k[0] = 700: allowed are 0 to 699, because seq_k = 699");
}

TEST_F(TuneLengthsErrors, LengthsTogether) {
  k_[0] = k_[1] = int64_t{1} << 30;
  EXPECT_FAILS(
      tune(), INVALID_ARGUMENT,
      "tune_options: lengths[1] = 0:1073741824: allowed are lengths from 0 whose sum is at "
      "most 2147483647");
  k_[0] = 0, k_[1] = 5, k_[2] = 0;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "tune_options: lengths = 1:0,0:5,2:0: tuning needs work to time");
  k_[2] = 1;
  problem_.rotary_dim = 16;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "tune_options: lengths[0] = 1:0: allowed with rotary_dim are 0 to 0 queries");
}

TEST_F(TuneLengthsErrors, OfAnotherProblem) {
  problem_.batch = 2;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT,
               "batch = 2: allowed with tune_options.num_lengths = 3 are 0, 1 and 3");
  problem_.batch = 0;
  lssar_problem other = valid_problem();
  other.seq_q = other.seq_k = 0;
  list_[1] = &other;
  EXPECT_FAILS(lssar_tune(context_.get(), list_, 2, &options_), INVALID_ARGUMENT,
               "problems[1]: tune_options.lengths_q: given; allowed is NULL with varlen = 0");
  lssar_plan_options plan_options = {};
  plan_options.struct_size = sizeof(plan_options);
  plan_options.tuning = LSSAR_TUNING_TUNE;
  plan_options.tune = &options_;
  lssar_plan* plan = nullptr;
  EXPECT_FAILS(lssar_plan_create(context_.get(), &other, &plan_options, &plan), INVALID_ARGUMENT,
               "tune_options.lengths_q: given; allowed is NULL with varlen = 0");
}

// A search for few queries finds what a plan for any number of them does not take.
TEST_F(TuneLengthsErrors, FewQueriesForAPlanOfAnyNumber) {
  lssar_plan_options plan_options = {};
  plan_options.struct_size = sizeof(plan_options);
  plan_options.tuning = LSSAR_TUNING_TUNE;
  plan_options.tune = &options_;
  const auto create = [&] {
    lssar_plan* plan = nullptr;
    const auto status = lssar_plan_create(context_.get(), &problem_, &plan_options, &plan);
    lssar_plan_destroy(plan);
    return status;
  };
  q_[1] = 16;
  EXPECT_FAILS(create(), INVALID_ARGUMENT,
               "seq_q = 0: allowed in a plan that tunes with at most 16 queries in "
               "tune_options.lengths_q is 16, because");
  q_[1] = 17;
  EXPECT_EQ(create(), LSSAR_STATUS_OK);
  q_[1] = 16;
  problem_.seq_q = 16;
  EXPECT_EQ(create(), LSSAR_STATUS_OK);
  problem_.seq_q = 0;
  plan_options.schedule_json = "{}";  // nothing is searched
  EXPECT_EQ(create(), LSSAR_STATUS_OK);
}

// Callers of before there were lengths have a shorter struct. What lies behind it is not read.
TEST_F(TuneLengthsErrors, AnOlderStructHasNone) {
  options_.struct_size = offsetof(lssar_tune_options, lengths_q);
  q_[0] = -1;
  EXPECT_FAILS(tune(), UNSUPPORTED, "the recording device runs no kernels");
  options_.struct_size -= 1;
  EXPECT_FAILS(tune(), INVALID_ARGUMENT, "tune_options.struct_size = 47: must be");
}

TEST_F(TuneErrors, ADeviceThatRunsNothing) {
  EXPECT_FAILS(tune(), UNSUPPORTED, "the recording device runs no kernels");
}

TEST_F(TuneErrors, OptionsOfAPlanAreReadWhenItIsMade) {
  options_.budget = -1;
  lssar_plan_options plan_options = {};
  plan_options.struct_size = sizeof(plan_options);
  plan_options.tuning = LSSAR_TUNING_TUNE;
  plan_options.tune = &options_;
  lssar_plan* plan = nullptr;
  EXPECT_FAILS(lssar_plan_create(context_.get(), &problem_, &plan_options, &plan), INVALID_ARGUMENT,
               "budget = -1");
  EXPECT_EQ(plan, nullptr);
  options_.budget = LSSAR_BUDGET_QUICK;
  ASSERT_EQ(lssar_plan_create(context_.get(), &problem_, &plan_options, &plan), LSSAR_STATUS_OK);
  EXPECT_FAILS(lssar_plan_prepare(plan), UNSUPPORTED, "the recording device runs no kernels");
  const lssar_sizes sizes = valid_sizes();
  size_t bytes = 0;
  EXPECT_EQ(lssar_plan_workspace_size(plan, &sizes, &bytes), LSSAR_STATUS_OK);
  lssar_plan_destroy(plan);
}

TEST(TuneWorkerErrors, AMissingWorkerSaysWhereItWasLookedFor) {
  auto context = open_context(LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_AUTO, "sm_80", "none");
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const lssar_problem problem = valid_problem();
  const lssar_problem* const list[] = {&problem};
  lssar_tune_options options = {};
  options.struct_size = sizeof(options);
  options.worker = "/nowhere/lssar-tune-worker";
  EXPECT_FAILS(lssar_tune(context->get(), list, 1, &options), MISSING,
               "/nowhere/lssar-tune-worker");
}

}  // namespace
}  // namespace lssar
