// What a schedule of Variant::kHopper can vary, compared with the float64 reference at target
// sm_90a.
#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "score/score_text.h"
#include "tests/golden/attention_check.h"

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

INSTANTIATE_TEST_SUITE_P(
    Forward, HopperSchedules,
    testing::ValuesIn(masks_in_turn(
        {Setting{"NoOverlap", kForwards, R"({"hopper": {"overlap": false}})"},
         Setting{"NoPingPong", kForwards, R"({"hopper": {"ping_pong": false}})"},
         Setting{"NotPersistent", kForwards, R"({"hopper": {"persistent": false}})"},
         Setting{"NoneOfThem", kForwards,
                 R"({"hopper": {"overlap": false, "ping_pong": false, "persistent": false}})"},
         Setting{"Tickets", kForwards, R"({"hopper": {"tickets": true}})"},
         Setting{"Turns", kForwards, R"({"hopper": {"tickets": false}})"},
         Setting{"TicketsOneConsumer", kForwards,
                 R"({"forward": {"block_rows": 64}, "hopper": {"tickets": true, "ping_pong": false,
                    "queries_in_registers": true}})"},
         Setting{"TwoStages", kForwards, R"({"forward": {"stages": 2}})"},
         Setting{"TwoStagesNoOverlap", kForwards,
                 R"({"forward": {"stages": 2}, "hopper": {"overlap": false}})"},
         Setting{"OneConsumer", kForwards,
                 R"({"forward": {"block_rows": 64}, "hopper": {"ping_pong": false,
                    "producer_registers": 0, "consumer_registers": 0}})"},
         Setting{"ThreeConsumers", kForwards,
                 R"({"forward": {"block_rows": 192, "stages": 4}, "hopper":
                    {"producer_registers": 32, "consumer_registers": 160}})"},
         Setting{"ThreeConsumersAtOnce", kForwards,
                 R"({"forward": {"block_rows": 192, "stages": 3}, "hopper": {"ping_pong": false,
                    "producer_registers": 32, "consumer_registers": 160}})"},
         Setting{"QueriesInRegisters", kForwards, R"({"hopper": {"queries_in_registers": true}})"},
         Setting{"QueriesInRegistersOddDims", kForwards,
                 R"({"hopper": {"queries_in_registers": true}})", 72, 40},
         Setting{"RegistersAsLaunched", kForwards,
                 R"({"hopper": {"producer_registers": 0, "consumer_registers": 0}})"},
         Setting{"ScoreCols8", kForwards, R"({"hopper": {"score_cols": 8}})"},
         Setting{"ScoreCols24", kForwards, R"({"hopper": {"score_cols": 24}})"},
         Setting{"ScoreCols104", kForwards, R"({"hopper": {"score_cols": 104}})"},
         Setting{"ScoreCols256", kForwards,
                 R"({"forward": {"stages": 3}, "hopper": {"score_cols": 256}})"},
         Setting{"BlockCols16", kForwards, R"({"forward": {"block_cols": 16}})"},
         Setting{"BlockCols80", kForwards, R"({"forward": {"block_cols": 80}})"},
         Setting{"BlockCols256", kForwards, R"({"forward": {"block_cols": 256, "stages": 2}})"},
         Setting{"BlockDvHalf", kForwards, R"({"block_dv": 32})"},
         Setting{"Cluster2", kForwards, R"({"hopper": {"cluster": 2}})"},
         Setting{"Cluster4", kForwards, R"({"hopper": {"cluster": 4}})"},
         // Values in several chunks of columns: products whose descriptors have a distance between
         // chunks.
         Setting{"Cluster2WideValues", kForwards, R"({"hopper": {"cluster": 2}})", 64, 128},
         Setting{"Cluster4WideValues", LSSAR_PASS_FORWARD,
                 R"({"hopper": {"cluster": 4, "store_path": "registers"}})", 128, 128},
         Setting{"Cluster2NotPersistent", kForwards,
                 R"({"hopper": {"cluster": 2, "persistent": false}})"},
         Setting{"Cluster2TwoStagesNoOverlap", kForwards,
                 R"({"forward": {"stages": 2}, "hopper": {"cluster": 2, "overlap": false}})"},
         Setting{"Cluster2OneConsumer", kForwards,
                 R"({"forward": {"block_rows": 64, "block_cols": 32}, "hopper": {"cluster": 2,
                    "score_cols": 48, "ping_pong": false}})"},
         Setting{"Cluster4ThreeConsumers", kForwards,
                 R"({"forward": {"block_rows": 192, "stages": 3}, "hopper": {"cluster": 4}})", 72,
                 40},
         Setting{"Cluster2SkipTiles", kForwards,
                 R"({"skip_tiles": true, "block_dv": 32, "hopper": {"cluster": 2}})"},
         Setting{"WeightsInShared", kForwards,
                 R"({"forward": {"stages": 6}, "hopper": {"weights_from": "shared"}})"},
         Setting{"WeightsInSharedTwoStagesNoOverlap", kForwards,
                 R"({"forward": {"stages": 2, "block_cols": 80}, "hopper":
                    {"weights_from": "shared", "overlap": false}})"},
         Setting{"WeightsInSharedOddDims", kForwards,
                 R"({"forward": {"stages": 3}, "block_dv": 40, "skip_tiles": true,
                    "hopper": {"weights_from": "shared"}})",
                 96, 104},
         Setting{"WeightsInSharedQueriesInRegisters", kForwards,
                 R"({"forward": {"stages": 4, "block_cols": 48}, "hopper":
                    {"weights_from": "shared", "queries_in_registers": true}})"},
         Setting{"StoresFromRegisters", kForwards, R"({"hopper": {"store_path": "registers"}})"},
         Setting{"StoresByTma", kForwards, R"({"hopper": {"store_path": "tma"}})"},
         Setting{"StoresByTmaOddDims", kForwards, R"({"hopper": {"store_path": "tma"}})", 72, 112},
         Setting{"StoresByTmaStatic", kForwards,
                 R"({"hopper": {"store_path": "tma", "persistent": false}})", 128, 96},
         Setting{"AllOfThem", kForwards,
                 R"({"skip_tiles": true, "forward": {"stages": 4, "block_cols": 64}, "hopper":
                    {"store_path": "tma", "weights_from": "shared", "cluster": 2}})"},
         Setting{"SkipTiles", kForwards, R"({"skip_tiles": true})"},
         Setting{"SkipTilesNoOverlap", kForwards,
                 R"({"skip_tiles": true, "hopper": {"overlap": false}})"},
         Setting{"BlockDvInThirds", kForwards, R"({"block_dv": 40, "forward": {"stages": 4}})", 96,
                 104},
         Setting{"HeadGroup1", kForwards, R"({"hopper": {"head_group": 1}})"},
         Setting{"HeadGroup3", kForwards, R"({"hopper": {"head_group": 3}})"}})),
    setting_name);

