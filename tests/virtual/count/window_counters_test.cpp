// The kernels of a problem with a window multiply the tiles that have a visible pair, and no
// others: products counted on the virtual device.
#include <algorithm>
#include <string>
#include <vector>

#include "codegen/visible_keys.h"
#include "runtime/multiply_adds.h"
#include "score/score_text.h"
#include "tests/virtual/count/counted_call.h"

namespace lssar::test {
namespace {

constexpr int64_t kLength = 448;
constexpr int64_t kTile = 64;
constexpr uint64_t kDim = 64;
constexpr Sizes kSizes = {1, 1, 1, kLength, kLength};
constexpr uint64_t kTileFlop = kTile * kTile * 2 * kDim;  // of a product

class WindowCounters : public testing::Test {
 protected:
  explicit WindowCounters(const char* target = "sm_80") {
    VirtualOptions options;
    options.target = *target_from_name(target);
    options.count = true;
    device_ = make_virtual_device(options);
    engine_ = Engine::create({}, device_, nullptr);
    problem_.head_dim = problem_.head_dim_v = static_cast<int>(kDim);
    problem_.causal = true;
    problem_.window_left = 100;
    problem_.window_sinks = 4;
  }

  Schedule schedule(Pass pass, DqMode mode) const {
    Problem problem = problem_;
    problem.pass = pass;
    Schedule schedule = default_schedule(problem, device_->info().target, mode);
    schedule.forward.block_rows = schedule.forward.block_cols = kTile;
    schedule.dkdv.block_rows = schedule.dkdv.block_cols = kTile;
    schedule.dq.block_rows = schedule.dq.block_cols = kTile;
    schedule.block_dv = kDim;
    schedule.split_dkdv = false;
    return schedule;
  }

  // Tiles with a visible pair, found pair by pair; and the pairs.
  void count_pairs() {
    std::vector<bool> has_pair((kLength / kTile) * (kLength / kTile));
    for (int64_t row = 0; row < kLength; ++row) {
      const VisibleKeys keys = visible_keys(problem_, kLength, kLength, row);
      pairs_ += static_cast<uint64_t>(keys.count());
      for (int64_t n = 0; n < keys.count(); ++n)
        has_pair[row / kTile * (kLength / kTile) + keys.key(n) / kTile] = true;
    }
    tiles_ = static_cast<uint64_t>(std::count(has_pair.begin(), has_pair.end(), true));
  }

  uint64_t flop_of(const char* kernel) const {
    return counts_by_kernel(*device_).at(kernel).flop(TensorType::kBf16);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Engine> engine_;
  Problem problem_;
  uint64_t tiles_ = 0, pairs_ = 0;
};

// As AttentionCountersTest counts them without a window: the forward has three products per tile,
// and sums weights by products with 8 columns of ones; dk and dv take four, dq three.
TEST_F(WindowCounters, OnlyTilesWithAVisiblePairAreMultiplied) {
  count_pairs();
  // The diagonal and the two tiles before it, and from the fourth row of tiles on the sinks' tile.
  ASSERT_EQ(tiles_, 1 + 2 + 3 + 4 * 4u);
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForward, schedule(Pass::kForward, DqMode::kSplit));
  EXPECT_EQ(flop_of("lssar_forward"), tiles_ * kTileFlop * 3 + tiles_ * kTileFlop * 8 / kDim);
  call.run(Pass::kForwardTrain, schedule(Pass::kForwardTrain, DqMode::kSplit));
  call.run(Pass::kBackward, schedule(Pass::kBackward, DqMode::kSplit));
  EXPECT_EQ(flop_of("lssar_backward_dkdv"), tiles_ * kTileFlop * 4);
  // Rows that see at most three keys multiply dS' in two parts: those of the first warp.
  EXPECT_EQ(flop_of("lssar_backward_dq"), tiles_ * kTileFlop * 3 + kTileFlop / 4);
  RecordProperty(
      "products_done_per_pair_needed",
      std::to_string(static_cast<double>(tiles_ * kTile * kTile) / static_cast<double>(pairs_)));
}

class HopperWindowCounters : public WindowCounters {
 protected:
  HopperWindowCounters() : WindowCounters("sm_90a") {}

