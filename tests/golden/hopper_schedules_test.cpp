// What a schedule of Variant::kHopper can vary, compared with the float64 reference at target
// sm_90a.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "score/score_text.h"
#include "tests/golden/attention_check.h"
#include "tests/golden/hopper_forward_row.h"

namespace lssar {
namespace {

constexpr uint32_t kForwards = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN;
constexpr uint32_t kBackward = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;

struct Setting {
  const char* name;
  uint32_t passes;
  const char* schedule;
  int dim = 64;
  int dim_v = 64;
  bool has_causal = true, has_full = true;  // which masks are tried
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

std::string setting_name(const testing::TestParamInfo<Setting>& param_info) {
  return param_info.param.name;
}

// More work tiles than the virtual device has SMs, so that persistent blocks take several.
constexpr int64_t kPairs[][2] = {{150, 150}, {64, 0}, {0, 64}, {200, 5}, {5, 200}, {300, 270}};

Problem make_problem(const Setting& setting, DType dtype, bool causal) {
  Problem problem;
  problem.head_dim = setting.dim;
  problem.head_dim_v = setting.dim_v;
  problem.dtype = dtype;
  problem.causal = causal;
  return problem;
}

void check_setting(const Setting& setting, const Problem& problem, const Sizes& sizes,
                   InputKind kind) {
  CapiOptions options;
  options.passes = setting.passes;
  options.alignment = 16;
  options.schedule_json = setting.schedule;
  // All backwards of a head dim share the forward.
  if (setting.passes == kBackward) {
    options.backward_schedule_json = setting.schedule;
    auto forward = nlohmann::json::parse(lssar::small_tiles("sm_90a"));
    const auto backward = nlohmann::json::parse(setting.schedule);
    if (backward.contains("epsilon")) forward["epsilon"] = backward["epsilon"];
    options.schedule_json = forward.dump();
  }
  CheckDevice device;
  device.target = "sm_90a";
  check_against_reference(problem, sizes, kind, options, device);
}

// The schedule with tiles of fewer columns than the default's, unless it has its own: half the time
// to compile, and more tiles to walk over. Sums of dq and other head dims keep the default's.
std::string small_tiles(const Setting& setting) {
  const auto given = nlohmann::json::parse(setting.schedule);
  if (setting.dim != 64 || setting.dim_v != 64 || given.contains("dq_mode"))
    return setting.schedule;
  auto schedule = nlohmann::json::parse(
      R"({"forward": {"block_cols": 64}, "dkdv": {"block_cols": 32}, "dq": {"block_cols": 32},
          "hopper": {"score_cols": 64}})");
  schedule.merge_patch(given);
  return schedule.dump();
}

// Every other schedule is tried with a mask, the rest without: each is a kernel to compile. The
// forwards with a mask are plain ones, those without are for training.
class HopperSchedules : public testing::TestWithParam<Setting> {};

std::vector<Setting> masks_in_turn(std::vector<Setting> settings) {
  bool causal = true;
  for (Setting& setting : settings) {
    setting.has_causal = causal;
    setting.has_full = !causal;
    causal = !causal;
  }
  return settings;
}

TEST_P(HopperSchedules, GiveTheSame) {
  for (bool causal : {true, false}) {
    const DType dtype = causal ? DType::kBf16 : DType::kFp16;
    Setting setting = GetParam();
    const std::string schedule = small_tiles(setting);
    setting.schedule = schedule.c_str();
    if (!(causal ? setting.has_causal : setting.has_full)) continue;
    if (setting.passes == kForwards)
      setting.passes = causal ? LSSAR_PASS_FORWARD : LSSAR_PASS_FORWARD_TRAIN;
    for (const auto& pair : kPairs)
      check_setting(setting, make_problem(setting, dtype, causal),
                    make_sizes(2, 2, 1, pair[0], pair[1]), InputKind::kGauss);
  }
}

// What hopper_forward_row leaves out: the longest tiles, and products whose descriptors have a
// distance between chunks of columns.
INSTANTIATE_TEST_SUITE_P(
    Forward, HopperSchedules,
    testing::ValuesIn(masks_in_turn(
        {Setting{"Cluster4WideValues", kForwards,
                 R"({"hopper": {"cluster": 4, "store_path": "registers"}})", 128, 128},
         Setting{"Cols256", kForwards,
                 R"({"forward": {"block_cols": 256, "stages": 2}, "hopper": {"score_cols": 256}})"},
         Setting{"StaggeredBy2", kForwards, R"({"hopper": {"stagger": 2}})"},
         Setting{"StaggeredBy4Wide", kForwards, R"({"hopper": {"stagger": 4}})", 128, 128}})),
    setting_name);

// Fields of one kernel each stand together. sweep_test has the atomic and the ordered sum of other
// head dims, with the default tiles.
INSTANTIATE_TEST_SUITE_P(
    Backward, HopperSchedules,
    testing::ValuesIn(masks_in_turn(
        {Setting{"NoOverlapTwoStages", kBackward,
                 R"({"dkdv": {"stages": 2}, "dq": {"stages": 2}, "hopper":
                    {"overlap": false, "head_group": 1}})"},
         Setting{"NoPingPongCols16", kBackward,
                 R"({"dkdv": {"block_cols": 16}, "dq": {"block_cols": 16}, "hopper":
                    {"ping_pong": false, "head_group": 3}})"},
         Setting{"OneConsumer", kBackward,
                 R"({"dkdv": {"block_rows": 64}, "dq": {"block_rows": 64},
                    "hopper": {"ping_pong": false, "producer_registers": 0,
                    "consumer_registers": 0}})"},
         Setting{"ThreeConsumers", kBackward,
                 R"({"dkdv": {"block_rows": 192, "block_cols": 32}, "dq": {"block_rows": 192,
                    "block_cols": 48}, "hopper": {"producer_registers": 32,
                    "consumer_registers": 160}})"},
         Setting{"SplitDkdvCols112", kBackward,
                 R"({"split_dkdv": true, "dkdv": {"block_cols": 112, "stages": 2},
                    "dq": {"block_cols": 112, "stages": 2}, "hopper": {"persistent": false}})"},
         Setting{"MoreQueries", kBackward, R"({"dkdv": {"block_cols": 80, "stages": 2}})", 128,
                 128},
         Setting{"AtomicOneConsumer", kBackward,
                 R"({"dq_mode": "atomic", "dkdv": {"block_rows": 64, "stages": 2},
                    "hopper": {"producer_registers": 0, "consumer_registers": 0}})"},
         Setting{"AtomicSplitDkdvOddDims", kBackward,
                 R"({"dq_mode": "atomic", "split_dkdv": true})", 40, 88},
         Setting{"AtomicTwoChunksPersistent", kBackward,
                 R"({"dq_mode": "atomic", "variant": "hopper", "hopper":
                    {"persistent": true, "overlap": false}})",
                 96, 64},
         // Shared memory has no room for parts of dq.
         Setting{"AtomicThreeChunks", kBackward, R"({"dq_mode": "atomic", "variant": "hopper"})",
                 136, 64},
         Setting{"AtomicTwoChunksOneConsumer", kBackward,
                 R"({"dq_mode": "atomic", "variant": "hopper", "dkdv": {"block_rows": 64}})", 72,
                 64},
         Setting{"AtomicFromRegistersSplitDkdv", kBackward,
                 R"({"dq_mode": "atomic", "split_dkdv": true, "hopper":
                    {"sum_path": "registers"}})"},
         Setting{"AtomicFromRegistersOddDims", kBackward,
                 R"({"dq_mode": "atomic", "hopper": {"sum_path": "registers"}})", 40, 88},
         Setting{"OrderedOneConsumer", kBackward,
                 R"({"dq_mode": "ordered", "dkdv": {"block_rows": 64, "stages": 2},
                    "hopper": {"producer_registers": 0, "consumer_registers": 0}})"},
         Setting{"OrderedSplitDkdvOddDims", kBackward,
                 R"({"dq_mode": "ordered", "split_dkdv": true})", 40, 88},
         Setting{"OrderedWide", kBackward, R"({"dq_mode": "ordered"})", 128, 128}})),
    setting_name);

