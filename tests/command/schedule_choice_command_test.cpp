// Which schedule the subcommands use, and what they say of it: a given one, the tuning table's, the
// default.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/table/tuning_table.h"
#include "codegen/target.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;
using Arguments = std::vector<std::string>;

constexpr int kTunedDegree = 6;    // the table's; no default has it
constexpr int kDefaultDegree = 4;  // bf16

Arguments operator+(Arguments all, const Arguments& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class ChosenSchedule : public testing::Test {
 protected:
  // The record that `lssar tune` on a virtual device would keep for kProblem.
  void SetUp() override {
    TuningRecord record;
    record.problem.head_dim = record.problem.head_dim_v = 32;
    record.problem.seq_q = record.problem.seq_k = 64;
    keep(record);
  }

  void keep(TuningRecord record, EpsilonFrom epsilon = EpsilonFrom::kX) {
    const Target target = *target_from_name("sm_80");
    record.sizes = {.batch = 1, .heads = 1, .kv_heads = 1, .seq_q = 64, .seq_k = 64};
    record.bucket = bucket_of(record.problem, record.sizes, Determinism::kRepeatable);
    record.schedule = default_schedule(record.problem, target);
    record.schedule.softplus_degree = kTunedDegree;
    record.schedule = with_epsilon(record.schedule, epsilon, record.problem, target);
    record.source_hash = *schedule_source_hash(record.problem, record.schedule, target);
    record.machine = {"virtual", "sm_80", 0, "", "nvrtc 13.0.88"};
    record.evidence = Evidence::kPredicted;
    record.chosen = true;
    record.ms = 0.5;
    record.time = "2026-11-21T13:16:13Z";
    const Status status = append_records(table_, {record});
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // The user's table has the record.
  CommandResult run(const Arguments& arguments) const {
    const CommandResult result = command_.run(arguments, {"LSSAR_TUNING_TABLE=" + table_});
    EXPECT_EQ(result.exit_code, 0) << arguments[0] << result.out << result.err;
    return result;
  }
  json run_json(const Arguments& arguments) const {
    const CommandResult result = run(arguments + Arguments{"--json"});
    json found = json::parse(result.out, nullptr, false);
    EXPECT_TRUE(found.is_object()) << arguments[0] << result.out;
    return found.is_object() ? found : json::object();
  }

  // `kernel` says where its schedule came from.
  void expect_from(const json& kernel, const std::string& from, const std::string& origin) const {
    EXPECT_EQ(kernel.value("schedule_from", ""), from) << kernel.dump();
    EXPECT_EQ(kernel.value("schedule_origin", ""), origin);
    EXPECT_THAT(kernel.value("schedule_reason", ""), StartsWith(from));
    if (from == "tuned") {
      EXPECT_THAT(kernel.value("schedule_reason", ""), HasSubstr(table_));
    }
  }
  // Every subcommand that chooses, with `more`.
  void expect_everywhere(const Arguments& more, const std::string& from, const std::string& origin,
                         int degree) const {
    const Arguments all = kProblem + more;
    const json prepared = run_json(Arguments{"prepare"} + kDevice + all);
    expect_from(prepared, from, origin);
    EXPECT_EQ(prepared["schedule"]["softplus_degree"], degree);
    const std::string& key = prepared["key"].get_ref<const std::string&>();
    for (const Arguments& runs : {Arguments{"verify"}, Arguments{"run", "--random"}}) {
      const json ran = run_json(runs + kDevice + all)["passes"].at(0);
      expect_from(ran, from, origin);
      EXPECT_EQ(ran["key"], key) << runs[0];
    }
    expect_from(run_json(Arguments{"inspect", "--no-count"} + kDevice + all), from, origin);
    const json choice = run_json(Arguments{"explain", "--no-compile"} + kDevice + all)["choice"];
    EXPECT_EQ(choice["from"], from);
    EXPECT_EQ(choice["origin"], origin);
    EXPECT_EQ(choice["schedule"]["softplus_degree"], degree);

    const Arguments given =
        kProblem + Arguments{"--schedule", "{\"softplus_degree\": " + std::to_string(degree) + "}"};
    const CommandResult emitted = run(Arguments{"emit"} + all);
    EXPECT_THAT(emitted.err, StartsWith("schedule: " + from)) << emitted.err;
    EXPECT_EQ(emitted.out, run(Arguments{"emit"} + given).out);
    const CommandResult captured =
        run(Arguments{"capture", "-o", command_.path("case.lssar")} + kDevice + all);
    EXPECT_THAT(captured.out, HasSubstr("\nschedule: " + from)) << captured.out;
    const CommandResult reported =
        run(Arguments{"report", "--no-compile", "-o", "-"} + kDevice + all);
    EXPECT_THAT(reported.out, HasSubstr("\"from\":\"" + from + "\""));
  }

  const Arguments kProblem = {"--head-dim", "32", "--seq", "64"};
  const Arguments kDevice = {"--device", "virtual"};
  const CommandRunner command_;
  const std::string table_ = command_.path("tuning.jsonl");
};

TEST_F(ChosenSchedule, IsTheTablesInEverySubcommand) {
  expect_everywhere({}, "tuned", "predicted", kTunedDegree);
}

TEST_F(ChosenSchedule, IsTheDefaultWhereTheTableIsLeftOut) {
  expect_everywhere({"--untuned"}, "default", "default", kDefaultDegree);
}

TEST_F(ChosenSchedule, ThatIsGivenGoesBeforeTheTable) {
  expect_everywhere({"--schedule", R"({"softplus_degree": 5})"}, "given", "given", 5);
}

TEST_F(ChosenSchedule, IsInTextToo) {
  EXPECT_THAT(run(Arguments{"prepare"} + kDevice + kProblem).out,
              HasSubstr("; schedule: tuned (predicted 0.5 ms for sm_80 on 2026-11-21, bucket "));
  EXPECT_THAT(run(Arguments{"verify"} + kDevice + kProblem).out, HasSubstr("\nschedule: tuned ("));
  const CommandResult summary = run(Arguments{"inspect", "--no-count"} + kDevice + kProblem);
  EXPECT_THAT(summary.out, StartsWith("schedule: tuned ("));
  // A file's content has nothing else in it.
  const CommandResult source = run(Arguments{"inspect", "--view", "source"} + kDevice + kProblem);
  EXPECT_THAT(source.err, StartsWith("schedule: tuned ("));
  EXPECT_EQ(source.out.find("schedule: tuned"), std::string::npos);
  EXPECT_EQ(run(Arguments{"emit", "-q"} + kProblem).err, "");
}

TEST_F(ChosenSchedule, OfAVariationIsChosenForIt) {
  const CommandResult diff =
      run(Arguments{"inspect", "--no-count", "--diff", "p=15", "p=3"} + kDevice + kProblem);
  EXPECT_THAT(diff.out, HasSubstr("p=15: schedule: tuned ("));
  EXPECT_THAT(diff.out, HasSubstr("p=3: schedule: default (no record for "));
}

TEST_F(ChosenSchedule, IsLookedUpInTheTableThatIsNamed) {
  const auto prepared = [&](const Arguments& more, const std::string& environment) {
    const CommandResult result =
        command_.run(Arguments{"prepare", "--json"} + kDevice + kProblem + more, {environment});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out).value("schedule_from", "");
  };
  EXPECT_EQ(prepared({"--table", table_}, "LSSAR_TUNING_TABLE=none"), "tuned");
  EXPECT_EQ(prepared({"--table", "none"}, "LSSAR_TUNING_TABLE=" + table_), "default");
  EXPECT_EQ(prepared({}, "LSSAR_TUNING_TABLE=none"), "default");
  // A cache's folder has its table.
  std::filesystem::create_directory(command_.path("cache"));
  std::filesystem::copy_file(table_, command_.path("cache/tuning.jsonl"));
  EXPECT_EQ(command_
                .run(Arguments{"prepare", "--json"} + kDevice + kProblem,
                     {"LSSAR_TUNING_TABLE=", "LSSAR_CACHE_DIR=" + command_.path("cache")})
                .out.find("\"schedule_from\": \"default\""),
            std::string::npos);
}

// The command that prepare prints gives the same kernel again, even if something was tuned since.
TEST_F(ChosenSchedule, APrintedCommandGivesTheSameKernelWithoutTheTable) {
  for (const Arguments& more : {Arguments{}, Arguments{"--untuned"}}) {
    const json first = run_json(Arguments{"prepare"} + kDevice + kProblem + more);
    const std::string line = first["command"];
    EXPECT_THAT(line,
                HasSubstr(more.empty() ? "--schedule '{\"softplus_degree\":6}'" : "--untuned"));
    const Arguments again =
        more.empty() ? Arguments{"--schedule", R"({"softplus_degree":6})"} : more;
    EXPECT_EQ(run_json(Arguments{"prepare"} + kDevice + kProblem + again)["key"], first["key"]);
  }
}

TEST_F(ChosenSchedule, OfATrainingStepHasOneSourceOfEpsilon) {
  TuningRecord backward;
  backward.problem.pass = Pass::kBackward;
  backward.problem.head_dim = backward.problem.head_dim_v = 32;
  backward.problem.seq_q = backward.problem.seq_k = 64;
  keep(backward, EpsilonFrom::kPass);
  const json result = run_json(Arguments{"verify", "--pass", "backward"} + kDevice + kProblem);
  EXPECT_EQ(result["passed"], true);
  ASSERT_EQ(result["passes"].size(), 2u);
  expect_from(result["passes"][0], "default", "default");
  EXPECT_THAT(result["passes"][0]["schedule_reason"].get<std::string>(),
              HasSubstr("; epsilon as the backward's"));
  expect_from(result["passes"][1], "tuned", "predicted");
}

TEST_F(ChosenSchedule, IsAnErrorWhereTheNamedTableIsMissing) {
  const CommandResult result =
      command_.run(Arguments{"prepare", "--table", command_.path("none")} + kDevice + kProblem);
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr(command_.path("none")));
  const CommandResult both =
      command_.run(Arguments{"emit", "--untuned", "--table", table_} + kProblem);
  EXPECT_EQ(both.exit_code, 2) << both.err;
}

TEST_F(ChosenSchedule, ATableOfTheUsersThatCannotBeReadIsWarnedOf) {
  std::ofstream(table_) << "{\"format\":\"lssar-tuning-table\",\"version\":99}\n";
  const CommandResult result = run(Arguments{"prepare"} + kDevice + kProblem);
  EXPECT_THAT(result.err, HasSubstr("tuning table not used: "));
  EXPECT_THAT(result.out, HasSubstr("schedule: default ("));
}

TEST_F(ChosenSchedule, LinesThatAreNoRecordsAreWarnedOf) {
  std::ofstream(table_) << "garbage\n";
  const Arguments prepare = Arguments{"prepare"} + kDevice + kProblem;
  for (const CommandResult& result :
       {run(prepare), command_.run(prepare + Arguments{"--table", table_})})
    EXPECT_THAT(result.err, HasSubstr("1 lines are no records and are passed over; line 1: "));
}

}  // namespace
}  // namespace lssar
