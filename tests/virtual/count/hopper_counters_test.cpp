// What one score costs the kernels of Variant::kHopper: matrix products, special functions and bank
// conflicts, counted on the virtual device and compared with docs/math.md and
// docs/hopper_schedules.md.
//
// Products are counted in multiples of the score's own, 2 d FLOP.
#include <fmt/format.h>

#include "tests/virtual/count/counted_call.h"

namespace lssar::test {
namespace {

constexpr int64_t kLength = 256;
constexpr int64_t kTile = 64;
constexpr int64_t kTiles = kLength / kTile;
constexpr int kDim = 64;
constexpr int64_t kHeads = 2;
constexpr Sizes kSizes = {1, kHeads, kHeads, kLength, kLength};
constexpr uint64_t kWarpsPerTile = 4;
constexpr uint64_t kExecutionsPerTile = 16 * kTile / 32;  // by a warp, one per 32 scores

class HopperCountersTest : public testing::Test {
 protected:
  HopperCountersTest() {
    VirtualOptions options;
    options.target = *target_from_name("sm_90a");
    options.count = true;
    device_ = make_virtual_device(options);
    engine_ = Engine::create({}, device_, nullptr);
  }

  Problem make_problem(bool causal, int dim = kDim) const {
    Problem problem;
    problem.dtype = DType::kBf16;
    problem.head_dim = problem.head_dim_v = dim;
    problem.causal = causal;
    return problem;
  }

  Schedule default_for(Problem problem, Pass pass, DqMode mode = DqMode::kSplit) const {
    problem.pass = pass;
    return default_schedule(problem, device_->info().target, mode);
  }

  // All tiles are 64 x 64, so that every tile is whole and every kernel visits the same ones.
  Schedule even_tiles(const Problem& problem, Pass pass, DqMode mode = DqMode::kSplit) const {
    Schedule schedule = default_for(problem, pass, mode);
    EXPECT_EQ(schedule.variant, Variant::kHopper);
    for (Tiling* tiling : {&schedule.forward, &schedule.dkdv, &schedule.dq})
      *tiling = {kTile, kTile, 2, 1};
    schedule.hopper.score_cols = kTile;
    schedule.hopper.ping_pong = false;
    schedule.hopper.producer_registers = schedule.hopper.consumer_registers = 0;
    return schedule;
  }

  std::map<std::string, LaunchCounters> counts() const { return counts_by_kernel(*device_); }

  // Bank conflicts, of reads, writes and atomics together.
  void expect_few(const char* name) const {
    const LaunchCounters counters = counts()[name];
    uint64_t wavefronts = 0, lost = 0;
    for (const SharedTraffic& traffic : counters.shared) {
      wavefronts += traffic.wavefronts;
      lost += traffic.lost();
    }
    EXPECT_GT(wavefronts, 0u) << name;
    EXPECT_LT(lost * 50, wavefronts) << name << ": " << lost << " of " << wavefronts
                                     << " wavefronts, worst: " << counters.worst_shared.text << " ("
                                     << counters.worst_shared.lost << ")";
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Engine> engine_;
};

class HopperProductsTest : public HopperCountersTest, public testing::WithParamInterface<bool> {
 protected:
  bool causal() const { return GetParam(); }
  // Tiles of all heads. With a causal mask those above the diagonal are not visited.
  uint64_t tiles() const {
    return kHeads * static_cast<uint64_t>(causal() ? kTiles * (kTiles + 1) / 2 : kTiles * kTiles);
  }
  uint64_t flop(uint64_t products) const { return tiles() * kTile * kTile * 2 * kDim * products; }
  // What training adds up are rounded weights, by products with 8 columns of ones.
  uint64_t row_sums() const { return flop(1) * 8 / kDim; }
  uint64_t special() const { return tiles() * kWarpsPerTile * kExecutionsPerTile; }
  // dS of rows that see at most 3 keys is multiplied in two parts: one more product for the first
  // tile of each head.
  uint64_t second_parts() const { return second_tiles() * kTile * kTile * 2 * kDim; }
  uint64_t second_tiles() const { return causal() ? kHeads : 0; }