INSTANTIATE_TEST_SUITE_P(
    Backward, HopperSchedules,
    testing::ValuesIn(masks_in_turn(
        {Setting{"NoOverlap", kBackward, R"({"hopper": {"overlap": false}})"},
         Setting{"NoPingPong", kBackward, R"({"hopper": {"ping_pong": false}})"},
         Setting{"NotPersistent", kBackward, R"({"hopper": {"persistent": false}})"},
         Setting{"TwoStages", kBackward, R"({"dkdv": {"stages": 2}, "dq": {"stages": 2}})"},
         Setting{"OneConsumer", kBackward,
                 R"({"dkdv": {"block_rows": 64}, "dq": {"block_rows": 64},
                    "hopper": {"ping_pong": false, "producer_registers": 0,
                    "consumer_registers": 0}})"},
         Setting{"ThreeConsumers", kBackward,
                 R"({"forward": {"block_rows": 192, "stages": 4}, "dkdv": {"block_rows": 192,
                    "block_cols": 32}, "dq": {"block_rows": 192, "block_cols": 48}, "hopper":
                    {"producer_registers": 32, "consumer_registers": 160}})"},
         Setting{"Cols16", kBackward, R"({"dkdv": {"block_cols": 16}, "dq": {"block_cols": 16}})"},
         Setting{"Cols112", kBackward,
                 R"({"dkdv": {"block_cols": 112, "stages": 2}, "dq": {"block_cols": 112,
                    "stages": 2}})"},
         Setting{"SplitDkdv", kBackward, R"({"split_dkdv": true})"},
         Setting{"HeadGroup1", kBackward, R"({"hopper": {"head_group": 1}})"},
         Setting{"HeadGroup3", kBackward, R"({"hopper": {"head_group": 3}})"},
         Setting{"Atomic", kBackward, R"({"dq_mode": "atomic"})"},
         Setting{"AtomicPersistent", kBackward,
                 R"({"dq_mode": "atomic", "hopper": {"persistent": true, "overlap": false}})"},
         Setting{"AtomicOneConsumer", kBackward,
                 R"({"dq_mode": "atomic", "dkdv": {"block_rows": 64, "stages": 2},
                    "hopper": {"producer_registers": 0, "consumer_registers": 0}})"},
         Setting{"AtomicSplitDkdv", kBackward, R"({"dq_mode": "atomic", "split_dkdv": true})"},
         Setting{"AtomicOddDims", kBackward, R"({"dq_mode": "atomic"})", 40, 88},
         Setting{"AtomicTwoChunks", kBackward, R"({"dq_mode": "atomic", "variant": "hopper"})", 96,
                 64},
         // Shared memory has no room for parts of dq.
         Setting{"AtomicThreeChunks", kBackward, R"({"dq_mode": "atomic", "variant": "hopper"})",
                 136, 64},
         Setting{"AtomicTwoChunksOneConsumer", kBackward,
                 R"({"dq_mode": "atomic", "variant": "hopper", "dkdv": {"block_rows": 64}})", 72,
                 64},
         Setting{"AtomicFromRegisters", kBackward,
                 R"({"dq_mode": "atomic", "hopper": {"sum_path": "registers"}})"},
         Setting{"AtomicFromRegistersOddDims", kBackward,
                 R"({"dq_mode": "atomic", "hopper": {"sum_path": "registers"}})", 40, 88},
         Setting{"Ordered", kBackward, R"({"dq_mode": "ordered"})"},
         Setting{"OrderedOneConsumer", kBackward,
                 R"({"dq_mode": "ordered", "dkdv": {"block_rows": 64, "stages": 2},
                    "hopper": {"producer_registers": 0, "consumer_registers": 0}})"},
         Setting{"OrderedSplitDkdv", kBackward, R"({"dq_mode": "ordered", "split_dkdv": true})"},
         Setting{"OrderedOddDims", kBackward, R"({"dq_mode": "ordered"})", 40, 88},
         Setting{"AtomicWide", kBackward, R"({"dq_mode": "atomic"})", 128, 128},
         Setting{"OrderedWide", kBackward, R"({"dq_mode": "ordered"})", 128, 128},
         Setting{"MoreQueries", kBackward, R"({"dkdv": {"block_cols": 80, "stages": 2}})", 128,
                 128}})),
    setting_name);

