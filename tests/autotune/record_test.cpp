// Records as JSON: every field there and back, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "autotune/table/record_time.h"
#include "autotune/table/table_lines.h"
#include "autotune/table/tuning_record.h"
#include "tests/autotune/sample_records.h"

namespace lssar {
namespace {

// No field has its default value.
TuningRecord unusual_record() {
  TuningRecord record = sample_record(a100(), 512, sample_problem(Pass::kBackward));
  Problem& problem = record.problem;
  problem.dtype = DType::kFp16;
  problem.head_dim = 128;
  problem.head_dim_v = 96;
  problem.seq_q = 512;
  problem.seq_k = 640;
  problem.batch = 3;
  problem.heads = 12;
  problem.kv_heads = 4;
  problem.causal = false;
  problem.p = 7;
  problem.offset = 0.625;
  problem.alignment = 8;
  record.sizes = {3, 12, 4, 512, 640};
  record.bucket = bucket_of(problem, record.sizes, Determinism::kAny);
  record.schedule.load_path = LoadPath::kPlain;
  record.schedule.dkdv = {32, 48, 3, 2};
  record.schedule.dq_mode = DqMode::kAtomic;
  record.schedule.split_dkdv = true;
  record.schedule.softplus_degree = 6;
  record.schedule.hopper.head_group = 3;
  record.source_hash = "0123456789abcdef";
  record.evidence = Evidence::kPredicted;
  record.verdict = Verdict::kWrong;
  record.reason = "o[3] = nan, expected 0.5\nand \"more\"";
  record.chosen = false;
  record.complete = false;
  return record;
}

TEST(Record, EveryFieldSurvivesJson) {
  for (const TuningRecord& record : {sample_record(), unusual_record()}) {
    const auto again = record_from_json(to_json(record));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, record);
    const auto from_line = parse_record_line(
        std::string_view(record_line(record)).substr(0, record_line(record).size() - 1));
    ASSERT_TRUE(from_line.ok()) << from_line.status().message();
    EXPECT_EQ(*from_line, record);
  }
}

TEST(Record, HasTheLengthsOfItsSequences) {
  Problem problem = sample_problem();
  problem.varlen = true;
  TuningRecord record = sample_record(h200(), 4096, problem);
  record.lengths = even_lengths(problem, record.sizes);
  const auto again = record_from_json(to_json(record));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, record);
  EXPECT_TRUE(again->bucket.varlen);
  EXPECT_FALSE(to_json(sample_record()).contains("lengths"));
  nlohmann::json without = to_json(record);
  without.erase("lengths");
  EXPECT_EQ(record_from_json(without).status().code(), StatusCode::kInvalidArgument);
  nlohmann::json other = to_json(record);
  other["lengths"]["q"][1] = 4095;  // the longest is another one
  EXPECT_NE(record_from_json(other).status().message().find("record: lengths"), std::string::npos)
      << record_from_json(other).status().message();
}

TEST(Record, JsonHasNoFieldThatTheReaderDoesNotRead) {
  // Were one not read, its change would not be seen.
  const nlohmann::json original = to_json(unusual_record());
  const nlohmann::json sample = to_json(sample_record());
  for (const auto& [name, value] : sample.items()) {
    nlohmann::json changed = original;
    changed[name] = value;
    const auto record = record_from_json(changed);
    if (name == "bucket" || name == "problem" || name == "sizes" || name == "chosen") {
      // Read too: it does not agree with the others.
      EXPECT_FALSE(record.ok()) << name;
      continue;
    }
    ASSERT_TRUE(record.ok()) << name << ": " << record.status().message();
    EXPECT_EQ(to_json(*record).at(name), value) << name;
  }
}

TEST(Record, AMissingFieldIsNamed) {
  const nlohmann::json original = to_json(sample_record());
  for (const auto& [name, value] : original.items()) {
    if (name == "complete") continue;  // came later
    nlohmann::json without = original;
    without.erase(name);
    const auto record = record_from_json(without);
    ASSERT_FALSE(record.ok()) << name;
    EXPECT_EQ(record.status().message(), "record." + name + " is missing");
  }
}

TEST(Record, AFieldOfAnotherTypeIsNamed) {
  const nlohmann::json original = to_json(sample_record());
  for (const auto& [name, value] : original.items()) {
    nlohmann::json changed = original;
    changed[name] = nlohmann::json::array({1});
    const auto record = record_from_json(changed);
    ASSERT_FALSE(record.ok()) << name;
    EXPECT_NE(record.status().message().find(name), std::string::npos) << record.status().message();
  }
}