  const Problem problem_ = make_problem(GetParam());
};

// S in pass 1, S again and M v in pass 2; each pass takes u = 2^-|x|. Each row also needs
// logarithms of the sum and of the number of keys, square roots of norms, and figures of its
// largest score.
TEST_P(HopperProductsTest, ForwardHasThreeProductsAndTwoSpecialFunctions) {
  Call call(*engine_, problem_, kSizes);
  Schedule schedule = even_tiles(problem_, Pass::kForward);
  schedule.hopper.evaluator = Evaluator::kFull;
  call.run(Pass::kForward, schedule);
  const LaunchCounters forward = counts()["lssar_forward"];
  EXPECT_EQ(forward.flop(TensorType::kBf16), flop(3));
  constexpr uint64_t kWarps = kHeads * kTiles * kWarpsPerTile;
  constexpr uint64_t kPerRow = 2 * 8;  // each lane for its two rows
  const uint64_t special_functions = forward.of(InstructionClass::kSpecial).warps;
  EXPECT_GE(special_functions, 2 * special());
  EXPECT_LE(special_functions, 2 * special() + kWarps * kPerRow);
}

// The same products. But only the first query tile of a chain loads its keys for pass 1 alone.
TEST_P(HopperProductsTest, StaggeredPassesLoadKeysOnceForBoth) {
  constexpr uint64_t kTileBytes = kTile * kDim * 2, kKeyBytes = kTileBytes + kTile * 4;
  uint64_t before = 0;
  for (const int length : {causal() ? 1 : 2, 4}) {
    Call call(*engine_, problem_, kSizes);
    Schedule schedule = even_tiles(problem_, Pass::kForward);
    schedule.hopper.stagger = length;
    call.run(Pass::kForward, schedule);
    uint64_t alone = 0;  // key tiles that the last query tile of each chain sees
    for (int64_t last = length; last <= kTiles; last += length)
      alone += static_cast<uint64_t>(kHeads * (causal() ? last : kTiles));
    const LaunchCounters forward = counts()["lssar_forward"];
    EXPECT_EQ(forward.tma_load_bytes - before,
              kHeads * kTiles * kTileBytes + alone * kKeyBytes + tiles() * (kKeyBytes + kTileBytes))
        << length;
    before = forward.tma_load_bytes;
  }
  EXPECT_EQ(counts()["lssar_forward"].flop(TensorType::kBf16), 2 * flop(3));
}

TEST_P(HopperProductsTest, TrainingAddsAProductForX) {
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForwardTrain, even_tiles(problem_, Pass::kForwardTrain));
  EXPECT_EQ(counts()["lssar_forward"].flop(TensorType::kBf16), flop(4) + 2 * row_sums());
}

// The product of X is gone. The backward computes S and D once more, with the special function of
// the weights.
TEST_P(HopperProductsTest, EpsilonByPassMovesAProductIntoTwoOfTheBackward) {
  Call call(*engine_, problem_, kSizes);
  Schedule forward = even_tiles(problem_, Pass::kForwardTrain);
  Schedule backward = even_tiles(problem_, Pass::kBackward, DqMode::kAtomic);
  forward.epsilon = backward.epsilon = EpsilonFrom::kPass;
  call.run(Pass::kForwardTrain, forward);
  call.run(Pass::kBackward, backward);
  auto by_name = counts();
  EXPECT_EQ(by_name["lssar_forward"].flop(TensorType::kBf16), flop(3) + row_sums());
  EXPECT_EQ(by_name["lssar_backward_epsilon"].flop(TensorType::kBf16), flop(2));
  EXPECT_LT(by_name["lssar_backward_epsilon"].of(InstructionClass::kSpecial).warps,
            special() * 11 / 10);
  EXPECT_EQ(by_name["lssar_backward_dkdv"].flop(TensorType::kBf16), flop(5) + 3 * second_parts());
}

// S, D, dv, dk in one kernel and S, D, dq in the other; each takes 2^-|x| and 1 / (1 + u) per
// score.
TEST_P(HopperProductsTest, BackwardHasSevenProducts) {
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForwardTrain, even_tiles(problem_, Pass::kForwardTrain));
  call.run(Pass::kBackward, even_tiles(problem_, Pass::kBackward));
  auto by_name = counts();
  EXPECT_EQ(by_name["lssar_backward_dkdv"].flop(TensorType::kBf16), flop(4));
  EXPECT_EQ(by_name["lssar_backward_dq"].flop(TensorType::kBf16), flop(3) + second_parts());
  for (const char* name : {"lssar_backward_dkdv", "lssar_backward_dq"})
    EXPECT_EQ(by_name[name].of(InstructionClass::kSpecial).warps, 2 * special()) << name;
}

// The second part of dS is computed anew: S, D and dq, with their special functions.
TEST_P(HopperProductsTest, BackwardWithAtomicsHasFiveProducts) {
  Call call(*engine_, problem_, kSizes);
  call.run(Pass::kForwardTrain, even_tiles(problem_, Pass::kForwardTrain));
  call.run(Pass::kBackward, even_tiles(problem_, Pass::kBackward, DqMode::kAtomic));
  auto by_name = counts();
  EXPECT_EQ(by_name["lssar_backward_dkdv"].flop(TensorType::kBf16), flop(5) + 3 * second_parts());
  EXPECT_EQ(by_name["lssar_backward_dkdv"].of(InstructionClass::kSpecial).warps,
            2 * (special() + second_tiles() * kWarpsPerTile * kExecutionsPerTile));
  EXPECT_EQ(by_name.count("lssar_backward_dq"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Masks, HopperProductsTest, testing::Bool(),
                         [](const auto& p) { return p.param ? "causal" : "full"; });

// Rows that point at one key have their weights at large scores only, where softplus equals the
// score. So the more the schedule allows, the fewer special functions pass 2 takes.
TEST_F(HopperCountersTest, EvaluatorsSaveSpecialFunctionsOnPeakedData) {
  const Problem problem = make_problem(false, 128);
  const Sizes sizes = {1, 1, 1, 1024, 1024};
  Call call(*engine_, problem, sizes, InputKind::kPeaky);
  uint64_t before = 0;
  std::map<Evaluator, uint64_t> executed;
  for (Evaluator evaluator : {Evaluator::kFull, Evaluator::kShort, Evaluator::kLinear}) {
    Schedule schedule = default_for(problem, Pass::kForward);
    schedule.hopper.evaluator = evaluator;
    call.run(Pass::kForward, schedule);
    const uint64_t total = counts()["lssar_forward"].of(InstructionClass::kSpecial).warps;
    executed[evaluator] = total - before;
    before = total;
  }
  const uint64_t scores = 1024 * 1024 / 32;
  EXPECT_GE(executed[Evaluator::kFull], 2 * scores);
  EXPECT_GE(executed[Evaluator::kShort], 2 * scores);
  EXPECT_LE(executed[Evaluator::kShort], executed[Evaluator::kFull] * 11 / 10);
  EXPECT_LT(executed[Evaluator::kLinear], executed[Evaluator::kFull] * 7 / 10);
  EXPECT_GE(executed[Evaluator::kLinear], scores);
}

// In the backward evaluators save other instructions: its sigmoid always takes two special
// functions.
TEST_F(HopperCountersTest, EvaluatorsSaveInstructionsOfTheBackwardOnPeakedData) {
  const Problem problem = make_problem(false, 128);
  Call call(*engine_, problem, {1, 1, 1, 1024, 1024}, InputKind::kPeaky);
  call.run(Pass::kForwardTrain, default_for(problem, Pass::kForwardTrain));
  std::map<std::string, std::map<Evaluator, uint64_t>> executed;
  std::map<std::string, uint64_t> before;
  for (Evaluator evaluator : {Evaluator::kFull, Evaluator::kShort, Evaluator::kLinear}) {
    Schedule schedule = default_for(problem, Pass::kBackward);
    schedule.hopper.evaluator = evaluator;
    call.run(Pass::kBackward, schedule);
    for (const char* name : {"lssar_backward_dkdv", "lssar_backward_dq"}) {
      const LaunchCounters counters = counts()[name];
      const uint64_t total =
          counters.of(InstructionClass::kFma).warps + counters.of(InstructionClass::kFloat).warps;
      executed[name][evaluator] = total - before[name];
      before[name] = total;
    }
  }
  // Instructions per score: 19, 15 and 12.
  for (auto& [name, of] : executed) {
    SCOPED_TRACE(name);
    EXPECT_LT(of[Evaluator::kShort], of[Evaluator::kFull] * 9 / 10);
    EXPECT_LT(of[Evaluator::kLinear], of[Evaluator::kShort] * 7 / 8);
    EXPECT_GT(of[Evaluator::kLinear], of[Evaluator::kFull] / 2);
  }
}

// Far from the diagonal no key has a weight. For those tiles pass 2 only computes the product of
// scores.
TEST_F(HopperCountersTest, SkippedTilesTakeNoSpecialFunctionsAndNoProductWithValues) {
  const Problem problem = make_problem(false);
  constexpr int64_t kLong = 1024;
  constexpr uint64_t kAllTiles = (kLong / kTile) * (kLong / kTile);
  Call call(*engine_, problem, {1, 1, 1, kLong, kLong}, InputKind::kLocal);
  LaunchCounters before;
  for (bool skip_tiles : {false, true}) {
    Schedule schedule = even_tiles(problem, Pass::kForward);
    schedule.hopper.evaluator = Evaluator::kFull;
    schedule.skip_tiles = skip_tiles;
    call.run(Pass::kForward, schedule);
    const LaunchCounters after = counts()["lssar_forward"];
    const uint64_t products = (after.flop(TensorType::kBf16) - before.flop(TensorType::kBf16)) /
                              (2 * kTile * kTile * kDim);
    const uint64_t special =
        (after.of(InstructionClass::kSpecial).warps - before.of(InstructionClass::kSpecial).warps) /
        (kWarpsPerTile * kExecutionsPerTile);
    // Each row of tiles has one tile with weights. A few rows also see a distant key that happens
    // to lie near them. Sums of weights and each row's own figures count a little.
    const uint64_t most = skip_tiles ? kAllTiles / 5 : kAllTiles;
    EXPECT_GE(products, 2 * kAllTiles + (skip_tiles ? kLong / kTile : kAllTiles));
    EXPECT_LE(products, 2 * kAllTiles + most + kAllTiles / 8 + 1);
    EXPECT_GE(special, kAllTiles + (skip_tiles ? kLong / kTile : kAllTiles));
    EXPECT_LE(special, kAllTiles + most + kAllTiles / 16);
    before = after;
  }
}

// The blocks of a cluster load each tile of keys and values once between them.
TEST_F(HopperCountersTest, ClustersLoadKeysAndValuesOnce) {
  const Problem problem = make_problem(false);
  constexpr int64_t kLong = 512;
  Call call(*engine_, problem, {1, 1, 1, kLong, kLong});
  uint64_t before = 0;
  std::map<int, uint64_t> loaded;
  for (int cluster : {1, 2, 4}) {
    Schedule schedule = even_tiles(problem, Pass::kForward);
    schedule.hopper.cluster = cluster;
    call.run(Pass::kForward, schedule);
    const uint64_t total = counts()["lssar_forward"].tma_load_bytes;
    loaded[cluster] = total - before;
    before = total;
  }
  constexpr uint64_t kMatrix = kLong * kDim * 2, kNorms = kLong * 4;
  constexpr uint64_t kBlocks = kLong / kTile;
  for (const auto& [cluster, bytes] : loaded)
    EXPECT_EQ(bytes, kMatrix + kBlocks * (3 * kMatrix / cluster + 2 * kNorms)) << cluster;
}

// A lane's pairs of columns fill half of each sector. Whole rows by TMA are not written by sectors.
TEST_F(HopperCountersTest, StoresByTmaWriteWholeRows) {
  const Problem problem = make_problem(false);
  constexpr uint64_t kOutput = kHeads * kLength * kDim * 2;
  Call call(*engine_, problem, kSizes);
  Schedule schedule = even_tiles(problem, Pass::kForward);
  schedule.hopper.store_path = StorePath::kRegisters;
  call.run(Pass::kForward, schedule);
  const LaunchCounters before = counts()["lssar_forward"];
  EXPECT_EQ(before.tma_store_bytes, 0u);
  EXPECT_EQ(before.global_of(AccessKind::kWrite).bytes, kOutput);
  EXPECT_EQ(before.global_of(AccessKind::kWrite).sectors * 32, 2 * kOutput);
  schedule.hopper.store_path = StorePath::kTma;
  call.run(Pass::kForward, schedule);
  const LaunchCounters after = counts()["lssar_forward"];
  EXPECT_EQ(after.tma_store_bytes, kOutput);
  EXPECT_EQ(after.global_of(AccessKind::kWrite).bytes, kOutput);
}

TEST_F(HopperCountersTest, WeightsInSharedMemoryHaveFewBankConflicts) {
  const Problem problem = make_problem(true, 128);
  Call call(*engine_, problem, {1, 2, 2, 512, 512});
  Schedule schedule = default_for(problem, Pass::kForwardTrain);
  schedule.forward.stages = 3;
  schedule.hopper.weights_from = WeightsFrom::kShared;
  schedule.hopper.store_path = StorePath::kTma;
  call.run(Pass::kForwardTrain, schedule);
  expect_few("lssar_forward");
}

// Head dim, causal, where dq comes from, type.
class HopperConflictsTest
    : public HopperCountersTest,
      public testing::WithParamInterface<std::tuple<int, bool, DqMode, DType>> {};

TEST_P(HopperConflictsTest, AreFewerThanTwoPercent) {
  const auto [dim, causal, dq_mode, dtype] = GetParam();
  Problem problem = make_problem(causal, dim);
  problem.dtype = dtype;
  const Schedule backward = default_for(problem, Pass::kBackward, dq_mode);
  ASSERT_EQ(backward.variant, Variant::kHopper);
  Call call(*engine_, problem, {1, 1, 1, 512, 512});
  if (dq_mode == DqMode::kSplit) {  // the forward knows nothing of the mode
    call.run(Pass::kForward, default_for(problem, Pass::kForward));
    expect_few("lssar_forward");
  }
  call.run(Pass::kForwardTrain, default_for(problem, Pass::kForwardTrain));
  call.run(Pass::kBackward, backward);
  expect_few("lssar_forward");
  expect_few("lssar_backward_dkdv");
  if (dq_mode == DqMode::kSplit) expect_few("lssar_backward_dq");
}

std::string conflicts_name(const testing::TestParamInfo<HopperConflictsTest::ParamType>& p) {
  constexpr const char* kNames[] = {"split", "atomic", "ordered"};
  const auto [dim, causal, dq_mode, dtype] = p.param;
  return fmt::format("d{}_{}_{}_{}", dim, causal ? "causal" : "full",
                     kNames[static_cast<int>(dq_mode)], dtype_name(dtype));
}

// Dims with and without a mask in turn, which decides nothing about where tiles lie. All modes of a
// dim have the same forward for training.
std::vector<HopperConflictsTest::ParamType> conflict_cases(std::initializer_list<int> dims,
                                                           std::initializer_list<DqMode> modes,
                                                           DType dtype) {
  std::vector<HopperConflictsTest::ParamType> cases;
  bool causal = false;
  for (const int dim : dims) {
    causal = !causal;
    for (const DqMode mode : modes) cases.push_back({dim, causal, mode, dtype});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Split, HopperConflictsTest,
                         testing::ValuesIn(conflict_cases({64, 96, 128, 192, 256}, {DqMode::kSplit},
                                                          DType::kBf16)),
                         conflicts_name);
// With dk and dv on sm_90a, as far as the tiles fit.
INSTANTIATE_TEST_SUITE_P(Sums, HopperConflictsTest,
                         testing::ValuesIn(conflict_cases({64, 96, 128},
                                                          {DqMode::kAtomic, DqMode::kOrdered},
                                                          DType::kBf16)),
                         conflicts_name);
// Its tiles lie as those of bf16: one kernel.
INSTANTIATE_TEST_SUITE_P(Fp16, HopperConflictsTest,
                         testing::ValuesIn(conflict_cases({128}, {DqMode::kAtomic}, DType::kFp16)),
                         conflicts_name);

}  // namespace
}  // namespace lssar::test