// Any two values that a forward's schedule may have together.
class HopperForwards : public testing::TestWithParam<FactorRow> {};

TEST_P(HopperForwards, GiveTheSame) {
  const HopperForward forward = hopper_forward(GetParam());
  SCOPED_TRACE(forward.schedule_json);
  const uint32_t pass =
      forward.problem.pass == Pass::kForward ? LSSAR_PASS_FORWARD : LSSAR_PASS_FORWARD_TRAIN;
  const Setting setting{"", pass, forward.schedule_json.c_str()};
  for (const auto& pair : kPairs)
    check_setting(setting, forward.problem, make_sizes(2, 2, 1, pair[0], pair[1]),
                  InputKind::kGauss);
}

INSTANTIATE_TEST_SUITE_P(Rows, HopperForwards, testing::ValuesIn(hopper_forward_rows()),
                         [](const testing::TestParamInfo<FactorRow>& param_info) {
                           return std::to_string(param_info.index);
                         });

// A pair is left out only if the rules of schedules refuse it, whatever the other values are.
TEST(HopperForwardRows, HaveEveryPairThatIsLegal) {
  const std::vector<FactorRow> rows = hopper_forward_rows();
  const std::vector<int> counts = hopper_forward_counts();
  for (size_t a = 0; a < counts.size(); ++a)
    for (size_t b = a + 1; b < counts.size(); ++b)
      for (int i = 0; i < counts[a]; ++i)
        for (int j = 0; j < counts[b]; ++j) {
          FactorRow pair(counts.size(), kAnyValue);
          pair[a] = i;
          pair[b] = j;
          const bool has_pair = std::any_of(rows.begin(), rows.end(), [&](const FactorRow& row) {
            return row[a] == i && row[b] == j;
          });
          EXPECT_EQ(has_pair, allows_hopper_forward(pair)) << hopper_forward(pair).schedule_json;
        }
}

