// What one score costs the project's own kernels: matrix products and special functions, counted on
// the virtual device and compared with docs/math.md.
//
// Sizes are multiples of the tiles, so that every tile is whole. Products are counted in multiples
// of the score's own, 2 d FLOP.
#include "tests/virtual/count/counted_call.h"

namespace lssar::test {
namespace {

constexpr int64_t kLength = 256;
constexpr int64_t kTile = 64;
constexpr int64_t kTiles = kLength / kTile;
constexpr uint64_t kDim = 64;
constexpr uint64_t kHeads = 2;
constexpr Sizes kSizes = {1, kHeads, kHeads, kLength, kLength};
// Scores of a tile by one warp: 16 rows by 64 columns, 32 of them to an instruction.
constexpr uint64_t kWarpsPerTile = 4;
constexpr uint64_t kExecutionsPerTile = 16 * kTile / 32;

class AttentionCountersTest : public testing::TestWithParam<bool> {
 protected:
  AttentionCountersTest() {
    VirtualOptions options;
    options.target = *target_from_name("sm_80");
    options.count = true;
    device_ = make_virtual_device(options);
    engine_ = Engine::create({}, device_, nullptr);
    problem_.dtype = DType::kBf16;
    problem_.head_dim = problem_.head_dim_v = static_cast<int>(kDim);
    problem_.causal = GetParam();
  }

  // All tiles have the same size, so that every kernel visits the same ones.
  Schedule schedule(Pass pass, DqMode mode = DqMode::kSplit) const {
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

  // Tiles of all heads. With a causal mask those above the diagonal are not visited.
  uint64_t tiles() const {
    return kHeads * static_cast<uint64_t>(GetParam() ? kTiles * (kTiles + 1) / 2 : kTiles * kTiles);
  }
  // FLOP of `products` matrix products (of kDim) per score of every tile.
  uint64_t flop(uint64_t products) const { return tiles() * kTile * kTile * 2 * kDim * products; }
  // Executions if every score takes one special function.
  uint64_t special() const { return tiles() * kWarpsPerTile * kExecutionsPerTile; }

  uint64_t second_parts() const { return GetParam() ? kHeads * kTile * kTile * 2 * kDim : 0; }

  std::map<std::string, LaunchCounters> counts() const { return counts_by_kernel(*device_); }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Engine> engine_;
  Problem problem_;
};

// S in pass 1, S again and M v in pass 2. The sums of rounded weights are products with 8 columns
// of ones.
TEST_P(AttentionCountersTest, ForwardHasThreeProductsPerScore) {
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForward, schedule(Pass::kForward));
  EXPECT_EQ(counts()["lssar_forward"].flop(TensorType::kBf16), flop(3) + flop(1) * 8 / kDim);
}

// One special function per score and pass, u = 2^-|x|. Each row also needs one logarithm per 126
// scores (here per 7 tiles) of pass 1, each lane for its two rows, and the exponentials of the
// largest score.
TEST_P(AttentionCountersTest, ForwardHasTwoSpecialFunctionsPerScore) {
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForward, schedule(Pass::kForward));
  constexpr uint64_t kWarps = kHeads * kTiles * kWarpsPerTile;
  constexpr uint64_t kFlushes = (kTiles + 6) / 7;
  constexpr uint64_t kPerRow = 2 * (kFlushes + 1) + 2 * 2;  // + 1: a compiler may take one ahead
  const LaunchCounters forward = counts()["lssar_forward"];
  EXPECT_GE(forward.of(InstructionClass::kSpecial).warps, 2 * special());
  EXPECT_LE(forward.of(InstructionClass::kSpecial).warps, 2 * special() + kWarps * kPerRow);
}

// A chunk of o's columns is a separate pass over the keys.
TEST_P(AttentionCountersTest, EveryChunkOfColumnsRepeatsPassTwo) {
  Call call(*engine_, problem_, kSizes);
  Schedule halves = schedule(Pass::kForward);
  halves.block_dv = kDim / 2;
  call.run(Pass::kForward, halves);
  const LaunchCounters forward = counts()["lssar_forward"];
  EXPECT_EQ(forward.flop(TensorType::kBf16), flop(4) + 2 * flop(1) * 8 / kDim);
  EXPECT_GE(forward.of(InstructionClass::kSpecial).warps, 3 * special());
}

// X takes a fourth product. A problem without an offset needs no X.
TEST_P(AttentionCountersTest, TrainingAddsAProductForX) {
  {
    Call call(*engine_, problem_, kSizes);
    call.run(Pass::kForwardTrain, schedule(Pass::kForwardTrain));
  }
  const uint64_t with_x = counts()["lssar_forward"].flop(TensorType::kBf16);
  EXPECT_EQ(with_x, flop(4) + 2 * flop(1) * 8 / kDim);
  problem_.offset = 0;
  {
    Call call(*engine_, problem_, kSizes);
    call.run(Pass::kForwardTrain, schedule(Pass::kForwardTrain));
  }
  const uint64_t both = counts()["lssar_forward"].flop(TensorType::kBf16);
  EXPECT_EQ(both - with_x, flop(3) + flop(1) * 8 / kDim);
}

// Without X the forward has three products. A pass of the backward has S and D once more, with one
// special function, that of the weights. No mask is needed if no key is past the end.
TEST_P(AttentionCountersTest, EpsilonByPassMovesAProductIntoTwoOfTheBackward) {
  Call call(*engine_, problem_, kSizes);
  Schedule forward = schedule(Pass::kForwardTrain), backward = schedule(Pass::kBackward);
  forward.epsilon = backward.epsilon = EpsilonFrom::kPass;
  call.run(Pass::kForwardTrain, forward);
  call.run(Pass::kBackward, backward);
  auto by_name = counts();
  EXPECT_EQ(by_name["lssar_forward"].flop(TensorType::kBf16), flop(3) + flop(1) * 8 / kDim);
  EXPECT_EQ(by_name["lssar_backward_epsilon"].flop(TensorType::kBf16), flop(2));
  EXPECT_EQ(by_name["lssar_backward_epsilon"].of(InstructionClass::kSpecial).warps, special());
  EXPECT_EQ(by_name["lssar_backward_dkdv"].flop(TensorType::kBf16), flop(4));
  EXPECT_EQ(by_name["lssar_backward_dq"].flop(TensorType::kBf16), flop(3) + second_parts());
}

// S, D, dv, dk in one kernel and S, D, dq in the other; each takes 2^-|x| and 1 / (1 + u) per
// score. Causal: dS of rows that see at most 3 keys is multiplied in two parts, which is one more
// product for the first tile of each head.
TEST_P(AttentionCountersTest, BackwardHasSevenProductsPerScore) {
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForwardTrain, schedule(Pass::kForwardTrain));
  call.run(Pass::kBackward, schedule(Pass::kBackward));
  auto by_name = counts();
  EXPECT_EQ(by_name["lssar_backward_dkdv"].flop(TensorType::kBf16), flop(4));
  EXPECT_EQ(by_name["lssar_backward_dq"].flop(TensorType::kBf16), flop(3) + second_parts());
  EXPECT_EQ(by_name["lssar_backward_rows"].flop(TensorType::kBf16), 0u);
  for (const char* name : {"lssar_backward_dkdv", "lssar_backward_dq"}) {
    EXPECT_EQ(by_name[name].of(InstructionClass::kSpecial).warps, 2 * special()) << name;
    EXPECT_EQ(by_name[name].of(InstructionClass::kSpecial).lanes, 2 * special() * 32) << name;
  }
}