// Chains of query tiles: whole ones, and shorter ones at the end of a head.
INSTANTIATE_TEST_SUITE_P(
    Staggered, HopperSchedules,
    testing::ValuesIn(masks_in_turn(
        {Setting{"By2", kForwards, R"({"hopper": {"stagger": 2}})"},
         Setting{"By3Static", kForwards,
                 R"({"hopper": {"stagger": 3, "persistent": false, "store_path": "registers"}})"},
         Setting{"By3TwoStages", kForwards,
                 R"({"forward": {"stages": 2}, "hopper": {"stagger": 3, "ping_pong": false}})"},
         Setting{"OneConsumerTickets", kForwards,
                 R"({"forward": {"block_rows": 64, "block_cols": 32}, "hopper": {"stagger": 2,
                    "tickets": true, "ping_pong": false}})"},
         Setting{"ThreeConsumersTurns", kForwards,
                 R"({"forward": {"block_rows": 192, "block_cols": 16, "stages": 5}, "hopper":
                    {"stagger": 2, "tickets": false, "weights_from": "shared"}})"},
         Setting{"D128", kForwards, R"({"hopper": {"stagger": 4}})", 128, 128},
         Setting{"OddDims", kForwards, R"({"hopper": {"stagger": 2}})", 72, 40}})),
    setting_name);

// Score functions given as expressions: one of each class that the kernels tell apart, with every
// schedule that changes how their weights are summed up. A score function takes every other one, in
// turn as a forward with a mask in bf16 and as a forward for training without one in fp16. Its turn
// says with which schedule and with which forward it begins.
class FamilySchedules : public testing::TestWithParam<
                            std::tuple<const char* /* score */, int /* p */, int /* turn */>> {};

TEST_P(FamilySchedules, GiveTheSame) {
  const auto score = parse_score(std::get<0>(GetParam()));
  ASSERT_TRUE(score.ok()) << score.status().to_string();
  bool takes_it = std::get<2>(GetParam()) % 2 != 0, causal = std::get<2>(GetParam()) / 2 != 0;
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
    takes_it = !takes_it;
    if (!takes_it) continue;
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
                    std::tuple{"phi=relu,normalizer=length", 2, 0}, std::tuple{"lssar", 100, 1},
                    std::tuple{"softmax,psi=(x - b) / N", 0, 2},
                    std::tuple{"phi=softplus,psi=x*tanh(x + b - N),psi_normalizer=sum_abs", 0, 3}));

// Tiles without weights beside tiles with weights: some without only for a warp, some for its warp
// group.
class SkippedTiles : public testing::TestWithParam<const char*> {};

TEST_P(SkippedTiles, FitEveryKindOfData) {
  const Setting setting{"", kForwards, GetParam(), 64, 64};
  for (InputKind kind :
       {InputKind::kLocal, InputKind::kPeaky, InputKind::kClustered, InputKind::kOpposed,
        InputKind::kTies, InputKind::kZeros, InputKind::kShifted}) {
    for (int p : {1, 15}) {
      const bool causal = p == 15;
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
  const std::string schedule = std::string(R"({"hopper": {"evaluator": ")") + GetParam() + R"("}})";
  const Setting setting{"", kForwards, schedule.c_str(), 128, 128};
  const Sizes sizes = make_sizes(1, 2, 1, 200, 200);
  for (InputKind kind : {InputKind::kPeaky, InputKind::kClustered, InputKind::kNearTies,
                         InputKind::kTies, InputKind::kZeros, InputKind::kHuge}) {
    check_setting(setting, make_problem(setting, DType::kBf16, true), sizes, kind);
    check_setting(setting, make_problem(setting, DType::kFp16, false), sizes, kind);
  }
  for (const InputKind kind : {InputKind::kOpposed, InputKind::kShifted})
    check_setting(setting, make_problem(setting, DType::kBf16, true), sizes, kind);
  check_setting(setting, make_problem(setting, DType::kFp16, false), sizes, InputKind::kShifted);
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
