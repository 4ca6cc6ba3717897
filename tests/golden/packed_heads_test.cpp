// Schedules that pack the queries of the heads that share keys into tiles (pack_gqa), against the
// float64 reference.
#include <gtest/gtest.h>

#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

constexpr uint32_t kForwards = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN;

struct Shape {
  int64_t group, kv_heads, seq_q, seq_k;
};

class PackedHeads : public testing::Test {
 protected:
  PackedHeads() {
    problem_.head_dim = problem_.head_dim_v = 32;
    options_.passes = kForwards;
    options_.schedule_json = R"({"variant": "portable", "pack_gqa": true})";
  }

  void check(const Shape& shape) {
    check_against_reference(
        problem_,
        make_sizes(2, shape.group * shape.kv_heads, shape.kv_heads, shape.seq_q, shape.seq_k),
        InputKind::kGauss, options_);
  }

  Problem problem_;
  CapiOptions options_;
};

TEST_F(PackedHeads, OfEveryGroup) {
  // Tiles have 64 rows: groups that divide it and others, and more heads than rows.
  for (const int64_t group : {1, 2, 3, 8, 16, 40, 71, 130}) check({group, 1, 5, 70});
}

TEST_F(PackedHeads, OfEveryLength) {
  for (const bool causal : {true, false}) {
    problem_.causal = causal;
    for (const Shape& shape : {Shape{4, 2, 1, 100},
                               {4, 2, 7, 7},
                               {2, 1, 63, 70},
                               {2, 1, 64, 64},
                               {2, 1, 65, 30},
                               {3, 2, 43, 90},
                               {4, 1, 0, 9},
                               {4, 1, 9, 0}})
      check(shape);
  }
}

TEST_F(PackedHeads, OfEveryType) {
  for (const DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
    problem_.dtype = dtype;
    check({6, 2, 23, 50});
  }
}

TEST_F(PackedHeads, InEveryLayout) {
  for (const Layout layout : {Layout::kLengthMajor, Layout::kPadded, Layout::kUnaligned}) {
    options_.layout = layout;
    check({6, 2, 23, 50});
  }
}

// What is saved lies where the backward looks for it.
TEST_F(PackedHeads, LeaveTheBackwardWhatItNeeds) {
  options_.passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  check({3, 2, 25, 40});
}

struct Setting {
  const char* name;
  const char* hopper;
  const char* forward = "{}";
  int dim = 64;
  int dim_v = 64;
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

class HopperPackedHeads : public testing::TestWithParam<Setting> {
 protected:
  void check(bool causal, const Shape& shape, uint32_t passes) {
    Problem problem;
    problem.head_dim = GetParam().dim;
    problem.head_dim_v = GetParam().dim_v;
    problem.causal = causal;
    CapiOptions options;
    options.passes = passes;
    options.alignment = 16;
    options.layout = causal ? Layout::kLengthMajor : Layout::kContiguous;
    options.schedule_json = std::string(R"({"variant": "hopper", "pack_gqa": true, "forward": )") +
                            GetParam().forward + R"(, "hopper": )" + GetParam().hopper + "}";
    CheckDevice device;
    device.target = "sm_90a";
    check_against_reference(
        problem,
        make_sizes(2, shape.group * shape.kv_heads, shape.kv_heads, shape.seq_q, shape.seq_k),
        InputKind::kGauss, options, device);
  }
};

// A consumer's 64 rows: whole queries of a group that divides them, of one that does not, and a
// part of a query of more heads; work tiles with consumers that have nothing left.
TEST_P(HopperPackedHeads, GiveTheSame) {
  for (const Shape& shape : {Shape{8, 2, 1, 150},
                             {8, 2, 37, 100},
                             {3, 2, 64, 70},
                             {71, 1, 3, 40},
                             {1, 2, 65, 30},
                             {16, 1, 17, 9},
                             {4, 1, 0, 9},
                             {4, 1, 9, 0}})
    check(true, shape, LSSAR_PASS_FORWARD);
}

INSTANTIATE_TEST_SUITE_P(
    All, HopperPackedHeads,
    testing::Values(Setting{"Default", "{}"}, Setting{"OddDims", "{}", "{}", 72, 40},
                    Setting{"StaticTurns", R"({"persistent": false, "tickets": false})"},
                    Setting{"QueriesInRegisters",
                            R"({"queries_in_registers": true, "store_path": "registers"})"},
                    Setting{"NoOverlap", R"({"overlap": false})"},
                    Setting{"Cluster2", R"({"cluster": 2, "tickets": false})"},
                    Setting{"ThreeConsumers", "{}", R"({"block_rows": 192, "stages": 3})"},
                    Setting{"Staggered", R"({"stagger": 2})"}),
    [](const testing::TestParamInfo<Setting>& setting) { return std::string(setting.param.name); });

class HopperPackedHeadsForTraining : public HopperPackedHeads {};

TEST_P(HopperPackedHeadsForTraining, LeaveTheBackwardWhatItNeeds) {
  check(false, {3, 2, 50, 40}, LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD);
}

INSTANTIATE_TEST_SUITE_P(All, HopperPackedHeadsForTraining, testing::Values(Setting{"", "{}"}));

}  // namespace
}  // namespace lssar
