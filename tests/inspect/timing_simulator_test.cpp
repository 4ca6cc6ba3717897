// One scheduler of an SM: loops whose clocks can be counted by hand.
#include <gtest/gtest.h>

#include <numeric>

#include "inspect/timing/scheduler_simulator.h"
#include "tests/inspect/timing_samples.h"

namespace lssar {
namespace {

const TimingConstants kConstants;

LoopTiming timed(const std::vector<Sample>& samples, LoopSettings settings = {}) {
  const auto [kernel, way] = sample_loop(samples);
  const auto program = loop_program(kernel, way, settings, kConstants);
  EXPECT_TRUE(program.ok()) << program.status().message();
  if (!program.ok()) return {};
  const auto timing = simulate(*program, kConstants);
  EXPECT_TRUE(timing.ok()) << timing.status().message();
  if (!timing.ok()) return {};
  // Every clock went somewhere, and nothing is faster than its busiest resource allows.
  EXPECT_NEAR(std::accumulate(timing->uses.begin(), timing->uses.end(), 0.0), timing->clocks, 1e-9);
  EXPECT_GE(timing->clocks, timing->bound() - 1e-9);
  return *timing;
}

LoopSettings warps(int count) {
  LoopSettings settings;
  settings.block_warps = count;
  return settings;
}

double use(const LoopTiming& timing, ClockUse which) { return timing.uses[size_t(which)]; }

TEST(TimingSimulator, AChainTakesItsStallCountsWhateverTheOtherWarpDoes) {
  const std::vector<Sample> chain = repeated({"FADD R0, R0, R1", 4}, 10);
  const LoopTiming one = timed(chain);
  EXPECT_EQ(one.clocks, 40);
  EXPECT_EQ(use(one, ClockUse::kIssue), 10);
  EXPECT_EQ(use(one, ClockUse::kStall), 30);
  EXPECT_NEAR(timed(chain, warps(2)).clocks, 40, 0.5);  // they overlap
  EXPECT_EQ(one.fma_bound, 10);
}

TEST(TimingSimulator, IndependentInstructionsShareTheIssueSlot) {
  const std::vector<Sample> sums = repeated({"FADD R0, R1, R2"}, 20);
  EXPECT_EQ(timed(sums).clocks, 20);  // two pipes of half rate
  const LoopTiming two = timed(sums, warps(2));
  EXPECT_EQ(two.clocks, 40);
  EXPECT_EQ(use(two, ClockUse::kIssue), 20);
  EXPECT_EQ(two.issue_bound, 40);
}

TEST(TimingSimulator, OnePipeOfTwoMultipliesIntegers) {
  const LoopTiming products = timed(repeated({"IMAD R0, R1, R2, R3"}, 20));
  EXPECT_EQ(products.clocks, 40);
  EXPECT_EQ(use(products, ClockUse::kFma), 20);
  EXPECT_EQ(timed(repeated({"LOP3.LUT R0, R1, R2, RZ, 0xc0, !PT"}, 20)).clocks, 40);
  // In turn with sums, which take the other pipe, both fit.
  std::vector<Sample> mixed;
  for (int i = 0; i < 20; ++i) mixed.push_back({i % 2 ? "FADD R0, R1, R2" : "IMAD R0, R1, R2, R3"});
  EXPECT_EQ(timed(mixed).clocks, 20);
}

TEST(TimingSimulator, SpecialFunctionsBoundALoop) {
  std::vector<Sample> loop;
  for (int i = 0; i < 10; ++i) {
    loop.push_back({"MUFU.EX2 R0, R1"});
    loop.push_back({"FADD R2, R3, R4"});
  }
  EXPECT_EQ(timed(loop).clocks, 80);
  const LoopTiming two = timed(loop, warps(2));
  EXPECT_EQ(two.clocks, 160);
  EXPECT_EQ(two.special_bound, 160);
  EXPECT_GT(use(two, ClockUse::kSpecial), 100);
}

TEST(TimingSimulator, AScoreboardHoldsUntilTheResultIsThere) {
  const LoopTiming timing =
      timed({{"MUFU.EX2 R0, R1", 1, 2}, {"FADD R2, R0, R3", 1, kNone, 1u << 2}});
  EXPECT_EQ(timing.clocks, kConstants.special_latency + 1);
  EXPECT_EQ(use(timing, ClockUse::kSpecial), kConstants.special_latency - 1);
  // Without the wait both only take their slots, and MUFU its pipe.
  EXPECT_EQ(timed({{"MUFU.EX2 R0, R1", 1, 2}, {"FADD R2, R0, R3"}}).clocks, 8);
}

// The reason why the model exists: the counts are the same.
TEST(TimingSimulator, TheOrderOfInstructionsMatters) {
  std::vector<Sample> spread;
  for (int i = 0; i < 20; ++i) {
    spread.push_back({"MUFU.EX2 R0, R1"});
    for (int k = 0; k < 7; ++k) spread.push_back({"FMUL R2, R3, R4"});
  }
  const std::vector<Sample> clustered =
      joined({repeated({"MUFU.EX2 R0, R1"}, 20), repeated({"FMUL R2, R3, R4"}, 140)});
  EXPECT_EQ(timed(spread).clocks, 160);
  const double expected = 140 + 8 * 20 - kConstants.special_queue - 8;
  EXPECT_NEAR(timed(clustered).clocks, expected, 8);
}

std::vector<Sample> products(const std::string& shape, int count) {
  std::vector<Sample> all =
      repeated({"HGMMA." + shape + ".F32.BF16 R24, gdesc[UR4], R24"}, count - 1);
  all.push_back({"HGMMA." + shape + ".F32.BF16 R24, gdesc[UR4], R24, gsb0"});
  return all;
}

const Sample kWaitForProducts = {"WARPGROUP.DEPBAR.LE gsb0, 0x0"};

TEST(TimingSimulator, TensorCoresBoundALoop) {
  const std::vector<Sample> loop = joined({products("64x128x16", 4), {kWaitForProducts}});
  // From the issue of the first to that of the wait, and a slot.
  const double alone = kConstants.tensor_start + 4 * 64 + kConstants.tensor_return + 1;
  const LoopTiming one = timed(loop);
  EXPECT_EQ(one.clocks, alone);
  EXPECT_EQ(one.tensor_bound, 256);
  EXPECT_EQ(use(one, ClockUse::kIssue), 5);
  // With a second warp the tensor core never pauses.
  const LoopTiming two = timed(loop, warps(2));
  EXPECT_EQ(two.clocks, 512);
  EXPECT_GT(use(two, ClockUse::kTensor), 500 - kConstants.tensor_start);
}

TEST(TimingSimulator, OperandsInSharedMemoryBoundNarrowProducts) {
  const std::vector<Sample> narrow = joined({products("64x48x16", 16), {kWaitForProducts}});
  const LoopTiming shared = timed(narrow, warps(2));
  EXPECT_EQ(shared.clocks, 2 * 16 * (48 * 32 + 2048) / 128);  // not 24 clocks each
  EXPECT_EQ(shared.shared_bound, shared.clocks);
  // The first operand in registers: 12 clocks of shared memory, 24 of the tensor core.
  std::vector<Sample> registers = narrow;
  for (Sample& sample : registers)
    if (const size_t at = sample.text.find("gdesc"); at != std::string::npos)
      sample.text.insert(at, "R4, ");
  EXPECT_EQ(timed(registers, warps(2)).clocks, 2 * 16 * 24);
}

TEST(TimingSimulator, LoadsTakeSharedMemoryFromProducts) {
  const std::vector<Sample> some = joined({products("64x48x16", 16), {kWaitForProducts}});
  const std::vector<Sample> more =
      joined({repeated({"LDS.128 R40, [R1]", 4}, 8), products("64x48x16", 16), {kWaitForProducts}});
  EXPECT_NEAR(timed(more, warps(2)).clocks - timed(some, warps(2)).clocks, 2 * 8 * 16, 20);
}

TEST(TimingSimulator, WarpsTakeTurns) {
  const std::vector<Sample> loop = joined({{{"BAR.SYNC.DEFER_BLOCKING R8, 0x100"}},
                                           repeated({"FADD R0, R0, R1", 4}, 10),
                                           {{"BAR.ARV R9, 0x100"}}});
  const LoopTiming two = timed(loop, warps(2));
  EXPECT_EQ(two.clocks, 2 * (1 + 40 + kConstants.barrier));
  EXPECT_GT(use(two, ClockUse::kTurn), 60);
  // One that only another role's warps complete is not followed, and that is said.
  const auto [kernel, way] = sample_loop({{"BAR.SYNC.DEFER_BLOCKING R8, 0x180"}});
  const auto program = loop_program(kernel, way, warps(2), kConstants);
  ASSERT_TRUE(program.ok());
  ASSERT_EQ(program->notes.size(), 1u);
  EXPECT_EQ(program->notes[0],
            "1 BAR.SYNC and 0 BAR.ARV of 384 threads cannot be followed: they only cost their "
            "latency");
}

// FlashAttention-3's first release: a group's barrier counts the arrivals of both others.
TEST(TimingSimulator, ThreeWarpsTakeTurnsThatBothOthersPassOn) {
  const std::vector<Sample> ring = joined({{{"BAR.SYNC.DEFER_BLOCKING R8, 0x100"}},
                                           repeated({"FADD R0, R0, R1", 4}, 10),
                                           {{"BAR.ARV R9, 0x100"}}});
  const std::vector<Sample> all =
      joined({{{"BAR.SYNC.DEFER_BLOCKING R8, 0x180"}},
              repeated({"FADD R0, R0, R1", 4}, 10),
              {{"BAR.ARV R9, 0x180"}, {"BAR.ARV R10, 0x180"}}});
  EXPECT_EQ(timed(ring, warps(3)).clocks, 3 * (1 + 40 + kConstants.barrier));
  const LoopTiming three = timed(all, warps(3));
  EXPECT_EQ(three.clocks, 3 * (1 + 40 + kConstants.barrier));  // the first arrival is the next warp's
  EXPECT_GT(use(three, ClockUse::kTurn), 2 * 60);
}

TEST(TimingSimulator, WarpsMeet) {
  // Two warps that meet after every sum: a sum, the barrier, and its latency.
  const std::vector<Sample> loop = {{"FADD R0, R0, R1", 4}, {"BAR.SYNC.DEFER_BLOCKING 0x2, 0x100"}};
  const LoopTiming two = timed(loop, warps(2));
  EXPECT_NEAR(two.clocks, 4 + kConstants.barrier + 1, 1);
  // Blocks of one warp group each do not meet.
  LoopSettings blocks;
  blocks.blocks = 2;
  const std::vector<Sample> own = {{"FADD R0, R0, R1", 4}, {"BAR.SYNC.DEFER_BLOCKING 0x2, 0x80"}};
  EXPECT_EQ(use(timed(own, blocks), ClockUse::kTurn), 0);
}

TEST(TimingSimulator, TilesComeAsFastAsTheL2SendsThem) {
  std::vector<Sample> loop = {{"SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R24", 2, 3},
                              {"BRA 0x0", 5, kNone, 1u << 3}};
  const std::vector<Sample> product = joined({products("64x128x16", 2), {kWaitForProducts}});
  loop.insert(loop.end(), product.begin(), product.end());
  LoopSettings slow;
  slow.l2_bytes_per_clock = 8;
  const LoopTiming timing = timed(loop, slow);
  EXPECT_EQ(timing.data_bound, 2 * 128 * 32 / 8);
  EXPECT_EQ(timing.clocks, timing.data_bound);
  EXPECT_GT(use(timing, ClockUse::kData), 500);
  // Also on a way that goes around the test, because another one was made before.
  EXPECT_EQ(timed(product, slow).clocks, timing.data_bound);
  slow.l2_bytes_per_clock = 4000;
  EXPECT_LT(timed(loop, slow).clocks, 250);
}

TEST(TimingSimulator, IsTheSameInEveryRun) {
  const std::vector<Sample> loop = joined({products("64x96x16", 3),
                                           repeated({"MUFU.EX2 R0, R1"}, 9),
                                           repeated({"FMUL R2, R3, R4", 2}, 31),
                                           {kWaitForProducts}});
  const LoopTiming first = timed(loop, warps(3)), second = timed(loop, warps(3));
  EXPECT_EQ(first.clocks, second.clocks);
  EXPECT_EQ(first.uses, second.uses);
}

TEST(TimingSimulator, SaysWhatItDoesNotUnderstand) {
  const auto [kernel, way] = sample_loop({{"HGMMA.32x128x16.F32 R24, gdesc[UR4], R24"}});
  const auto program = loop_program(kernel, way, {}, kConstants);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().message().find("a product m64nNkK is expected"), std::string::npos);
  SassKernel no_words = kernel;
  no_words.instructions[0].control.reset();
  const auto without = loop_program(no_words, way, {}, kConstants);
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.status().message().find("lacks its words"), std::string::npos);
}

}  // namespace
}  // namespace lssar