TEST(Record, ALaterVersionsFieldIsIgnored) {
  nlohmann::json json = to_json(sample_record());
  json["clock_mhz"] = 1980;
  const auto record = record_from_json(json);
  ASSERT_TRUE(record.ok()) << record.status().message();
  EXPECT_EQ(*record, sample_record());
}

TEST(Record, AFieldThatSchedulesDidNotHaveYetKeepsItsDefault) {
  nlohmann::json json = to_json(sample_record());
  json["schedule"].erase("split_dkdv");
  const auto record = record_from_json(json);
  ASSERT_TRUE(record.ok()) << record.status().message();
  EXPECT_EQ(record->schedule, sample_record().schedule);
}

TEST(Record, TheErrorOfAWrongCandidateMayBeNaNOrInfinite) {
  TuningRecord record = sample_record();
  record.verdict = Verdict::kWrong;
  record.chosen = false;
  record.error = std::numeric_limits<double>::quiet_NaN();
  record.baseline_error = std::numeric_limits<double>::infinity();
  const auto again = record_from_json(to_json(record));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(std::isnan(again->error));
  EXPECT_EQ(again->baseline_error, record.baseline_error);
  EXPECT_EQ(record_text(*again), record_text(record));
}

// "" where the record is accepted with `value` at `path`.
std::string error_with(const char* path, const nlohmann::json& value) {
  nlohmann::json json = to_json(sample_record());
  json[nlohmann::json::json_pointer(path)] = value;
  return record_from_json(json).status().message();
}

TEST(Record, NumbersThatCannotBeAreRefused) {
  EXPECT_EQ(error_with("/ms", "inf"), "record.ms = inf: allowed are finite numbers from 0");
  EXPECT_EQ(error_with("/bucket/seq_q", -1),
            "bucket.seq_q = -1: allowed are 0 to 9223372036854775807");
  EXPECT_EQ(error_with("/error", "-inf"), "record.error = -inf: allowed are finite numbers from 0");
  EXPECT_EQ(error_with("/ms", 2.5), "");
  for (const char* path : {"/ms", "/spread_ms", "/estimate_ms", "/terms/tensor", "/error",
                           "/baseline_error"}) {
    for (const nlohmann::json& value : {nlohmann::json("inf"), nlohmann::json("nan"),
                                        nlohmann::json("-inf"), nlohmann::json(-1e-9)}) {
      EXPECT_NE(error_with(path, value).find("allowed are finite numbers from 0"),
                std::string::npos)
          << path << " " << value;
    }
  }
}

TEST(Record, WholeNumbersOutOfRangeAreRefused) {
  for (const char* path : {"/samples", "/shared_bytes", "/machine/num_sms", "/bucket/seq_k",
                           "/bucket/slices", "/bucket/gqa_ratio", "/sizes/heads"}) {
    EXPECT_NE(error_with(path, -1).find("= -1: allowed are "), std::string::npos) << path;
  }
  for (const char* path : {"/registers", "/spill_bytes"}) {
    EXPECT_EQ(error_with(path, -1), "") << path;  // not known
    EXPECT_NE(error_with(path, -2).find("= -2: allowed are "), std::string::npos) << path;
  }
}

// Every number of a record has a range: a member that comes later must have one too. A schedule is
// looked at when it is to be used, by the rules of the version that wants to use it.
TEST(Record, EveryNumberHasARange) {
  const nlohmann::json flat = to_json(sample_record()).flatten();
  int tried = 0;
  for (const auto& [path, value] : flat.items()) {
    if (!value.is_number() || path.starts_with("/schedule")) continue;
    EXPECT_NE(error_with(path.c_str(), -1'000'000), "") << path;
    ++tried;
  }
  EXPECT_GT(tried, 25);
}

TEST(Record, AWinnerIsRightAndTimed) {
  const auto message = [](Verdict verdict, double ms) {
    TuningRecord record = sample_record();
    record.verdict = verdict;
    record.ms = ms;
    return record_from_json(to_json(record)).status().message();
  };
  EXPECT_EQ(message(Verdict::kOk, 1), "");
  EXPECT_EQ(message(Verdict::kWrong, 1),
            "record.chosen = true with verdict wrong and ms 1: a winner has verdict ok and a time");
  EXPECT_NE(message(Verdict::kOk, 0), "");
}

TEST(Record, ABucketIsThatOfProblemAndSizes) {
  TuningRecord record = sample_record();
  record.bucket.head_dim = 128;
  EXPECT_NE(record_from_json(to_json(record)).status().message().find(
                "d 128 dv 64 p 15 gqa 1 seq 4096x4096 slices 16 repeatable: allowed is that of the "
                "record's problem and sizes, forward causal bf16 d 64"),
            std::string::npos);
}

