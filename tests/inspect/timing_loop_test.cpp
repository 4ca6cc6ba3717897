// Control words, the ways through a loop, and the timing of a kernel's hot loops.
#include <cstdlib>

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "inspect/timing/kernel_timing.h"
#include "inspect/timing/loop_timer.h"
#include "inspect/timing/loop_ways.h"
#include "tests/inspect/timing_samples.h"

namespace lssar {
namespace {

constexpr const char* kPlainWords = "/* 0x000fc200000000ff */";  // stall 1, no scoreboard

std::string listing_line(uint32_t address, const std::string& text) {
  return fmt::format("        /*{:04x}*/   {} ;   /* 0x0000000000007947 */\n        {}\n", address,
                     text, kPlainWords);
}

// A loop of one product with two evaluators, a mask, and a retry of a wait behind its end.
std::string looping_listing() {
  std::vector<std::string> lines = {
      "USETMAXREG.DEALLOC.CTAPOOL 0x18",
      ".L_head:",
      "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R24",
      "@!P0 BRA `(.L_retry)",
      ".L_go:",
      "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0",
      "WARPGROUP.DEPBAR.LE gsb0, 0x0",
      "@!P1 BRA `(.L_unmasked)",
      "FSEL R24, R24, -INF, P3",
      ".L_unmasked:",
      "@P2 BRA `(.L_short)",
  };
  lines.insert(lines.end(), 40, "FFMA R24, R24, R24, R24");
  lines.insert(lines.end(), 8, "MUFU.EX2 R24, R24");
  lines.insert(lines.end(), {"BRA `(.L_end)", ".L_short:"});
  lines.insert(lines.end(), 10, "FFMA R24, R24, R24, R24");
  lines.insert(lines.end(), {".L_end:", "@P4 BRA `(.L_head)", "EXIT",
                             ".L_retry:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R24",
                             "@P0 BRA `(.L_go)", "BRA `(.L_retry)"});
  std::string text = "\t.section\t.text.kernel,\"ax\",@progbits\nkernel:\n";
  uint32_t address = 0;
  for (const std::string& line : lines) {
    text += line.back() == ':' ? line + "\n" : listing_line(address, line);
    if (line.back() != ':') address += 16;
  }
  return text;
}

SassKernel looping_kernel() {
  const auto kernels = parse_sass(looping_listing());
  EXPECT_TRUE(kernels.ok());
  return kernels.ok() ? kernels->front() : SassKernel{};
}

TEST(TimingLoop, ReadsControlWords) {
  // Made by ptxas 13.0 for sm_90a: the LDS opens scoreboard 3, and the FMUL waits for it.
  const SassControl load = decode_control(uint64_t{0b000000'111'011'0'0100} << 41);
  EXPECT_EQ(load, (SassControl{4, true, 3, kNone, 0}));
  const SassControl wait = decode_control(uint64_t{0b001000'111'111'1'0001} << 41);
  EXPECT_EQ(wait, (SassControl{1, false, kNone, kNone, 1u << 3}));
  const SassControl barrier = decode_control(uint64_t{0b000000'010'111'1'0110} << 41);
  EXPECT_EQ(barrier, (SassControl{6, false, kNone, 2, 0}));
  const SassKernel kernel = looping_kernel();
  ASSERT_TRUE(kernel.instructions[0].control.has_value());
  EXPECT_EQ(kernel.instructions[0].control->stall, 1);
}

TEST(TimingLoop, FollowsEachEvaluatorAndNeitherMaskNorRetry) {
  const SassKernel kernel = looping_kernel();
  ASSERT_EQ(kernel.loops.size(), 2u);  // the retry is one, too
  ASSERT_TRUE(kernel.loops[0].is_hot);
  const std::vector<LoopWay> ways = loop_ways(kernel, kernel.loops[0]);
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(ways[0].fma, 10u);
  EXPECT_EQ(ways[0].special, 0u);
  EXPECT_EQ(ways[1].fma, 40u);
  EXPECT_EQ(ways[1].special, 8u);
  for (const LoopWay& way : ways) {
    EXPECT_EQ(way.tensor, 1u);
    EXPECT_EQ(kernel.instructions[way.instructions.front()].opcode,
              "SYNCS.PHASECHK.TRANS64.TRYWAIT");
    for (const uint32_t i : way.instructions) {
      EXPECT_NE(kernel.instructions[i].opcode, "FSEL");
      EXPECT_NE(kernel.instructions[i].opcode, "EXIT");
    }
  }
  EXPECT_TRUE(loop_ways(kernel, kernel.loops[1]).empty());
}

TEST(TimingLoop, TimesTheHotLoopOfAKernel) {
  KernelShape shape;
  shape.threads = 3 * 128;
  EXPECT_EQ(multiplying_warps(looping_kernel(), shape), 2);  // one group only moves data
  const auto timing = kernel_timing(looping_kernel(), shape);
  ASSERT_TRUE(timing.ok()) << timing.status().message();
  ASSERT_EQ(timing->loops.size(), 1u);
  const HotLoopTiming& loop = timing->loops[0];
  EXPECT_EQ(loop.warps, 2);
  ASSERT_EQ(loop.ways.size(), 2u);
  const WayTiming& longer = loop.ways[1];
  EXPECT_EQ(longer.scores, 2 * 64 * 64);
  EXPECT_GT(longer.timing.clocks, loop.ways[0].timing.clocks);
  EXPECT_GE(longer.timing.clocks, longer.timing.bound());
  EXPECT_EQ(longer.special_run.length, 8);
  EXPECT_EQ(longer.fma_run.length, 40);
  EXPECT_EQ(longer.fma_run.address, 8u * 16);
}

TEST(TimingLoop, OfEveryLoopTheWayThatTakesLeastCounts) {
  KernelShape shape;
  shape.threads = 3 * 128;
  auto timing = kernel_timing(looping_kernel(), shape);
  ASSERT_TRUE(timing.ok()) << timing.status().message();
  const WayTiming least = timing->loops[0].ways[0];
  ASSERT_LT(least.timing.clocks, timing->loops[0].ways[1].timing.clocks);
  timing->loops.push_back(timing->loops[0]);
  const double clocks = least.timing.clocks / least.scores;
  EXPECT_EQ(clocks_per_score({*timing}), (std::vector<double>{clocks, clocks}));
  for (WayTiming& way : timing->loops[1].ways) way.scores = 0;
  EXPECT_TRUE(clocks_per_score({*timing}).empty());
}

TEST(LoopTimer, WithoutADisassemblerNothingIsCompiled) {
  const char* const given = getenv("LSSAR_NVDISASM");
  const std::string kept = given == nullptr ? "" : given;
  setenv("LSSAR_NVDISASM", "none", 1);
  EngineOptions options;
  options.cache.directory = "none";
  const Target target = *target_from_name("sm_90a");
  LoopTimer timer(options);
  for (int i = 0; i < 2; ++i) {
    const auto clocks = timer.clocks({}, target, {"c0", default_schedule({}, target), {}});
    ASSERT_FALSE(clocks.ok());
    EXPECT_EQ(clocks.status().code(), StatusCode::kMissing);
    EXPECT_NE(clocks.status().message().find("LSSAR_NVDISASM"), std::string::npos);
  }
  setenv("LSSAR_NVDISASM", kept.c_str(), 1);  // "" is as if it were not set
}

TEST(LoopTimer, ReadsTheLoopsOfBothPasses) {
  EngineOptions options;
  options.cache.directory = "none";
  options.compiler = CompilerChoice::kNvrtc;
  const Target target = *target_from_name("sm_90a");
  Problem problem;
  problem.head_dim = problem.head_dim_v = 64;
  const Schedule schedule = default_schedule(problem, target);
  LoopTimer timer(options);
  const auto clocks = timer.clocks(problem, target, {"c0", schedule, {}});
  if (clocks.status().code() == StatusCode::kMissing) GTEST_SKIP() << clocks.status().message();
  ASSERT_TRUE(clocks.ok()) << clocks.status().to_string();
  ASSERT_EQ(clocks->size(), 2u);
  for (const double one : *clocks) {
    EXPECT_GT(one, 2.0 * 64 / 4096);  // what a product of a score takes
    EXPECT_LT(one, 0.5);
  }
  CostModel model(problem, {2, 16, 16, 8192, 8192}, target, *gpu_model("sm_90a"));
  EXPECT_TRUE(model.sum_of_both(schedule, *clocks).has_value());
}

TEST(TimingLoop, ABackwardHasTwoProductsForEachScore) {
  KernelShape shape;
  shape.threads = 3 * 128;
  shape.is_backward = true;
  auto [kernel, way] = sample_loop({{"HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0"},
                                    {"HGMMA.64x64x16.F32.BF16 R60, gdesc[UR4], RZ, !UPT, gsb0"},
                                    {"HGMMA.64x128x16.F32.BF16 R90, gdesc[UR4], RZ, !UPT, gsb0"}});
  SassLoop loop;
  loop.own = {0, 1, 2};
  loop.is_hot = true;
  kernel.branches = {{2, {0}, false}};
  kernel.loops = {loop};
  const auto timing = kernel_timing(kernel, shape);
  ASSERT_TRUE(timing.ok()) << timing.status().message();
  ASSERT_EQ(timing->loops[0].ways.size(), 1u);
  EXPECT_EQ(timing->loops[0].ways[0].scores, 3 * 64 * 64);  // three groups multiply
}

TEST(TimingLoop, ALoopThatOnlyMasksBesidesIsLeftOut) {
  KernelShape shape;
  shape.threads = 3 * 128;
  const auto loops_of = [&](const char* product) {
    auto kernel = sample_loop({{"HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0"},
                               {"FSEL R24, R24, -INF, P3"},
                               {"FADD R24, R24, R25"},
                               {product},
                               {"FADD R24, R24, R25"}})
                      .first;
    SassLoop masked, whole;
    masked.own = {0, 1, 2};
    whole.own = {3, 4};
    whole.header = 3;
    masked.is_hot = whole.is_hot = true;
    kernel.branches = {{2, {0}, false}, {4, {3}, false}};
    kernel.loops = {masked, whole};
    const auto timing = kernel_timing(kernel, shape);
    EXPECT_TRUE(timing.ok()) << timing.status().message();
    return timing.ok() ? timing->loops : std::vector<HotLoopTiming>{};
  };
  const auto same = loops_of("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0");
  ASSERT_EQ(same.size(), 1u);
  EXPECT_EQ(same[0].ways[0].instructions, 2u);
  EXPECT_EQ(loops_of("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0").size(), 2u);
}

TEST(TimingLoop, TextAndJsonSayPredicted) {
  KernelShape shape;
  shape.threads = 3 * 128;
  const auto timing = kernel_timing(looping_kernel(), shape);
  ASSERT_TRUE(timing.ok());
  const std::string text = timing_text({*timing});
  for (const char* part :
       {"Timing, predicted from machine code", "kernel 0010-", "2 warps per scheduler",
        " clocks, 0.0", " per score (8192 scores)", "a warp's clocks: ", "at least, in clocks: ",
        "longest run: 8 of MUFU at 0300; 40 of FFMA, FMUL or FADD at 0080"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const nlohmann::json json = to_json(std::vector<KernelTiming>{*timing});
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["ways"].size(), 2u);
  EXPECT_GT(json[0]["ways"][1]["predicted_clocks"].get<double>(), 0);
  EXPECT_TRUE(json[0]["ways"][1]["uses"].contains("tensor"));
}

TEST(TimingLoop, AKernelWithoutHgmmaIsNotTimed) {
  const SassKernel kernel = sample_loop({{"HMMA.16816.F32 R24, R4, R8, R24"}}).first;
  const auto timing = kernel_timing(kernel, {});
  ASSERT_FALSE(timing.ok());
  EXPECT_EQ(timing.status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace lssar
