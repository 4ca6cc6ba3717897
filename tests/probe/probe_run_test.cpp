// A probe from its entry to its figures, with a runner that makes times up.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "autotune/model/cost_constants.h"
#include "autotune/table/table_lines.h"
#include "tests/probe/probe_fixture.h"

namespace lssar::probe {
namespace {

using nlohmann::json;
using test::Asked;
using test::dq_definition;
using test::MadeUpRunner;

Result<Probe> probe_of(const json& definition) {
  const std::string path = testing::TempDir() + "probe_run_test.json";
  std::ofstream(path) << json{{"format", "lssar-probes"}, {"probes", json::array({definition})}};
  const auto probes = read_probes(path);
  std::filesystem::remove(path);
  if (!probes.ok()) return probes.status();
  return probes->at(0);
}

class ProbeRunTest : public testing::Test {
 protected:
  Result<json> run(const json& definition) {
    LSSAR_ASSIGN_OR_RETURN(const Probe probe, probe_of(definition));
    RunOptions options;
    options.open = [&](const RunnerTask& task) -> Result<std::unique_ptr<CandidateRunner>> {
      auto runner = std::make_unique<MadeUpRunner>(task, asked_);
      if (change_) change_(*runner);
      return std::unique_ptr<CandidateRunner>(std::move(runner));
    };
    return run_probe(probe, options);
  }

