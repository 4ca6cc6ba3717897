// Where a plan's schedules come from, through the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "autotune/table/tuning_table.h"
#include "codegen/target.h"
#include "lssar/lssar.h"
#include "tests/cache/temporary_folder.h"
#include "tests/capi/run_capi.h"

namespace lssar {
namespace {

using testing::HasSubstr;

constexpr int kDegree = 6;  // no default schedule's
constexpr int kPower = 13;  // the table that comes with the library has no record of it

std::vector<std::string>* logged = nullptr;

void keep_message(int, const char* message, void*) {
  if (logged != nullptr) logged->push_back(message);
}

class PlanSchedule : public testing::Test {
 protected:
  void SetUp() override {
    lssar_set_log_callback(keep_message, nullptr, LSSAR_LOG_WARNING);
    logged = &messages_;
    options_.struct_size = sizeof(options_);
    problem_.struct_size = sizeof(problem_);
    problem_.passes = LSSAR_PASS_FORWARD;
    problem_.dtype = LSSAR_DTYPE_BF16;
    problem_.head_dim = 64;
    problem_.causal = 1;
    problem_.p = kPower;
    problem_.offset = 1.0;
  }
  void TearDown() override {
    logged = nullptr;
    lssar_set_log_callback(nullptr, nullptr, LSSAR_LOG_WARNING);
  }