// Score functions given as expressions: one of each class that the kernels tell apart, with the
// schedules that change how their weights are summed up. A score function takes every third one, in
// turn as a forward with a mask in bf16 and as a forward for training without one in fp16. Its turn
// says with which schedule and with which forward it begins.
class FamilySchedules : public testing::TestWithParam<
                            std::tuple<const char* /* score */, int /* p */, int /* turn */>> {};

TEST_P(FamilySchedules, GiveTheSame) {
  const auto score = parse_score(std::get<0>(GetParam()));
  ASSERT_TRUE(score.ok()) << score.status().to_string();
  int turn = std::get<2>(GetParam());
  bool causal = turn % 2 != 0;
  for (const char* schedule :
       {R"({"hopper": {"overlap": false, "persistent": false, "ping_pong": false}})",
        R"({"hopper": {"queries_in_registers": true}})",
        R"({"forward": {"stages": 5}, "hopper": {"weights_from": "shared"}})",
        R"({"block_dv": 32, "hopper": {"cluster": 2}})",
        R"({"forward": {"block_rows": 64, "block_cols": 48}, "hopper": {"tickets": true,
            "ping_pong": false}})",
        R"({"forward": {"block_rows": 192, "block_cols": 64, "stages": 3}, "hopper":
            {"store_path": "registers"}})",
        R"({"pack_gqa": true, "hopper": {"score_cols": 24}})"}) {
    if (turn++ % 3 != 0) continue;
    causal = !causal;
    const Setting setting{"", causal ? LSSAR_PASS_FORWARD : LSSAR_PASS_FORWARD_TRAIN, schedule};
    for (const auto& pair : {std::pair{150, 150}, {64, 0}, {200, 5}, {5, 200}}) {
      Problem problem = make_problem(setting, causal ? DType::kBf16 : DType::kFp16, causal);
      problem.score = *score;
      problem.p = std::get<1>(GetParam());
      check_setting(setting, problem, make_sizes(2, 2, 1, pair.first, pair.second),
                    InputKind::kGauss);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FamilySchedules,
    testing::Values(std::tuple{"softmax", 0, 0}, std::tuple{"softmax", 5, 1},
                    std::tuple{"sigmoid", 0, 2}, std::tuple{"phi=gelu,normalizer=sum_abs", 0, 3},
                    std::tuple{"phi=relu,normalizer=length", 2, 4}, std::tuple{"lssar", 100, 5},
                    std::tuple{"softmax,psi=(x - b) / N", 0, 6},
                    std::tuple{"phi=softplus,psi=x*tanh(x + b - N),psi_normalizer=sum_abs", 0, 7}));

// Tiles without weights beside tiles with weights: some without only for a warp, some for its warp
// group.
class SkippedTiles : public testing::TestWithParam<const char*> {};

TEST_P(SkippedTiles, FitEveryKindOfData) {
  for (InputKind kind :
       {InputKind::kLocal, InputKind::kPeaky, InputKind::kClustered, InputKind::kOpposed,
        InputKind::kTies, InputKind::kZeros, InputKind::kShifted}) {
    for (int p : {1, 15}) {
      const bool causal = p == 15;
      const Setting setting{"", causal ? LSSAR_PASS_FORWARD : LSSAR_PASS_FORWARD_TRAIN, GetParam()};
      Problem problem = make_problem(setting, causal ? DType::kBf16 : DType::kFp16, causal);
      problem.p = p;
      check_setting(setting, problem, make_sizes(1, 2, 1, 330, 700), kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SkippedTiles,
    testing::Values(R"({"skip_tiles": true})",
                    R"({"skip_tiles": true, "forward": {"block_cols": 16, "stages": 4}})",
                    R"({"skip_tiles": true, "block_dv": 32, "hopper": {"overlap": false}})",
                    R"({"skip_tiles": true, "variant": "portable"})"));

TEST(SkippedTiles, OfFp32AreLeftOutToo) {
  CapiOptions options;
  options.passes = kForwards;
  options.schedule_json = R"({"skip_tiles": true})";
  const Setting setting{"", kForwards, ""};
  check_against_reference(make_problem(setting, DType::kFp32, true), make_sizes(1, 2, 1, 330, 700),
                          InputKind::kLocal, options);
}

struct Gradients {
  const char* evaluator;
  const char* dq_mode;
};

// Each form of softplus, on scores that let pass 2 choose it and on others.
class HopperEvaluators : public testing::TestWithParam<const char*> {};

TEST_P(HopperEvaluators, FitEveryKindOfData) {
  const std::string schedule =
      std::string(
          R"({"forward": {"block_cols": 64}, "hopper": {"score_cols": 64, "evaluator": ")") +
      GetParam() + R"("}})";
  const Sizes sizes = make_sizes(1, 2, 1, 200, 200);
  for (InputKind kind :
       {InputKind::kPeaky, InputKind::kClustered, InputKind::kNearTies, InputKind::kTies,
        InputKind::kZeros, InputKind::kHuge, InputKind::kOpposed, InputKind::kShifted}) {
    for (const bool causal : {true, false}) {
      if (kind == InputKind::kOpposed && !causal) continue;
      const Setting setting{"", causal ? LSSAR_PASS_FORWARD : LSSAR_PASS_FORWARD_TRAIN,
                            schedule.c_str(), 128, 128};
      check_setting(setting, make_problem(setting, causal ? DType::kBf16 : DType::kFp16, causal),
                    sizes, kind);
    }
  }
}

// The same in the backward: tiles of one evaluator beside tiles of another, and beside masked ones,
// which take the full form.
class HopperGradientEvaluators : public testing::TestWithParam<Gradients> {};

TEST_P(HopperGradientEvaluators, FitEveryKindOfData) {
  const std::string schedule = std::string(R"({"dq_mode": ")") + GetParam().dq_mode +
                               R"(", "hopper": {"evaluator": ")" + GetParam().evaluator + R"("}})";
  const Setting setting{"", kBackward, schedule.c_str(), 128, 64};
  const Sizes sizes = make_sizes(1, 2, 1, 150, 230);
  for (InputKind kind :
       {InputKind::kPeaky, InputKind::kClustered, InputKind::kOpposed, InputKind::kNearTies,
        InputKind::kTies, InputKind::kZeros, InputKind::kHuge}) {
    for (int p : {2, 15}) {
      const bool causal = p == 15;
      Problem problem = make_problem(setting, causal ? DType::kBf16 : DType::kFp16, causal);
      problem.p = p;
      check_setting(setting, problem, sizes, kind);
    }
  }
}