TEST(Record, WithoutTheFieldASearchWasComplete) {
  nlohmann::json json = to_json(sample_record());
  json.erase("complete");
  EXPECT_TRUE(record_from_json(json)->complete);
  json["complete"] = false;
  EXPECT_FALSE(record_from_json(json)->complete);
}

TEST(Record, ATextThatIsNotUtf8DoesNotStopALine) {
  TuningRecord record = sample_record();
  record.reason = "signal \xff\xfe of a driver";
  const std::string line = record_line(record);
  const auto again = parse_record_line(std::string_view(line).substr(0, line.size() - 1));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_NE(again->reason.find("of a driver"), std::string::npos);
}

TEST(Record, HashesAndTimesHaveOneForm) {
  const auto error_of = [](const char* field, const char* value) {
    nlohmann::json json = to_json(sample_record());
    json[field] = value;
    return record_from_json(json).status().message();
  };
  EXPECT_NE(error_of("source_hash", "0123").find("record.source_hash = \"0123\""),
            std::string::npos);
  EXPECT_NE(error_of("source_hash", "0123456789ABCDEF").find("16 hexadecimal digits"),
            std::string::npos);
  EXPECT_NE(error_of("time", "21.11.2026").find("allowed is UTC as"), std::string::npos);
  EXPECT_EQ(error_of("time", ""), "");
  for (const char* time : {"2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-00-10T00:00:00Z",
                           "2026-11-21T24:00:00Z", "2026-11-21T23:60:00Z", "2026-11-21T23:59:60Z"})
    EXPECT_NE(error_of("time", time), "") << time;
  EXPECT_EQ(error_of("time", "2028-02-29T23:59:59Z"), "");
}

TEST(RecordTime, ASecondLaterIsTheNextTime) {
  EXPECT_EQ(second_after("2026-11-21T13:16:13Z"), "2026-11-21T13:16:14Z");
  EXPECT_EQ(second_after("2026-12-31T23:59:59Z"), "2027-01-01T00:00:00Z");
  EXPECT_EQ(second_after("2028-02-28T23:59:59Z"), "2028-02-29T00:00:00Z");
  EXPECT_EQ(second_after("9999-12-31T23:59:59Z"), "9999-12-31T23:59:59Z");
  EXPECT_TRUE(check_record_time(utc_now()).ok());
}

TEST(Record, TextsThatWereChangedNeverDoMoreThanFail) {
  // Without the checksum that would stop them all.
  const std::string text = record_text(unusual_record());
  int read = 0, refused = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char other : {'0', '9', '-', '"', '{', ']', 'e', '\0'}) {
      std::string changed = text;
      changed[i] = other;
      const auto json = nlohmann::json::parse(changed, nullptr, false);
      if (json.is_discarded()) continue;
      const auto record = record_from_json(json);
      if (!record.ok()) {
        EXPECT_FALSE(record.status().message().empty());
        ++refused;
        continue;
      }
      ++read;
      const auto again = record_from_json(to_json(*record));
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_EQ(record_text(*again), record_text(*record));
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

TEST(Record, NamesOfVerdictsAndEvidenceReadBack) {
  for (int i = 0; i <= static_cast<int>(Verdict::kDeviceError); ++i) {
    const auto verdict = static_cast<Verdict>(i);
    EXPECT_EQ(*parse_verdict(verdict_name(verdict)), verdict);
  }
  for (const Evidence one : {Evidence::kMeasured, Evidence::kPredicted}) {
    EXPECT_EQ(*parse_evidence(evidence_name(one)), one);
  }
  EXPECT_EQ(parse_evidence("guessed").status().message(),
            "evidence = \"guessed\": allowed are measured, predicted");
}

TEST(SourceHash, IsOfTheSourceWithoutItsHeader) {
  const Target target = *target_from_name("sm_80");
  const Problem problem = sample_problem();
  const Schedule schedule = default_schedule(problem, target);
  const std::string hash = *schedule_source_hash(problem, schedule, target);
  EXPECT_EQ(hash.size(), 16u);
  Problem larger = problem;
  larger.batch = 7;  // only in the header comment
  EXPECT_EQ(*schedule_source_hash(larger, schedule, target), hash);
  Problem other = problem;
  other.p = 14;
  EXPECT_NE(*schedule_source_hash(other, schedule, target), hash);
  Schedule illegal = schedule;
  illegal.softplus_degree = 99;
  EXPECT_EQ(schedule_source_hash(problem, illegal, target).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lssar
