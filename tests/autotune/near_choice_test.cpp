// Records without a window, varlen, rotary positions or invariant are near to problems with one.
#include <gtest/gtest.h>

#include "autotune/model/schedule_choice.h"
#include "tests/autotune/sample_records.h"

namespace lssar {
namespace {

// The choice for the sample problem, with a window of this many keys on the left (-1: none), from
// one record of its sizes.
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

// The choice for a problem of the sample's sizes.
ScheduleChoice choose_for(const Problem& problem, const TuningTable& table,
                          const char* target = "sm_80", const Machine& machine = a100()) {
  return choose_schedule(problem, sizes_of_length(4096), Determinism::kRepeatable,
                         *target_from_name(target), machine, {&table});
}

struct FeatureCase {
  const char* name;
  void (*set)(Problem&);
};
constexpr FeatureCase kFeatureCases[] = {
    {"varlen", [](Problem& problem) { problem.varlen = true; }},
    {"rotary_dim", [](Problem& problem) { problem.rotary_dim = 32; }},
    {"invariant", [](Problem& problem) { problem.invariant = true; }}};

// A record of `problem` whose schedule is not the default.
TuningRecord other_record(const Problem& problem, int64_t seq = 4096) {
  TuningRecord record = sample_record(a100(), seq, problem);
  if (problem.varlen) record.lengths = even_lengths(problem, record.sizes);
  record.schedule.forward.block_rows = 32;
  record.source_hash = *schedule_source_hash(problem, record.schedule, *target_from_name("sm_80"));
  return record;
}

// A record without the feature is near. One with it is exact, whatever the other is, and serves no
// problem without the feature.
TEST(NearChoice, VarlenRotaryAndInvariantAreLikewise) {
  for (const FeatureCase& feature : kFeatureCases) {
    Problem problem = sample_problem();
    feature.set(problem);
    TuningTable table;
    table.add(sample_record(a100()));
    const ScheduleChoice near = choose_for(problem, table);
    EXPECT_EQ(near.origin, ScheduleOrigin::kNearest) << near.reason;
    EXPECT_NE(near.reason.find(std::string(", measured without ") + feature.name),
              std::string::npos)
        << near.reason;
    const TuningRecord own = other_record(problem);
    table.add(own);
    const ScheduleChoice exact = choose_for(problem, table);
    EXPECT_EQ(exact.origin, ScheduleOrigin::kExact) << exact.reason;
    EXPECT_EQ(exact.schedule, own.schedule);
    EXPECT_EQ(exact.reason.find("measured without"), std::string::npos) << exact.reason;
    EXPECT_EQ(choose_for(sample_problem(), table).schedule, sample_record(a100()).schedule);
    TuningTable only_own;
    only_own.add(own);
    EXPECT_EQ(choose_for(sample_problem(), only_own).origin, ScheduleOrigin::kDefault);
  }
}

// Each record lacks something. A record with varlen comes before one with rotary positions, and
// before one with nearer lengths.
TEST(NearChoice, WhatARecordHasComesBeforeItsLengths) {
  Problem problem = sample_problem();
  problem.varlen = true;
  Problem rotary = sample_problem();
  rotary.rotary_dim = 32;
  TuningTable table;
  const TuningRecord of_varlen = other_record(problem, 2048);
  table.add(of_varlen);
  table.add(sample_record(a100(), 4096, rotary));
  problem.rotary_dim = 32;
  const ScheduleChoice choice = choose_for(problem, table);
  EXPECT_EQ(choice.schedule, of_varlen.schedule) << choice.reason;
  EXPECT_NE(choice.reason.find(", measured without rotary_dim"), std::string::npos)
      << choice.reason;
}

// A schedule that would change bits is passed over, whatever its record says.
TEST(NearChoice, OfInvariantChangesNoBits) {
  Problem problem = sample_problem();
  problem.invariant = true;
  TuningRecord record = sample_record(a100());
  record.schedule.forward.block_cols /= 2;
  record.source_hash =
      *schedule_source_hash(record.problem, record.schedule, *target_from_name("sm_80"));
  TuningTable table;
  table.add(record);
  const ScheduleChoice choice = choose_for(problem, table);
  EXPECT_EQ(choice.origin, ScheduleOrigin::kDefault) << choice.reason;
  EXPECT_NE(choice.reason.find("1 not legal here"), std::string::npos) << choice.reason;
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
