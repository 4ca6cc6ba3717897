// The probes of tools/probes.json: their schedules are legal, their edits are of texts that the
// sources have, and what they compare are settings that they have.
#include <atomic>
#include <set>

#include <gtest/gtest.h>

#include "tests/probe/probe_fixture.h"
#include "tools/probe/model_constants.h"

namespace lssar::probe {
namespace {

using nlohmann::json;
using test::Asked;
using test::MadeUpRunner;

const std::vector<Probe>& shipped() {
  static const Result<std::vector<Probe>> probes =
      read_probes(std::string(LSSAR_SOURCE_FOLDER) + "/tools/probes.json");
  EXPECT_TRUE(probes.ok()) << probes.status().to_string();
  return *probes;
}

std::set<std::string> compared_settings(const json& definition) {
  std::set<std::string> names;
  const auto add = [&](const json& value) {
    if (value.is_string()) names.insert(value.get<std::string>());
    if (value.is_array()) {
      for (const json& one : value) names.insert(one.get<std::string>());
    }
  };
  for (const json& expect : definition["expect"]) {
    for (const char* kind : {"ratio", "tflops", "change", "slowdown", "clock"})
      if (expect.contains(kind)) add(expect[kind]);
  }
  for (const json& constant : definition.value("constants", json::array())) add(constant["ratio"]);
  return names;
}

TEST(ShippedProbes, CanRunOnHopper) {
  EXPECT_GE(shipped().size(), 20u);
  for (const Probe& probe : shipped()) {
    Asked asked;
    RunOptions options;
    options.open = [&](const RunnerTask& task) -> Result<std::unique_ptr<CandidateRunner>> {
      return std::unique_ptr<CandidateRunner>(std::make_unique<MadeUpRunner>(task, asked));
    };
    Probe without_constants = probe;  // whose estimates take long
    without_constants.constants.clear();
    const auto figures = run_probe(without_constants, options);
    EXPECT_TRUE(figures.ok()) << probe.name << ": " << figures.status().to_string();
  }
}

// Two settings of one schedule would compare a kernel with itself.
TEST(ShippedProbes, SettingsDiffer) {
  const Target target = *target_from_name("sm_90a");
  for (const Probe& probe : shipped()) {
    std::set<std::string> seen;
    for (const Setting& setting : probe.settings) {
      const Schedule schedule = *schedule_for(probe.problem, target, setting.schedule);
      std::string what = to_json(schedule).dump() + (setting.cold_l2 ? " cold" : " warm");
      for (const SourceEdit& edit : setting.edits) what += edit.from + edit.to;
      EXPECT_TRUE(seen.insert(what).second) << probe.name << ": " << setting.name;
    }
  }
}

// The first setting is what plans take, so that a better one is better than the default.
TEST(ShippedProbes, TheFirstSettingIsTheDefault) {
  const Target target = *target_from_name("sm_90a");
  for (const Probe& probe : shipped()) {
    const Setting& first = probe.settings[0];
    const Schedule schedule = *schedule_for(probe.problem, target, first.schedule);
    const auto determinism =
        schedule.dq_mode == DqMode::kAtomic ? Determinism::kAny : Determinism::kRepeatable;
    EXPECT_EQ(schedule, default_schedule(probe.problem, target, determinism)) << probe.name;
    EXPECT_TRUE(first.edits.empty() && first.cold_l2) << probe.name;
  }
}

TEST(ShippedProbes, CompareSettingsThatTheyHave) {
  for (const Probe& probe : shipped()) {
    std::set<std::string> names;
    for (const Setting& setting : probe.settings) names.insert(setting.name);
    for (const std::string& name : compared_settings(probe.definition))
      EXPECT_TRUE(names.count(name)) << probe.name << ": " << name;
    for (const json& expect : probe.definition["expect"]) {
      EXPECT_LT(expect["low"], expect["high"]) << probe.name;
      EXPECT_FALSE(expect["source"].get<std::string>().empty()) << probe.name;
      EXPECT_FALSE(expect["means"].get<std::string>().empty()) << probe.name;
    }
  }
}

// An estimate at today's value of a constant must be among those of the range.
TEST(ShippedProbes, RangesHoldTheModelsValue) {
  const GpuModel gpu = *gpu_model("sm_90a");
  for (const Probe& probe : shipped()) {
    for (const ConstantRange& range : probe.constants) {
      const double today = find_constant(range.name)->get(gpu);
      EXPECT_TRUE(range.low <= today && today <= range.high) << probe.name << ": " << range.name;
    }
  }
}

class EditedProbe : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, EditedProbe,
                         testing::Values("sums_train_d128", "fences_d128", "fences_backward_d128",
                                         "instruction_cache_d128"));

TEST_P(EditedProbe, Compiles) {
  for (const Probe& probe : shipped()) {
    if (probe.name != GetParam()) continue;
    RunnerTask task;
    task.problem = probe.problem;
    task.sizes = probe.sizes;
    task.device = DeviceChoice::kVirtual;
    task.target = "sm_90a";
    const auto compiler = open_candidate_host(task);
    ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
    Asked asked;
    std::atomic<size_t> num_edited{0};
    RunOptions options;
    options.open = [&](const RunnerTask& one) -> Result<std::unique_ptr<CandidateRunner>> {
      auto runner = std::make_unique<MadeUpRunner>(one, asked);
      runner->on_compile = [&](const CandidateSpec& candidate) {
        if (!candidate.source) return CompileReport{};
        ++num_edited;
        const auto report = (*compiler)->compile(candidate);
        EXPECT_TRUE(report.ok()) << report.status().to_string();
        return report.ok() ? *report : CompileReport{};
      };
      return std::unique_ptr<CandidateRunner>(std::move(runner));
    };
    const auto figures = run_probe(probe, options);
    ASSERT_TRUE(figures.ok()) << figures.status().to_string();
    EXPECT_EQ(num_edited, probe.settings.size() - 1);
    for (size_t i = 1; i < probe.settings.size(); ++i) {
      const json& edited = (*figures)["settings"][i];
      EXPECT_EQ(edited["verdict"], "ok") << edited["reason"];
      EXPECT_GT(edited["registers"], 0);
    }
  }
}

}  // namespace
}  // namespace lssar::probe
