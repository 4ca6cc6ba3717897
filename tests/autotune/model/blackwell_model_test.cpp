// Defaults of sm_86, sm_89, sm_100, sm_120 and sm_121: the cost model prefers them to the tiles of
// other targets, on every card and within the ranges of what is assumed.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/model/cost_model.h"

namespace lssar {
namespace {

struct OtherTiles {
  const char* family;  // "sm_100"; "sm_120" is for sm_121, too, and "sm_86" for sm_89
  Pass pass;
  int dim;
  const char* schedule;  // over the default
  double least;          // its time over the default's
  // false: at the ends of what is assumed it may be faster.
  bool is_always_slower = true;
};

const OtherTiles kOtherTiles[] = {
    {"sm_120", Pass::kForward, 256,
     R"({"block_dv": 128, "forward": {"block_rows": 64, "block_cols": 16, "stages": 2}})", 1.3},
    {"sm_120", Pass::kForward, 256, R"({"forward": {"block_rows": 64}})", 1.04},
    {"sm_120", Pass::kForward, 256, R"({"forward": {"block_rows": 48}})", 1.04},
    {"sm_120", Pass::kForward, 128, R"({"forward": {"block_rows": 32, "stages": 1}})", 1},
    {"sm_120", Pass::kForwardTrain, 256,
     R"({"block_dv": 96, "forward": {"block_rows": 64, "block_cols": 16, "stages": 2}})", 1.3},
    {"sm_120", Pass::kBackward, 128,
     R"({"dq_mode": "split", "split_dkdv": true, "dq": {"block_cols": 32, "stages": 2},
         "dkdv": {"block_cols": 16, "stages": 2}})",
     1.3},
    {"sm_120", Pass::kBackward, 128, R"({"dkdv": {"stages": 2}})", 1.04},
    {"sm_86", Pass::kForward, 96, R"({"forward": {"block_rows": 64}})", 1.3},
    {"sm_86", Pass::kForward, 128, R"({"forward": {"block_cols": 64}})", 1.3},
    {"sm_86", Pass::kForward, 192, R"({"forward": {"block_cols": 32, "stages": 3}})", 1.2},
    {"sm_86", Pass::kForward, 256,
     R"({"forward": {"block_rows": 64, "block_cols": 32, "stages": 3}})", 1.2},
    {"sm_86", Pass::kForwardTrain, 192, R"({"forward": {"block_cols": 32, "stages": 3}})", 1.2},
    {"sm_86", Pass::kForwardTrain, 256,
     R"({"block_dv": 96, "forward": {"block_rows": 64, "block_cols": 32, "stages": 3}})", 1.5},
    {"sm_86", Pass::kBackward, 96,
     R"({"dq_mode": "split", "dkdv": {"block_cols": 32, "stages": 2}})", 1.2},
    {"sm_86", Pass::kBackward, 128,
     R"({"dq_mode": "split", "dkdv": {"block_cols": 32, "stages": 2}})", 1, false},
    {"sm_86", Pass::kBackward, 128, R"({"dkdv": {"stages": 2}})", 1.04},
    {"sm_100", Pass::kForward, 256, R"({"block_dv": 128})", 1.1},
    {"sm_100", Pass::kForwardTrain, 128, R"({"forward": {"block_cols": 16, "stages": 2}})", 1.1},
    {"sm_100", Pass::kForwardTrain, 256, R"({"block_dv": 96})", 1.1},
    {"sm_100", Pass::kBackward, 128, R"({"split_dkdv": true, "dkdv": {"block_cols": 16}})", 1.1},
};