// No tile has rows past the end, which would take the full form. Without an offset epsilon is 0 and
// has no inverse.
TEST_P(HopperGradientEvaluators, FitAnyEpsilon) {
  const std::string others = std::string(R"("dq_mode": ")") + GetParam().dq_mode +
                             R"(", "hopper": {"evaluator": ")" + GetParam().evaluator + R"("}})";
  const std::string from_x = "{" + others, by_pass = R"({"epsilon": "pass", )" + others;
  const Sizes sizes = make_sizes(1, 2, 1, 320, 230);
  // Both for the default evaluator with split sums; the others have one, in turn. Two kernels each.
  const std::string mode = GetParam().dq_mode, evaluator = GetParam().evaluator;
  const bool is_default = mode == "split" && evaluator == "linear";
  const bool takes_x = is_default || mode == "atomic" || evaluator == "full";
  for (const std::string* schedule : {&from_x, &by_pass}) {
    if (!is_default && takes_x != (schedule == &from_x)) continue;
    const Setting setting{"", kBackward, schedule->c_str(), 128, 64};
    for (InputKind kind : {InputKind::kPeaky, InputKind::kNearTies}) {
      const DType dtype = schedule == &from_x ? DType::kBf16 : DType::kFp16;
      Problem problem = make_problem(setting, dtype, false);
      if (schedule == &from_x) problem.offset = 0;
      check_setting(setting, problem, sizes, kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HopperGradientEvaluators,
                         testing::Values(Gradients{"full", "split"}, Gradients{"short", "split"},
                                         Gradients{"linear", "split"},
                                         Gradients{"linear", "atomic"},
                                         Gradients{"linear", "ordered"}),
                         [](const testing::TestParamInfo<Gradients>& param_info) {
                           return std::string(param_info.param.evaluator) + "_" +
                                  param_info.param.dq_mode;
                         });

INSTANTIATE_TEST_SUITE_P(All, HopperEvaluators, testing::Values("full", "short", "linear"),
                         [](const testing::TestParamInfo<const char*>& param_info) {
                           return std::string(param_info.param);
                         });

}  // namespace
}  // namespace lssar