  Schedule even_tiles(Pass pass, DqMode mode = DqMode::kSplit) const {
    Schedule even = schedule(pass, mode);
    EXPECT_EQ(even.variant, Variant::kHopper);
    even.forward.stages = even.dkdv.stages = even.dq.stages = 2;
    even.hopper.score_cols = kTile;
    even.hopper.ping_pong = false;
    even.hopper.producer_registers = even.hopper.consumer_registers = 0;
    return even;
  }
};

// The same tiles. Training has a fourth product, for X, and sums two kinds of weights by products
// with ones; the forward adds up weights without products.
TEST_F(HopperWindowCounters, OnlyTilesWithAVisiblePairAreMultiplied) {
  count_pairs();
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForward, even_tiles(Pass::kForward));
  const uint64_t plain = flop_of("lssar_forward");
  EXPECT_EQ(plain, tiles_ * kTileFlop * 3);
  call.run(Pass::kForwardTrain, even_tiles(Pass::kForwardTrain));
  EXPECT_EQ(flop_of("lssar_forward") - plain,
            tiles_ * kTileFlop * 4 + tiles_ * kTileFlop * 2 * 8 / kDim);
}

TEST_F(HopperWindowCounters, OnlyTilesWithAVisiblePairAreMultipliedInTheBackward) {
  count_pairs();
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForwardTrain, even_tiles(Pass::kForwardTrain));
  call.run(Pass::kBackward, even_tiles(Pass::kBackward));
  EXPECT_EQ(flop_of("lssar_backward_dkdv"), tiles_ * kTileFlop * 4);
  // A consumer multiplies dS' in two parts if one of its rows sees at most three keys.
  EXPECT_EQ(flop_of("lssar_backward_dq"), tiles_ * kTileFlop * 3 + kTileFlop);
}

// Chunks begin at rows 0, 96, 192, 288 and 384. Five of the seven query tiles have such a row, at
// their beginning or within, and visit seven of all eleven tiles. Without a divisor these show the
// rounding of single weights, so both products of these tiles are done twice.
TEST_F(HopperWindowCounters, WeightsOfFewKeysAreMultipliedInTwoParts) {
  problem_.score = *parse_score("sigmoid");
  problem_.p = 0;
  problem_.window_left = -1;
  problem_.window_sinks = 0;
  problem_.chunk = 96;
  count_pairs();
  ASSERT_EQ(tiles_, 11u);
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForward, even_tiles(Pass::kForward));
  EXPECT_EQ(flop_of("lssar_forward"), (tiles_ + 7) * 2 * kTileFlop);
}

// The key tiles of a query tile are numbered without those that do not see it.
TEST_F(WindowCounters, TheOrderedSumOfDqHasAsManyTurnsAsTiles) {
  count_pairs();
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForwardTrain, schedule(Pass::kForwardTrain, DqMode::kOrdered));
  call.run(Pass::kBackward, schedule(Pass::kBackward, DqMode::kOrdered));
  EXPECT_EQ(flop_of("lssar_backward_dkdv"), tiles_ * kTileFlop * 5 + kTileFlop);
  EXPECT_GE(counts_by_kernel(*device_)["lssar_backward_dkdv"].global_of(AccessKind::kAtomic).bytes,
            tiles_ * kTile * kDim * 4);
}

// So are those of Hopper, where the second part of dS' makes three products again.
TEST_F(HopperWindowCounters, TheOrderedSumOfDqHasAsManyTurnsAsTiles) {
  count_pairs();
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForwardTrain, even_tiles(Pass::kForwardTrain, DqMode::kOrdered));
  call.run(Pass::kBackward, even_tiles(Pass::kBackward, DqMode::kOrdered));
  EXPECT_EQ(flop_of("lssar_backward_dkdv"), tiles_ * kTileFlop * 5 + 3 * kTileFlop);
}

// All windows lie behind the range of keys: of its two tiles, only that of the sinks is multiplied.
TEST_F(WindowCounters, ARangeBesideTheWindowsHasTheSinksOnly) {
  Sizes sizes = {1, 1, 1, kTile, kTile + 36};
  sizes.range = {.num_keys = 364, .first_query = 300};
  Call call(*engine_, problem_, sizes);
  call.run(Pass::kRowSums, schedule(Pass::kRowSums, DqMode::kSplit));
  EXPECT_EQ(flop_of("lssar_row_sums"), kTileFlop);
}

// The work of a call, for which rows are sampled.
TEST_F(WindowCounters, TheCountOfScoresIsNearThatOfPairs) {
  count_pairs();
  EXPECT_NEAR(count_scores(problem_, kSizes), static_cast<double>(pairs_), 0.01 * pairs_);
  problem_.causal = false;
  problem_.window_left = -1;
  problem_.chunk = 7;
  problem_.window_sinks = 0;
  EXPECT_EQ(count_scores(problem_, {2, 3, 3, 49, 49}), 2 * 3 * 49 * 7);
}

}  // namespace
}  // namespace lssar::test
