// Records as JSON: every field there and back, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

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

TEST(Record, JsonHasNoFieldThatTheReaderDoesNotRead) {
  // Were one not read, its change would not be seen.
  const nlohmann::json original = to_json(unusual_record());
  const nlohmann::json sample = to_json(sample_record());
  for (const auto& [name, value] : sample.items()) {
    nlohmann::json changed = original;
    changed[name] = value;
    const auto record = record_from_json(changed);
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

TEST(Record, NumbersThatJsonHasNoNameForSurvive) {
  TuningRecord record = sample_record();
  record.error = std::numeric_limits<double>::quiet_NaN();
  record.estimate_ms = -std::numeric_limits<double>::infinity();
  record.terms["tensor"] = std::numeric_limits<double>::quiet_NaN();
  const auto again = record_from_json(to_json(record));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(std::isnan(again->error));
  EXPECT_EQ(again->estimate_ms, record.estimate_ms);
  EXPECT_TRUE(std::isnan(again->terms.at("tensor")));
  EXPECT_EQ(record_text(*again), record_text(record));
}

TEST(Record, TimesAndSizesThatCannotBeAreRefused) {
  const auto message = [](const char* path, const nlohmann::json& value) {
    nlohmann::json json = to_json(sample_record());
    json[nlohmann::json::json_pointer(path)] = value;
    const auto record = record_from_json(json);
    return record.ok() ? "accepted" : record.status().message();
  };
  EXPECT_EQ(message("/ms", "inf"), "record.ms = inf: allowed are finite numbers from 0");
  EXPECT_EQ(message("/ms", "nan"), "record.ms = nan: allowed are finite numbers from 0");
  EXPECT_EQ(message("/ms", -1), "record.ms = -1: allowed are finite numbers from 0");
  EXPECT_EQ(message("/spread_ms", "inf"),
            "record.spread_ms = inf: allowed are finite numbers from 0");
  EXPECT_EQ(message("/samples", -1), "record.samples = -1: allowed are 0 and more");
  EXPECT_EQ(message("/bucket/seq_q", -1), "bucket.seq_q = -1: allowed are 0 and more");
  EXPECT_EQ(message("/ms", 2.5), "accepted");
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
