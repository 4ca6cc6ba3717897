// Records have no varlen, rotary positions or invariant: for a problem with one, they are near at
// best. So are records without a window for a problem with one.
#include <gtest/gtest.h>

#include "autotune/model/schedule_choice.h"
#include "tests/autotune/sample_records.h"

namespace lssar {
namespace {

// The choice for the sample problem, with a window of so many keys on the left (-1: none), from one
// record of its sizes.
ScheduleChoice choose(const char* target, const Machine& machine, const TuningRecord& record,
                      int64_t window_left) {
  TuningTable table;
  table.add(record);
  Problem problem = sample_problem();
  problem.window_left = window_left;
  return choose_schedule(problem, sizes_of_length(4096), Determinism::kRepeatable,
                         *target_from_name(target), machine, {&table});
}

TEST(NearChoice, ARecordOfItsSizesIsNearAndTheReasonSaysWhy) {
  const TuningRecord record = sample_record(a100());
  const ScheduleChoice plain = choose("sm_80", a100(), record, -1);
  EXPECT_EQ(plain.origin, ScheduleOrigin::kExact) << plain.reason;
  EXPECT_EQ(plain.reason.find("without the window"), std::string::npos) << plain.reason;
  const ScheduleChoice windowed = choose("sm_80", a100(), record, 100);
  EXPECT_EQ(windowed.origin, ScheduleOrigin::kNearest) << windowed.reason;
  EXPECT_EQ(windowed.schedule, plain.schedule);
  EXPECT_NE(windowed.reason.find(", measured without the window"), std::string::npos)
      << windowed.reason;
}

// What was measured with the window itself comes first, even at other lengths. It says nothing of
// other windows, nor of problems without one.
TEST(NearChoice, ARecordOfTheWindowIsBetter) {
  Problem problem = sample_problem();
  problem.window_left = 100;
  TuningRecord windowed = sample_record(a100(), 2048, problem);
  windowed.schedule.forward.block_cols = 32;
  windowed.source_hash =
      *schedule_source_hash(windowed.problem, windowed.schedule, *target_from_name("sm_80"));
  TuningTable table;
  table.add(windowed);
  const auto chosen = [&](int64_t window_left, int64_t length) {
    Problem problem = sample_problem();
    problem.window_left = window_left;
    return choose_schedule(problem, sizes_of_length(length), Determinism::kRepeatable,
                           *target_from_name("sm_80"), a100(), {&table});
  };
  EXPECT_EQ(chosen(100, 2048).origin, ScheduleOrigin::kExact) << chosen(100, 2048).reason;
  EXPECT_EQ(chosen(101, 2048).origin, ScheduleOrigin::kDefault) << chosen(101, 2048).reason;
  EXPECT_EQ(chosen(-1, 2048).origin, ScheduleOrigin::kDefault) << chosen(-1, 2048).reason;
  const TuningRecord plain = sample_record(a100());
  ASSERT_FALSE(plain.schedule == windowed.schedule);
  table.add(plain);
  EXPECT_EQ(chosen(100, 4096).schedule, windowed.schedule) << chosen(100, 4096).reason;
  EXPECT_EQ(chosen(101, 4096).schedule, plain.schedule) << chosen(101, 4096).reason;
  EXPECT_EQ(chosen(-1, 4096).origin, ScheduleOrigin::kExact) << chosen(-1, 4096).reason;
}

TEST(NearChoice, VarlenIsLikewise) {
  TuningTable table;
  table.add(sample_record(a100()));
  Problem problem = sample_problem();
  problem.varlen = true;
  const ScheduleChoice choice =
      choose_schedule(problem, sizes_of_length(4096), Determinism::kRepeatable,
                      *target_from_name("sm_80"), a100(), {&table});
  EXPECT_EQ(choice.origin, ScheduleOrigin::kNearest) << choice.reason;
  EXPECT_NE(choice.reason.find(", measured without varlen"), std::string::npos) << choice.reason;
}

TEST(NearChoice, IsOfProblemsWithMoreThanARecordHas) {
  Problem problem = sample_problem();
  EXPECT_EQ(not_in_records(problem), "");
  problem.invariant = true;
  EXPECT_EQ(not_in_records(problem), "invariant");
  problem.varlen = true;
  EXPECT_EQ(not_in_records(problem), "varlen");
  problem = sample_problem();
  problem.rotary_dim = 2;
  EXPECT_EQ(not_in_records(problem), "rotary_dim");
}

TEST(NearChoice, APredictionSaysSoToo) {
  TuningRecord record = sample_record({"virtual", "sm_80", 0, "", "llvm 19.1.7"});
  record.evidence = Evidence::kPredicted;
  const ScheduleChoice choice = choose("sm_80", a100(), record, 100);
  EXPECT_EQ(choice.origin, ScheduleOrigin::kPredicted) << choice.reason;
  EXPECT_NE(choice.reason.find(", predicted without the window"), std::string::npos)
      << choice.reason;
}

}  // namespace
}  // namespace lssar