// What is assumed of a card, at the ends of its range.
std::vector<GpuModel> assumed_models(const std::string& target, const char* card) {
  const GpuModel usual = *gpu_model(target, card);
  std::vector<GpuModel> models = {usual};
  const auto add = [&](const std::function<void(GpuModel&)>& change) {
    models.push_back(usual);
    change(models.back());
  };
  for (const double factor : {0.7, 1.4}) add([&](GpuModel& gpu) { gpu.l2_gbps *= factor; });
  for (const double clocks : {500, 1500})
    add([&](GpuModel& gpu) { gpu.constants.load_clocks = clocks; });
  for (const double power : {2, 5}) add([&](GpuModel& gpu) { gpu.constants.stream_power = power; });
  if (target == "sm_121") add([](GpuModel& gpu) { gpu.tensor_flop *= 2; });
  if (target == "sm_100") add([](GpuModel& gpu) { gpu.mma_sync *= 2; });
  return models;
}

void expect_default_first(const OtherTiles& other, const std::string& name,
                          const std::vector<GpuModel>& models) {
  const Target target = *target_from_name(name);
  for (const bool causal : {false, true}) {
    Problem problem;
    problem.pass = other.pass;
    problem.causal = causal;
    problem.head_dim = problem.head_dim_v = other.dim;
    const Sizes sizes = {4, 16, 16, 4096, 4096};
    const Schedule standard = default_schedule(problem, target);
    const auto schedule =
        schedule_from_json(nlohmann::json::parse(other.schedule), standard).value();
    ASSERT_TRUE(validate(schedule, problem, target).ok()) << other.schedule;
    for (const GpuModel& gpu : models) {
      const double ratio = estimate_cost(problem, sizes, schedule, target, gpu).ms /
                           estimate_cost(problem, sizes, standard, target, gpu).ms;
      const bool is_usual = &gpu == &models.front();
      if (!is_usual && !other.is_always_slower) break;
      EXPECT_GT(ratio, is_usual ? other.least : 1)
          << gpu.name << " " << name << " " << pass_name(other.pass) << " d " << other.dim << " "
          << other.schedule << " model " << &gpu - models.data();
    }
  }
}

TEST(BlackwellModel, PrefersTheDefaults) {
  for (const OtherTiles& other : kOtherTiles) {
    if (std::string(other.family) == "sm_100") {
      expect_default_first(other, "sm_100", assumed_models("sm_100", "B200"));
      continue;
    }
    OtherTiles at_all = other;
    at_all.least = 1;
    if (std::string(other.family) == "sm_86") {
      expect_default_first(other, "sm_86", assumed_models("sm_86", "A10"));
      expect_default_first(other, "sm_89", assumed_models("sm_89", "L40S"));
      for (const char* card : {"A10G", "A40", "RTX A6000", "RTX 3090"})
        expect_default_first(at_all, "sm_86", assumed_models("sm_86", card));
      for (const char* card : {"L40", "L4", "RTX 6000 Ada", "RTX 4090"})
        expect_default_first(at_all, "sm_89", assumed_models("sm_89", card));
      continue;
    }
    expect_default_first(other, "sm_120", assumed_models("sm_120", "RTX 5090"));
    expect_default_first(other, "sm_121", assumed_models("sm_121", "GB10"));
    for (const char* card : {"RTX 5080", "RTX PRO 6000"})
      expect_default_first(at_all, "sm_120", {*gpu_model("sm_120", card)});
  }
}

TEST(BlackwellModel, HasTheCardsOfEachCapability) {
  EXPECT_EQ(gpu_model("sm_120a", "NVIDIA GeForce RTX 5080")->name, "RTX 5080");
  EXPECT_EQ(gpu_model("sm_120a", "NVIDIA RTX PRO 6000 Blackwell Server Edition")->name,
            "RTX PRO 6000");
  EXPECT_EQ(gpu_model("sm_120a", "NVIDIA GeForce RTX 5070")->name, "RTX 5090");
  EXPECT_EQ(gpu_model("sm_121a", "NVIDIA GB10")->name, "GB10");
  EXPECT_EQ(gpu_model("sm_103a", "NVIDIA B300")->name, "B200");
  EXPECT_EQ(gpu_model("sm_121")->num_sms, 48);
}

}  // namespace
}  // namespace lssar
