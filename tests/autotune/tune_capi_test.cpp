// Tuning through the C API, on a virtual device: cancelled, run to its end, and found by later
// plans.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lssar/lssar.h"

namespace {

class TuneCapi : public testing::Test {
 protected:
  TuneCapi() {
    char pattern[] = "/tmp/lssar_tune_capi_XXXXXX";
    directory_ = mkdtemp(pattern);
    setenv("TMPDIR", directory_.c_str(), 1);  // of the lock
    table_ = directory_ + "/tuning.jsonl";
    problem_.struct_size = sizeof(problem_);
    problem_.passes = LSSAR_PASS_FORWARD;
    problem_.dtype = LSSAR_DTYPE_BF16;
    problem_.head_dim = 32;
    problem_.seq_q = problem_.seq_k = 128;
    problem_.causal = 1;
    problem_.p = 3;
    problem_.offset = 1;
    problem_.alignment = 16;
    options_.struct_size = sizeof(options_);
    options_.budget = LSSAR_BUDGET_QUICK;
  }
  ~TuneCapi() override {
    lssar_context_destroy(context_);
    unsetenv("TMPDIR");
    std::filesystem::remove_all(directory_);
  }

  void open_context() {
    lssar_context_options options = {};
    options.struct_size = sizeof(options);
    options.device = LSSAR_DEVICE_VIRTUAL;
    options.target = "sm_80";
    options.tuning_table = table_.c_str();
    lssar_context_destroy(context_);
    ASSERT_EQ(lssar_context_create(&options, &context_), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
  }

  // The origin of the forward's schedule in a plan that measures nothing.
  int32_t origin() {
    lssar_plan* plan = nullptr;
    EXPECT_EQ(lssar_plan_create(context_, &problem_, nullptr, &plan), LSSAR_STATUS_OK);
    lssar_schedule_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(lssar_plan_get_schedule(plan, LSSAR_PASS_FORWARD, &info), LSSAR_STATUS_OK);
    lssar_plan_destroy(plan);
    return info.origin;
  }

  std::string directory_, table_;
  lssar_context* context_ = nullptr;
  lssar_problem problem_ = {};
  lssar_tune_options options_ = {};
};

TEST_F(TuneCapi, ACallbackCancels) {
  open_context();
  int calls = 0;
  options_.user = &calls;
  options_.callback = [](const lssar_tune_progress* progress, void* user) -> int32_t {
    EXPECT_EQ(progress->struct_size, sizeof(*progress));
    EXPECT_EQ(progress->search, 0);
    EXPECT_EQ(progress->num_searches, 1);
    EXPECT_NE(std::string(progress->problem).find("d 32"), std::string::npos);
    return ++*static_cast<int*>(user) == 2;
  };
  const lssar_problem* const problems[] = {&problem_};
  EXPECT_EQ(lssar_tune(context_, problems, 1, &options_), LSSAR_STATUS_CANCELLED);
  EXPECT_NE(std::string(lssar_last_error_detail()).find("cancelled"), std::string::npos);
  EXPECT_GE(calls, 2);
  EXPECT_EQ(origin(), LSSAR_ORIGIN_DEFAULT);
}

// batch is the number of sequences, whose lengths are made up. Plans for the same sequences find
// the result; those for one length do not.
TEST_F(TuneCapi, ProblemsOfSequencesAreTuned) {
  open_context();
  problem_.varlen = 1;
  problem_.invariant = 1;
  problem_.rotary_dim = 16;
  problem_.batch = 2;
  problem_.heads = problem_.kv_heads = 1;
  problem_.seq_q = problem_.seq_k = 0;
  const lssar_problem* const problems[] = {&problem_};
  EXPECT_EQ(lssar_tune(context_, problems, 1, &options_), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  EXPECT_EQ(origin(), LSSAR_ORIGIN_PREDICTED);
  open_context();
  EXPECT_EQ(origin(), LSSAR_ORIGIN_PREDICTED);  // of another context, through the table
  problem_.varlen = 0;
  EXPECT_EQ(origin(), LSSAR_ORIGIN_DEFAULT);
}

// Those of the options, which are copied when a plan is made. They have few queries each, so that
// candidates divide keys. The winner is that of plans that state so few: the one that tunes, and
// later ones.
TEST_F(TuneCapi, LengthsOfSequencesMayBeGiven) {
  open_context();
  problem_.varlen = 1;
  problem_.heads = problem_.kv_heads = 1;
  problem_.seq_q = problem_.seq_k = 0;
  lssar_plan_options plan_options = {};
  plan_options.struct_size = sizeof(plan_options);
  plan_options.tuning = LSSAR_TUNING_TUNE;
  plan_options.tune = &options_;
  lssar_plan* plan = nullptr;
  {
    const std::vector<int64_t> queries = {1, 2, 0}, keys = {700, 90, 5};
    options_.lengths_q = queries.data();
    options_.lengths_k = keys.data();
    options_.num_lengths = 3;
    options_.callback = [](const lssar_tune_progress*, void*) -> int32_t { return 1; };
    const lssar_problem* const problems[] = {&problem_};
    EXPECT_EQ(lssar_tune(context_, problems, 1, &options_), LSSAR_STATUS_CANCELLED);
    options_.callback = nullptr;
    EXPECT_EQ(lssar_plan_create(context_, &problem_, &plan_options, &plan),
              LSSAR_STATUS_INVALID_ARGUMENT);
    EXPECT_STREQ(lssar_last_error_detail(),
                 "seq_q = 0: allowed in a plan that tunes with at most 2 queries in "
                 "tune_options.lengths_q are 2 to 16, because schedules for few queries serve only "
                 "plans that state seq_q");
    problem_.seq_q = 2;
    ASSERT_EQ(lssar_plan_create(context_, &problem_, &plan_options, &plan), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
  }
  EXPECT_EQ(lssar_plan_prepare(plan), LSSAR_STATUS_OK) << lssar_last_error_detail();
  lssar_schedule_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(lssar_plan_get_schedule(plan, LSSAR_PASS_FORWARD, &info), LSSAR_STATUS_OK);
  EXPECT_EQ(info.origin, LSSAR_ORIGIN_PREDICTED) << info.reason;
  EXPECT_EQ(std::string(info.schedule_json).find(R"("split_keys":0)"), std::string::npos)
      << info.schedule_json;
  lssar_plan_destroy(plan);
  std::ifstream file(table_);
  const std::string records((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(records.find(R"("lengths":{"k":[700,90,5],"q":[1,2,0]})"), std::string::npos);
  EXPECT_NE(records.find(R"("split_keys":512)"), std::string::npos);
  problem_.seq_k = 700;
  EXPECT_EQ(origin(), LSSAR_ORIGIN_PREDICTED);
  problem_.seq_q = 0;
  EXPECT_EQ(origin(), LSSAR_ORIGIN_DEFAULT);  // of a plan for any number of queries
}

TEST_F(TuneCapi, APlanThatTunesIsFoundByLaterOnes) {
  open_context();
  lssar_plan_options plan_options = {};
  plan_options.struct_size = sizeof(plan_options);
  plan_options.tuning = LSSAR_TUNING_TUNE;
  plan_options.tune = &options_;
  lssar_plan* plan = nullptr;
  ASSERT_EQ(lssar_plan_create(context_, &problem_, &plan_options, &plan), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  ASSERT_EQ(lssar_plan_prepare(plan), LSSAR_STATUS_OK) << lssar_last_error_detail();
  lssar_schedule_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(lssar_plan_get_schedule(plan, LSSAR_PASS_FORWARD, &info), LSSAR_STATUS_OK);
  EXPECT_EQ(info.origin, LSSAR_ORIGIN_PREDICTED) << info.reason;
  ASSERT_EQ(lssar_plan_prepare(plan), LSSAR_STATUS_OK);  // does nothing more
  lssar_plan_destroy(plan);

  EXPECT_EQ(origin(), LSSAR_ORIGIN_PREDICTED);  // of this context
  open_context();
  EXPECT_EQ(origin(), LSSAR_ORIGIN_PREDICTED);  // of the file
}

}  // namespace