TEST_P(AttentionCountersTest, BackwardWithAtomicsHasFiveProductsPerScore) {
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForwardTrain, schedule(Pass::kForwardTrain));
  call.run(Pass::kBackward, schedule(Pass::kBackward, DqMode::kAtomic));
  auto by_name = counts();
  const LaunchCounters& dkdv = by_name["lssar_backward_dkdv"];
  EXPECT_EQ(dkdv.flop(TensorType::kBf16), flop(5) + second_parts());
  EXPECT_EQ(dkdv.of(InstructionClass::kSpecial).warps, 2 * special());
  EXPECT_EQ(by_name.count("lssar_backward_dq"), 0u);
  // Every float of dq is added once per key tile that its query tile sees.
  EXPECT_EQ(dkdv.global_of(AccessKind::kAtomic).bytes, tiles() * kTile * kDim * 4);
}

// The swizzle of shared tiles avoids bank conflicts.
TEST_P(AttentionCountersTest, TilesHaveNoBankConflicts) {
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForwardTrain, schedule(Pass::kForwardTrain));
  call.run(Pass::kBackward, schedule(Pass::kBackward));
  auto by_name = counts();
  for (const char* name : {"lssar_forward", "lssar_backward_dq"}) {
    EXPECT_GT(by_name[name].shared_of(AccessKind::kRead).wavefronts, 0u) << name;
    EXPECT_EQ(by_name[name].worst_shared.lost, 0u) << name << by_name[name].worst_shared.text;
  }
}
INSTANTIATE_TEST_SUITE_P(Masks, AttentionCountersTest, testing::Bool(),
                         [](const auto& p) { return p.param ? "causal" : "full"; });

}  // namespace
}  // namespace lssar::test