  ContextPtr open(const std::string& table) {
    lssar_context_options options = {};
    options.struct_size = sizeof(options);
    options.device = LSSAR_DEVICE_RECORD;
    options.cache_directory = "none";
    options.tuning_table = table.c_str();
    lssar_context* context = nullptr;
    EXPECT_EQ(lssar_context_create(&options, &context), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    return ContextPtr(context);
  }

  PlanPtr create(const ContextPtr& context) {
    lssar_plan* plan = nullptr;
    EXPECT_EQ(lssar_plan_create(context.get(), &problem_, &options_, &plan), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    return PlanPtr(plan);
  }

  static lssar_schedule_info schedule_of(const PlanPtr& plan, int32_t pass = LSSAR_PASS_FORWARD) {
    lssar_schedule_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(lssar_plan_get_schedule(plan.get(), pass, &info), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    return info;
  }

  static int degree_of(const char* schedule_json) {
    return nlohmann::json::parse(schedule_json).at("softplus_degree").get<int>();
  }

  // A winner for problem_ at 4096 keys, as if it had been measured on the record device.
  void write_record(Determinism determinism = Determinism::kRepeatable) {
    lssar_context_info info = {};
    info.struct_size = sizeof(info);
    const ContextPtr context = open("none");
    ASSERT_EQ(lssar_context_get_info(context.get(), &info), LSSAR_STATUS_OK);
    TuningRecord record;
    record.problem.causal = true;
    record.problem.pass = problem_.passes == LSSAR_PASS_BACKWARD ? Pass::kBackward : Pass::kForward;
    record.problem.p = kPower;
    record.sizes = {.batch = 4, .heads = 16, .kv_heads = 16, .seq_q = 4096, .seq_k = 4096};
    record.bucket = bucket_of(record.problem, record.sizes, determinism);
    const Target target = *target_from_name(info.target);
    record.schedule =
        default_schedule(record.problem, target,
                         determinism == Determinism::kAny ? DqMode::kAtomic : DqMode::kSplit);
    record.schedule.softplus_degree = kDegree;
    if (record.problem.pass == Pass::kBackward && determinism == Determinism::kRepeatable)
      record.schedule.epsilon = EpsilonFrom::kPass;
    record.source_hash = *schedule_source_hash(record.problem, record.schedule, target);
    record.machine = {info.device_name, info.target, info.num_sms, info.driver, "nvrtc 13.0.88"};
    record.evidence = Evidence::kMeasured;
    record.chosen = true;
    record.ms = 0.5;
    record.time = "2026-11-21T13:16:13Z";
    const Status status = append_records(table_, {record});
    ASSERT_TRUE(status.ok()) << status.message();
  }

  TemporaryFolder folder_;
  const std::string table_ = folder_ / "tuning.jsonl";
  std::vector<std::string> messages_;
  lssar_problem problem_ = {};
  lssar_plan_options options_ = {};
};

TEST_F(PlanSchedule, WithoutATableIsTheBuiltInDefault) {
  const PlanPtr plan = create(open("none"));
  const lssar_schedule_info info = schedule_of(plan);
  EXPECT_EQ(info.origin, LSSAR_ORIGIN_DEFAULT);
  EXPECT_THAT(info.reason, HasSubstr("no record for forward causal bf16 d 64"));
  EXPECT_EQ(degree_of(info.schedule_json), 4);
  EXPECT_EQ(info.unaligned_origin, LSSAR_ORIGIN_DEFAULT);
  EXPECT_THAT(info.unaligned_schedule_json, HasSubstr("plain"));
}

TEST_F(PlanSchedule, IsTheOneThatWasMeasuredHere) {
  write_record();
  problem_.batch = 4;
  problem_.heads = 16;
  problem_.seq_q = problem_.seq_k = 0;
  const PlanPtr plan = create(open(table_));
  const lssar_schedule_info info = schedule_of(plan);
  EXPECT_EQ(info.origin, LSSAR_ORIGIN_NEAREST) << info.reason;  // the lengths are not known
  EXPECT_EQ(degree_of(info.schedule_json), kDegree);
  EXPECT_THAT(info.reason, HasSubstr(table_));
  // Calls that are not aligned have a bucket of their own, and nobody measured there.
  EXPECT_EQ(info.unaligned_origin, LSSAR_ORIGIN_DEFAULT) << info.unaligned_reason;
}

// The forward for training and the backward of a plan share what is saved.
TEST_F(PlanSchedule, OfATrainingStepHasOneSourceOfEpsilon) {
  const lssar_sizes sizes = {2, 4, 4, 100, 100};
  const auto epsilon_of = [](const char* schedule_json) {
    return nlohmann::json::parse(schedule_json).at("epsilon").get<std::string>();
  };
  const auto x_bytes = [&](const PlanPtr& plan) {
    lssar_saved_sizes saved = {};
    EXPECT_EQ(lssar_plan_saved_sizes(plan.get(), &sizes, &saved), LSSAR_STATUS_OK);
    return saved.x;
  };
  problem_.passes = LSSAR_PASS_BACKWARD;
  write_record();
  problem_.batch = 4;
  problem_.heads = 16;
  EXPECT_EQ(x_bytes(create(open("none"))), 2u * 4 * 100 * 64 * 2);
  const PlanPtr alone = create(open(table_));
  EXPECT_EQ(epsilon_of(schedule_of(alone, LSSAR_PASS_BACKWARD).schedule_json), "pass");
  EXPECT_EQ(x_bytes(alone), 0u);

  problem_.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  const PlanPtr step = create(open(table_));
  EXPECT_EQ(x_bytes(step), 0u);
  for (const int32_t pass : {LSSAR_PASS_FORWARD_TRAIN, LSSAR_PASS_BACKWARD}) {
    const lssar_schedule_info info = schedule_of(step, pass);
    EXPECT_EQ(epsilon_of(info.schedule_json), "pass") << pass;
    EXPECT_EQ(epsilon_of(info.unaligned_schedule_json), "pass") << pass;
    EXPECT_THAT(info.unaligned_reason, HasSubstr("epsilon as the plan's backward's"));
  }
  EXPECT_THAT(schedule_of(step, LSSAR_PASS_FORWARD_TRAIN).reason,
              HasSubstr("epsilon as the plan's backward's"));
  EXPECT_EQ(epsilon_of(schedule_of(step).schedule_json), "x");  // which has none

  options_.schedule_json = R"({"epsilon": "pass"})";
  const PlanPtr given = create(open("none"));
  EXPECT_EQ(x_bytes(given), 0u);
  EXPECT_EQ(epsilon_of(schedule_of(given, LSSAR_PASS_FORWARD_TRAIN).schedule_json), "pass");
}

TEST_F(PlanSchedule, TakesTheSizesOfTheProblem) {
  write_record();
  problem_.seq_q = problem_.seq_k = 2048;
  const PlanPtr plan = create(open(table_));
  const lssar_schedule_info info = schedule_of(plan);
  EXPECT_THAT(info.reason, HasSubstr("2 octaves from seq 2048x2048 slices 0")) << info.reason;
}

TEST_F(PlanSchedule, OfThePolicyBuiltInIgnoresTheTable) {
  write_record();
  options_.tuning = LSSAR_TUNING_BUILT_IN;
  EXPECT_EQ(schedule_of(create(open(table_))).origin, LSSAR_ORIGIN_DEFAULT);
}

TEST_F(PlanSchedule, ThatIsGivenGoesBeforeTheTable) {
  write_record();
  options_.schedule_json = "{\"softplus_degree\": 7}";
  const PlanPtr plan = create(open(table_));
  const lssar_schedule_info info = schedule_of(plan);
  EXPECT_EQ(info.origin, LSSAR_ORIGIN_GIVEN);
  EXPECT_EQ(info.unaligned_origin, LSSAR_ORIGIN_GIVEN);
  EXPECT_EQ(degree_of(info.schedule_json), 7);
  EXPECT_EQ(degree_of(info.unaligned_schedule_json), 7);
}

TEST_F(PlanSchedule, GradientsAreRepeatableUnlessAskedOtherwise) {
  problem_.passes = LSSAR_PASS_BACKWARD;
  write_record(Determinism::kAny);
  const ContextPtr context = open(table_);
  const PlanPtr repeatable = create(context);
  EXPECT_THAT(schedule_of(repeatable, LSSAR_PASS_BACKWARD).schedule_json, HasSubstr("\"ordered\""));
  options_.determinism = LSSAR_DETERMINISM_ANY;
  const PlanPtr any = create(context);
  EXPECT_THAT(schedule_of(any, LSSAR_PASS_BACKWARD).schedule_json, HasSubstr("\"atomic\""));
}

TEST_F(PlanSchedule, OfAPlanWithOneKernelHasNoSecond) {
  problem_.alignment = 16;
  const PlanPtr aligned = create(open("none"));
  EXPECT_EQ(schedule_of(aligned).unaligned_schedule_json, nullptr);
  EXPECT_EQ(schedule_of(aligned).unaligned_reason, nullptr);
  problem_.alignment = 2;
  const PlanPtr unaligned = create(open("none"));
  EXPECT_THAT(schedule_of(unaligned).schedule_json, HasSubstr("plain"));
  EXPECT_EQ(schedule_of(unaligned).unaligned_schedule_json, nullptr);
}

TEST_F(PlanSchedule, IsReadByManyThreadsWhileThePlanIsPrepared) {
  const PlanPtr plan = create(open("none"));
  const lssar_schedule_info before = schedule_of(plan);
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        const lssar_schedule_info info = schedule_of(plan);
        EXPECT_EQ(info.reason, before.reason);
        EXPECT_EQ(info.schedule_json, before.schedule_json);
      }
    });
  }
  EXPECT_EQ(lssar_plan_prepare(plan.get()), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(PlanSchedule, AnOlderCallersOptionsMeanTheDefaults) {
  write_record();
  options_.tuning = LSSAR_TUNING_BUILT_IN;  // beyond the older struct
  options_.struct_size = offsetof(lssar_plan_options, tuning);
  EXPECT_EQ(schedule_of(create(open(table_))).origin, LSSAR_ORIGIN_NEAREST);

  lssar_context_options older = {};
  older.struct_size = offsetof(lssar_context_options, tuning_table);
  older.device = LSSAR_DEVICE_RECORD;
  older.cache_directory = "none";
  lssar_context* context = nullptr;
  EXPECT_EQ(lssar_context_create(&older, &context), LSSAR_STATUS_OK) << lssar_last_error_detail();
  lssar_context_destroy(context);
}

TEST_F(PlanSchedule, ATableIsLookedForInTheCache) {
  write_record();
  lssar_context_options options = {};
  options.struct_size = sizeof(options);
  options.device = LSSAR_DEVICE_RECORD;
  options.cache_directory = folder_.path().c_str();
  const char* given = std::getenv("LSSAR_TUNING_TABLE");
  const std::string old = given == nullptr ? "" : given;
  ::unsetenv("LSSAR_TUNING_TABLE");
  lssar_context* context = nullptr;
  EXPECT_EQ(lssar_context_create(&options, &context), LSSAR_STATUS_OK);
  if (given != nullptr) ::setenv("LSSAR_TUNING_TABLE", old.c_str(), 1);
  EXPECT_EQ(schedule_of(create(ContextPtr(context))).origin, LSSAR_ORIGIN_NEAREST);
}

TEST_F(PlanSchedule, AMissingTableIsNoError) {
  EXPECT_EQ(schedule_of(create(open(folder_ / "nothing"))).origin, LSSAR_ORIGIN_DEFAULT);
  EXPECT_TRUE(messages_.empty());
}

TEST_F(PlanSchedule, LinesThatAreNoRecordsAreWarnedOfOnce) {
  write_record();
  std::ofstream(table_, std::ios::app) << "torn\nand another\n";
  const ContextPtr context = open(table_);
  EXPECT_EQ(schedule_of(create(context)).origin, LSSAR_ORIGIN_NEAREST);
  EXPECT_EQ(schedule_of(create(context)).origin, LSSAR_ORIGIN_NEAREST);
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_THAT(messages_[0], HasSubstr("2 lines are no records and are passed over; line 3: "));
}

TEST_F(PlanSchedule, ATableOfANewerVersionIsWarnedOf) {
  spill(table_, "{\"format\":\"lssar-tuning-table\",\"version\":2}\n");
  EXPECT_EQ(schedule_of(create(open(table_))).origin, LSSAR_ORIGIN_DEFAULT);
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_THAT(messages_[0], HasSubstr("version 2 of the format"));
}

TEST_F(PlanSchedule, ATableThatCannotBeReadIsWarnedOf) {
  EXPECT_EQ(schedule_of(create(open(folder_.path()))).origin, LSSAR_ORIGIN_DEFAULT);
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_THAT(messages_[0], HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace lssar
