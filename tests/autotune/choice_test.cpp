// Which record decides, and what the reason says.
#include "autotune/model/schedule_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <random>

#include "autotune/model/device_model.h"
#include "codegen/schedule_rules.h"
#include "device/record_device.h"
#include "tests/autotune/sample_records.h"

namespace lssar {
namespace {

constexpr int kNoDegree = 0;

// Records tell themselves apart by the degree of their polynomial.
TuningRecord with_degree(TuningRecord record, int degree) {
  record.schedule.softplus_degree = degree;
  record.source_hash = *schedule_source_hash(record.problem, record.schedule,
                                             *target_from_name(record.machine.target));
  return record;
}

Machine h200_with(const std::function<void(Machine&)>& change) {
  Machine machine = h200();
  change(machine);
  return machine;
}

Machine h100_pcie() { return {"NVIDIA H100 PCIe", "sm_90a", 114, "13.0", "nvrtc 13.0.88"}; }

TuningRecord predicted(int64_t seq) {
  TuningRecord record = sample_record({"virtual", "sm_90a", 0, "", "llvm 19.1.7"}, seq);
  record.evidence = Evidence::kPredicted;
  return record;
}

ScheduleChoice choose(const std::vector<const TuningTable*>& tables,
                      const Problem& problem = sample_problem(), int64_t seq = 4096,
                      Determinism determinism = Determinism::kRepeatable) {
  return choose_schedule(problem, sizes_of_length(seq), determinism, *target_from_name("sm_90a"),
                         h200(), tables);
}

ScheduleChoice choose_from(const std::vector<TuningRecord>& records) {
  TuningTable table;
  for (const TuningRecord& record : records) table.add(record);
  return choose({&table});
}

struct Case {
  const char* name;
  std::vector<TuningRecord> records;
  ScheduleOrigin origin;
  int degree;  // of the schedule; kNoDegree: the default's
};

TEST(Choice, GoesFromTheBestEvidenceToTheLeast) {
  const TuningRecord exact = with_degree(sample_record(), 5);
  const TuningRecord nearest = with_degree(sample_record(h200(), 2048), 6);
  const TuningRecord farther = with_degree(sample_record(h200(), 512), 7);
  const TuningRecord architecture = with_degree(sample_record(h100_pcie()), 7);
  const TuningRecord guess = with_degree(predicted(4096), 3);
  const TuningRecord foreign = with_degree(sample_record(a100()), 8);
  const Case cases[] = {
      {"exact", {guess, architecture, farther, nearest, exact}, ScheduleOrigin::kExact, 5},
      {"nearest", {guess, architecture, farther, nearest}, ScheduleOrigin::kNearest, 6},
      {"not from afar", {farther, guess}, ScheduleOrigin::kPredicted, 3},
      {"architecture", {guess, foreign, architecture}, ScheduleOrigin::kArchitecture, 7},
      {"predicted", {foreign, guess}, ScheduleOrigin::kPredicted, 3},
      {"default", {foreign}, ScheduleOrigin::kDefault, kNoDegree},
      {"nothing", {}, ScheduleOrigin::kDefault, kNoDegree},
  };
  const Schedule by_default = default_schedule(sample_problem(), *target_from_name("sm_90a"));
  for (const Case& one : cases) {
    const ScheduleChoice choice = choose_from(one.records);
    EXPECT_EQ(choice.origin, one.origin) << one.name << ": " << choice.reason;
    const int degree = one.degree == kNoDegree ? by_default.softplus_degree : one.degree;
    EXPECT_EQ(choice.schedule.softplus_degree, degree) << one.name << ": " << choice.reason;
  }
}

TEST(Choice, AmongRecordsOfAStepPrefersWhatIsMoreLikeThisMachineThenTheLater) {
  const auto made = [](const std::function<void(Machine&)>& change, int degree,
                       const std::string& day = "21") {
    TuningRecord record = with_degree(sample_record(h200_with(change)), degree);
    record.time = "2026-11-" + day + "T00:00:00Z";
    return record;
  };
  const auto same = [](Machine&) {};
  const auto compiler = [](Machine& m) { m.compiler = "nvrtc 12.8.61"; };
  const auto driver = [](Machine& m) { m.driver = "12.8"; };
  const Case cases[] = {
      {"later",
       {made(same, 5, "20"), made(same, 6, "21"), made(same, 7, "19")},
       ScheduleOrigin::kExact,
       6},
      {"compiler before time",
       {made(same, 5, "20"), made(compiler, 6, "21")},
       ScheduleOrigin::kExact,
       5},
      {"driver before time",
       {made(driver, 6, "21"), made(same, 5, "20")},
       ScheduleOrigin::kExact,
       5},
      {"compiler before driver", {made(compiler, 6), made(driver, 5)}, ScheduleOrigin::kExact, 5},
      {"another compiler's is better than none", {made(compiler, 6)}, ScheduleOrigin::kExact, 6},
      {"another number of SMs is another GPU",
       {made([](Machine& m) { m.num_sms = 66; }, 6)},
       ScheduleOrigin::kArchitecture,
       6},
      {"a part of this GPU before another model",
       {with_degree(sample_record(h100_pcie()), 5), made([](Machine& m) { m.num_sms = 16; }, 6)},
       ScheduleOrigin::kArchitecture,
       6},
      {"the nearest size before the nearest model",
       {with_degree(sample_record(h100_pcie()), 5),
        with_degree(sample_record(h200_with([](Machine& m) { m.num_sms = 66; }), 2048), 6)},
       ScheduleOrigin::kArchitecture,
       5},
  };
  for (const Case& one : cases) {
    const ScheduleChoice choice = choose_from(one.records);
    EXPECT_EQ(choice.origin, one.origin) << one.name << ": " << choice.reason;
    EXPECT_EQ(choice.schedule.softplus_degree, one.degree) << one.name << ": " << choice.reason;
  }
}

TEST(Choice, OnlyWinnersThatAreRightCount) {
  TuningRecord beaten = with_degree(sample_record(), 5);
  beaten.chosen = false;
  TuningRecord wrong = with_degree(sample_record(), 6);
  wrong.verdict = Verdict::kWrong;
  EXPECT_EQ(choose_from({beaten, wrong}).origin, ScheduleOrigin::kDefault);
}

TEST(Choice, FixedLengthsMakeANearRecordNotAnotherOne) {
  Problem fixed = sample_problem();
  fixed.seq_q = fixed.seq_k = 4096;
  const TuningRecord of_fixed = with_degree(sample_record(h200(), 4096, fixed), 5);
  const TuningRecord of_any = with_degree(sample_record(), 6);
  TuningTable table;
  table.add(of_any);
  EXPECT_EQ(choose({&table}, fixed).origin, ScheduleOrigin::kNearest);
  EXPECT_EQ(choose({&table}, fixed).schedule.softplus_degree, 6);
  table.add(of_fixed);
  EXPECT_EQ(choose({&table}, fixed).origin, ScheduleOrigin::kExact);
  EXPECT_EQ(choose({&table}, fixed).schedule.softplus_degree, 5);
  EXPECT_EQ(choose({&table}).schedule.softplus_degree, 6);
  EXPECT_EQ(choose({&table}, sample_problem(), 2048).schedule.softplus_degree, 6);
}

TEST(Choice, OnlyProblemsOfTheBucketCount) {
  Problem other = sample_problem();
  other.causal = false;
  const TuningRecord record = with_degree(sample_record(h200(), 4096, other), 5);
  EXPECT_EQ(choose_from({record}).origin, ScheduleOrigin::kDefault);
}

TEST(Choice, ARecordOfAnotherGeneratorIsPassedOverForAnEarlierOne) {
  TuningRecord stale = with_degree(sample_record(), 5);
  stale.time = "2026-11-22T00:00:00Z";
  stale.source_hash = "0000000000000000";
  const TuningRecord good = with_degree(sample_record(), 6);
  const ScheduleChoice choice = choose_from({stale, good});
  EXPECT_EQ(choice.origin, ScheduleOrigin::kExact);
  EXPECT_EQ(choice.schedule.softplus_degree, 6);
  EXPECT_NE(choice.reason.find("passed over: 1 of another generator"), std::string::npos)
      << choice.reason;
}

TEST(Choice, AScheduleThatIsNotLegalHereIsPassedOver) {
  TuningRecord illegal = sample_record();
  illegal.schedule.softplus_degree = 99;
  const ScheduleChoice choice = choose_from({illegal, sample_record(a100())});
  EXPECT_EQ(choice.origin, ScheduleOrigin::kDefault);
  EXPECT_EQ(choice.reason,
            "default (no record for forward causal bf16 d 64 dv 64 p 15 gqa 1 seq 4096x4096 slices "
            "16 repeatable on NVIDIA H200 (sm_90a); records passed over: 1 not legal here, 1 of "
            "other architectures)");
}

TEST(Choice, ARecordThatMayNotRepeatIsNotUsedForRepeatableGradients) {
  const Problem problem = sample_problem(Pass::kBackward);
  const Target target = *target_from_name("sm_90a");
  TuningRecord record = sample_record(h200(), 4096, problem);
  record.schedule = default_schedule(problem, target, DqMode::kAtomic);
  record.source_hash = *schedule_source_hash(problem, record.schedule, target);
  // As if somebody had tuned with the wrong flag.
  ASSERT_EQ(record.bucket.determinism, Determinism::kRepeatable);
  TuningTable table;
  table.add(record);
  EXPECT_EQ(choose({&table}, problem).schedule.dq_mode, DqMode::kSplit);

  record.bucket.determinism = Determinism::kAny;
  TuningTable any;
  any.add(record);
  EXPECT_EQ(choose({&any}, problem).origin, ScheduleOrigin::kDefault);
  const ScheduleChoice choice = choose({&any}, problem, 4096, Determinism::kAny);
  EXPECT_EQ(choice.origin, ScheduleOrigin::kExact) << choice.reason;
  EXPECT_EQ(choice.schedule.dq_mode, DqMode::kAtomic);
}

TEST(Choice, AmongTablesDistanceDecidesBeforeTheirOrder) {
  TuningTable mine, shipped;
  mine.add(with_degree(sample_record(h200(), 2048), 5));
  shipped.add(with_degree(sample_record(h200(), 8192), 6));
  EXPECT_EQ(choose({&mine, &shipped}).schedule.softplus_degree, 5);  // as near: the earlier table
  EXPECT_EQ(choose({&mine, &shipped}, sample_problem(), 8192).schedule.softplus_degree, 6);
  shipped.add(with_degree(sample_record(), 7));
  EXPECT_EQ(choose({&mine, &shipped}).schedule.softplus_degree, 7);
}

TEST(Choice, ReasonNamesTheEvidence) {
  const ScheduleChoice exact = choose_from({sample_record()});
  EXPECT_EQ(
      exact.reason,
      "tuned (exact: measured 1.25 ms on NVIDIA H200 on 2026-11-21, bucket forward causal bf16 "
      "d 64 dv 64 p 15 gqa 1 seq 4096x4096 slices 16 repeatable)");
  const ScheduleChoice nearest = choose_from({sample_record(h200(), 2048)});
  EXPECT_NE(nearest.reason.find("2 octaves from seq 4096x4096 slices 16"), std::string::npos)
      << nearest.reason;
  const ScheduleChoice guess = choose_from({predicted(4096)});
  EXPECT_TRUE(guess.reason.starts_with("tuned (predicted 1.25 ms for sm_90a")) << guess.reason;
}

TEST(Choice, IsTheSameForTheSameRecordsInAnyOrder) {
  std::vector<TuningRecord> records;
  for (const int64_t seq : {2048, 8192}) {
    for (int degree = 4; degree <= 7; ++degree) {
      records.push_back(with_degree(sample_record(h200(), seq), degree));  // all at one time
      records.push_back(with_degree(sample_record(h100_pcie(), seq), degree));
    }
  }
  const ScheduleChoice first = choose_from(records);
  EXPECT_EQ(first.origin, ScheduleOrigin::kNearest);
  std::mt19937 random(5);
  for (int i = 0; i < 50; ++i) {
    std::shuffle(records.begin(), records.end(), random);
    const ScheduleChoice choice = choose_from(records);
    EXPECT_EQ(choice.schedule, first.schedule);
    EXPECT_EQ(choice.reason, first.reason);
  }
}

// As after an update of the library. A kernel's source costs milliseconds to make.
TEST(Choice, AThousandStaleWinnersCostOneSource) {
  TuningRecord stale = sample_record();
  stale.source_hash = "0000000000000000";
  TuningTable table;
  for (int i = 0; i < 1000; ++i) {
    stale.samples = i + 1;
    table.add(stale);
  }
  const std::clock_t begin = std::clock();
  EXPECT_EQ(choose({&table}).origin, ScheduleOrigin::kDefault);
  EXPECT_LT(std::clock() - begin, 2 * CLOCKS_PER_SEC);  // of this process, whatever else runs
}

TEST(Choice, TheTableIsLeftAsItIs) {
  TuningRecord stale = sample_record();
  stale.source_hash = "0000000000000000";
  TuningTable table;
  table.add(stale);
  table.add(sample_record(a100()));
  const std::string before = table.canonical_text();
  EXPECT_EQ(choose({&table}).origin, ScheduleOrigin::kDefault);
  EXPECT_EQ(table.canonical_text(), before);
}

TEST(RecordStates, SayWhyARecordCannotDecide) {
  TuningRecord record = sample_record();
  EXPECT_EQ(record_state(record), RecordState::kCurrent);
  record.source_hash = "0000000000000000";
  EXPECT_EQ(record_state(record), RecordState::kStale);
  record.schedule.softplus_degree = 99;
  EXPECT_EQ(record_state(record), RecordState::kIllegal);
  record = sample_record();
  record.machine.target = "sm_75";
  EXPECT_EQ(record_state(record), RecordState::kIllegal);
}

TEST(MachineOf, AVirtualDeviceIsOneWhateverItRunsOn) {
  DeviceInfo info;
  info.kind = "virtual";
  info.name = "virtual device (AVX-512)";
  info.num_sms = 64;
  info.target = *target_from_name("sm_90a");
  EXPECT_EQ(machine_of(info, "llvm 19.1.7"), (Machine{"virtual", "sm_90a", 0, "", "llvm 19.1.7"}));
  info.kind = "cuda";
  info.name = "NVIDIA H200";
  info.num_sms = 132;
  info.driver = "13.0";
  EXPECT_EQ(machine_of(info, "nvrtc 13.0.88"), h200());
}

// It runs nothing, so its one SM is no GPU's: estimates are for the target's usual GPU.
TEST(DeviceModelOf, TheRecordingDeviceHasTheSmsOfTheUsualGpu) {
  const Machine recording = {kRecordDeviceName, "sm_90a", 1, "", "nvrtc 13.0.88"};
  EXPECT_EQ(model_units(*device_model(recording)), 132);
}

// What ships must have been measured: a prediction belongs to the functions that choose defaults.
TEST(ShippedTable, HoldsMeasuredRecordsOfThisGeneratorOnly) {
  for (const TuningRecord& record : shipped_table().records()) {
    EXPECT_EQ(record.evidence, Evidence::kMeasured) << to_string(record.bucket);
    EXPECT_EQ(record_state(record), RecordState::kCurrent)
        << record.machine.target << ", " << to_string(record.bucket)
        << ": the generator makes another source now; measure again";
    EXPECT_TRUE(record.chosen) << to_string(record.bucket);
    EXPECT_EQ(record.verdict, Verdict::kOk) << to_string(record.bucket);
  }
}

// A record tuned at 512 keys and 8 heads, whose tiles are too small for anything larger.
TuningRecord of_a_small_problem(const Problem& problem) {
  TuningRecord record = sample_record(h200(), 512, problem);
  record.schedule.variant = Variant::kPortable;
  choose_portable(record.schedule, problem, *target_from_name("sm_90a"));
  record.schedule.forward = {.block_rows = 16, .block_cols = 32, .stages = 2, .min_blocks = 1};
  record.source_hash = *schedule_source_hash(problem, record.schedule, *target_from_name("sm_90a"));
  return record;
}

TEST(DistantRecord, DoesNotDecideWhereTheModelCallsItSlowerThanTheDefault) {
  const Problem problem = sample_problem();
  TuningTable table;
  table.add(of_a_small_problem(problem));
  EXPECT_EQ(choose({&table}, problem, 1024).schedule, table.records()[0].schedule);
  const ScheduleChoice choice = choose({&table}, problem, 8192);
  EXPECT_EQ(choice.origin, ScheduleOrigin::kDefault) << choice.reason;
  EXPECT_NE(choice.reason.find("1 of distant sizes and slower than the default by the cost model"),
            std::string::npos)
      << choice.reason;
}

TEST(DistantRecord, DecidesWhereTheModelCallsItFaster) {
  const Problem problem = sample_problem();
  TuningRecord record = with_degree(sample_record(h200(), 512, problem), 3);
  TuningTable table;
  table.add(record);
  const ScheduleChoice choice = choose({&table}, problem, 8192);
  EXPECT_EQ(choice.origin, ScheduleOrigin::kNearest) << choice.reason;
  EXPECT_NE(choice.reason.find("x as fast as the default by the cost model"), std::string::npos)
      << choice.reason;
}

TEST(DistantRecord, IsNotOneForABatchThatIsNotKnown) {
  const TuningRecord record = with_degree(sample_record(), 7);  // slower by the model
  TuningTable table;
  table.add(record);
  Sizes sizes = sizes_of_length(4096);
  sizes.batch = 0;
  const ScheduleChoice choice = choose_schedule(sample_problem(), sizes, Determinism::kRepeatable,
                                                *target_from_name("sm_90a"), h200(), {&table});
  EXPECT_EQ(choice.origin, ScheduleOrigin::kNearest) << choice.reason;
}

TEST(DistantRecord, ComesAfterNearOnesOfLessEvidence) {
  const TuningRecord far = with_degree(sample_record(h200(), 512), 3);
  const TuningRecord near_guess = with_degree(predicted(4096), 5);
  const ScheduleChoice choice = choose_from({far, near_guess});
  EXPECT_EQ(choice.origin, ScheduleOrigin::kPredicted) << choice.reason;
}

TEST(Choice, AGivenScheduleGoesBeforeEveryRecord) {
  TuningTable table;
  table.add(with_degree(sample_record(), 6));
  Schedule given = table.records()[0].schedule;
  given.softplus_degree = 7;
  const Target target = *target_from_name("sm_90a");
  const ScheduleChoice choice =
      choose_schedule(sample_problem(), sizes_of_length(4096), Determinism::kRepeatable, target,
                      h200(), {&table}, given);
  EXPECT_EQ(choice.schedule, given);
  EXPECT_EQ(choice.origin, ScheduleOrigin::kGiven);
  EXPECT_EQ(choice.reason, "given by the caller");
  EXPECT_STREQ(source_name(choice), "given");
}

TEST(Choice, WithoutTablesIsTheDefaultForEitherDeterminism) {
  const Problem problem = sample_problem(Pass::kBackward);
  const Target target = *target_from_name("sm_90a");
  for (const Determinism determinism : {Determinism::kRepeatable, Determinism::kAny}) {
    const ScheduleChoice choice = choose({}, problem, 4096, determinism);
    EXPECT_EQ(choice.schedule, default_schedule(problem, target, determinism));
    EXPECT_EQ(choice.reason, "default (tuning tables left out)");
    EXPECT_STREQ(source_name(choice), "default");
  }
}

TEST(Choice, SaysWhetherTheUsersTableOrTheLibrarysDecided) {
  ScheduleChoice choice = choose_from({sample_record()});
  EXPECT_STREQ(source_name(choice), "tuned");
  choice.is_shipped = true;  // by the shipped table, which has no record yet
  EXPECT_STREQ(source_name(choice), "shipped");
}

}  // namespace
}  // namespace lssar