  Asked asked_;
  std::function<void(FakeRunner&)> change_;
};

TEST_F(ProbeRunTest, SettingsAreCheckedAndTimedInTurns) {
  const auto figures = run(dq_definition());
  ASSERT_TRUE(figures.ok()) << figures.status().to_string();
  EXPECT_EQ(asked_.launches, std::vector<std::string>{"cold 5: split atomic ordered"});
  // Only atomic sums may have other bits.
  EXPECT_EQ(asked_.checks,
            (std::vector<std::string>{"split repeatable", "atomic any", "ordered repeatable"}));
  EXPECT_EQ((*figures)["device"], "NVIDIA H200");
  EXPECT_EQ((*figures)["evidence"], "measured");
  EXPECT_EQ((*figures)["definition"], dq_definition());
  const json& atomic = (*figures)["settings"][1];
  EXPECT_EQ(atomic["name"], "atomic");
  EXPECT_EQ(atomic["schedule"]["dq_mode"], "atomic");
  EXPECT_EQ(atomic["median_ms"], 6.0);
  EXPECT_EQ(atomic["samples_ms"].size(), 5u);
  EXPECT_EQ(atomic["repeatable"], false);
  EXPECT_GT(atomic["estimate_ms"], 0.0);
}

TEST_F(ProbeRunTest, ASettingHasTheLineOfATuningTable) {
  const auto figures = run(dq_definition());
  ASSERT_TRUE(figures.ok());
  for (const json& setting : (*figures)["settings"]) {
    const auto record = parse_record_line(setting["table_line"].get<std::string>());
    ASSERT_TRUE(record.ok()) << record.status().to_string();
    EXPECT_EQ(to_json(record->schedule), setting["schedule"]);
    EXPECT_EQ(record->ms, setting["median_ms"]);
    EXPECT_TRUE(record->chosen);
    EXPECT_FALSE(record->complete);
    EXPECT_EQ(record->bucket.determinism,
              setting["repeatable"] ? Determinism::kRepeatable : Determinism::kAny);
    EXPECT_EQ(record->source_hash, *schedule_source_hash(record->problem, record->schedule,
                                                         *target_from_name("sm_90a")));
  }
}

TEST_F(ProbeRunTest, EstimatesFollowTheConstant) {
  const auto figures = run(dq_definition());
  ASSERT_TRUE(figures.ok());
  const json& constant = (*figures)["constants"][0];
  EXPECT_EQ(constant["today"], CostConstants().ordered_clocks);
  const json& values = constant["values"];
  EXPECT_EQ(values.front(), 0.0);
  EXPECT_EQ(values.back(), 8000.0);
  const json &ordered = constant["estimates_ms"]["ordered"],
             &split = constant["estimates_ms"]["split"];
  ASSERT_EQ(ordered.size(), values.size());
  EXPECT_GT(ordered.back(), ordered.front());
  EXPECT_EQ(split.back(), split.front());
  // At today's value they are the estimates.
  const auto today = std::find(values.begin(), values.end(), constant["today"]);
  ASSERT_NE(today, values.end());
  EXPECT_DOUBLE_EQ(ordered[size_t(today - values.begin())].get<double>(),
                   (*figures)["settings"][2]["estimate_ms"].get<double>());
}

TEST_F(ProbeRunTest, AWrongSettingIsNotTimed) {
  change_ = [](FakeRunner& runner) {
    runner.on_check = [](const CandidateSpec& candidate, CheckDepth) {
      CheckReport report;
      if (candidate.id == "ordered") report = {Verdict::kWrong, "dq at [0, 0, 3, 1]", 0.5, 1e-3};
      return report;
    };
  };
  const auto figures = run(dq_definition());
  ASSERT_TRUE(figures.ok());
  EXPECT_EQ(asked_.launches, std::vector<std::string>{"cold 5: split atomic"});
  const json& ordered = (*figures)["settings"][2];
  EXPECT_EQ(ordered["verdict"], "wrong");
  EXPECT_EQ(ordered["reason"], "dq at [0, 0, 3, 1]");
  EXPECT_TRUE(ordered["median_ms"].is_null());
  EXPECT_EQ(ordered["table_line"], "");
}

TEST_F(ProbeRunTest, SettingsWithAWarmL2AreTimedByThemselves) {
  json definition = dq_definition();
  definition["settings"][1]["cold_l2"] = false;
  const auto figures = run(definition);
  ASSERT_TRUE(figures.ok());
  EXPECT_EQ(asked_.launches, (std::vector<std::string>{"cold 5: split ordered", "warm 5: atomic"}));
  EXPECT_EQ((*figures)["settings"][1]["table_line"], "");  // tables have times with a cold one
}

TEST_F(ProbeRunTest, AnEditedSourceIsNotCheckedAndNoCandidate) {
  json definition = dq_definition();
  const json edits = json::array({{{"from", "fence.proxy.async"}, {"to", "// none"}}});
  definition["settings"][2]["edits"] = edits;
  std::string compiled;
  change_ = [&](FakeRunner& runner) {
    runner.on_compile = [&](const CandidateSpec& candidate) {
      if (candidate.source) compiled = candidate.source->source;
      return CompileReport{};
    };
  };
  const auto figures = run(definition);
  ASSERT_TRUE(figures.ok()) << figures.status().to_string();
  EXPECT_EQ(asked_.checks.size(), 2u);
  EXPECT_NE(compiled.find("// none"), std::string::npos);
  EXPECT_EQ(compiled.find("fence.proxy.async"), std::string::npos);
  const json& edited = (*figures)["settings"][2];
  EXPECT_EQ(edited["edited"], true);
  EXPECT_EQ(edited["median_ms"], 9.0);
  EXPECT_EQ(edited["table_line"], "");
  EXPECT_TRUE(edited["estimate_ms"].is_null());
}

TEST_F(ProbeRunTest, AnEditOfWhatIsNotThereIsAnError) {
  json definition = dq_definition();
  definition["settings"][2]["edits"] = json::array({{{"from", "no such text"}, {"to", ""}}});
  const auto figures = run(definition);
  ASSERT_FALSE(figures.ok());
  EXPECT_EQ(figures.status().message(),
            "setting ordered: edits: from = no such text: the generated source does not have this "
            "text");
}

TEST_F(ProbeRunTest, AScheduleThatBreaksARuleIsAnError) {
  json definition = dq_definition();
  definition["settings"][1]["schedule"]["dkdv"]["block_cols"] = 7;
  const auto figures = run(definition);
  ASSERT_FALSE(figures.ok());
  EXPECT_EQ(figures.status().message().rfind("setting atomic: ", 0), 0u)
      << figures.status().message();
}

TEST_F(ProbeRunTest, ALongRunKeepsAMedianOfEachHalfSecond) {
  json definition = dq_definition();
  definition["seconds"] = 2.1;
  const auto figures = run(definition);
  ASSERT_TRUE(figures.ok());
  EXPECT_EQ(asked_.launches, (std::vector<std::string>{"warm 3: split", "warm 300: split"}));
  const json& split = (*figures)["settings"][0];
  EXPECT_EQ(split["launches"], 300);
  EXPECT_FALSE(split.contains("samples_ms"));
  EXPECT_EQ(split["median_ms_of_half_seconds"], json::array({7.0, 7.0, 7.0, 7.0}));
}

// The whole way, with kernels that run. What is counted is no measurement.
TEST(ProbeOnTheVirtualDevice, IsCounted) {
  json definition = dq_definition();
  definition["settings"].erase(1);
  const auto probe = probe_of(definition);
  ASSERT_TRUE(probe.ok());
  RunOptions options;
  options.device = DeviceChoice::kVirtual;
  options.target = "sm_90a";
  const auto figures = run_probe(*probe, options);
  ASSERT_TRUE(figures.ok()) << figures.status().to_string();
  EXPECT_EQ((*figures)["evidence"], "predicted");
  for (const json& setting : (*figures)["settings"]) {
    EXPECT_EQ(setting["verdict"], "ok") << setting["reason"];
    EXPECT_GT(setting["median_ms"], 0.0);
    EXPECT_GT(setting["registers"], 0);
    EXPECT_EQ(setting["table_line"], "");
  }
}

}  // namespace
}  // namespace lssar::probe
