// Branches, loops, divergence, barriers, exits, special registers and the instruction count.
#include <gtest/gtest.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

const char* const kProlog =
    ".reg .b64 %q, %o; .reg .b32 %t, %d, %x<8>; .reg .pred %p<4>;\n"
    "ld.param.u64 %q, [p0]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %q, %q, %o;\n"
    "mov.u32 %d, 0;\n";
const char* const kEpilog = "\nst.global.u32 [%q], %d; ret;";

// Runs a body that leaves each thread's result in %d.
std::vector<uint32_t> execute(SimdLevel level, uint32_t threads, const std::string& body,
                              const std::string& variables = "", uint64_t* instructions = nullptr) {
  const auto device = open_device(level);
  Buffer<uint32_t> out(*device, std::vector<uint32_t>(threads, 0xdddddddd));
  const Status status =
      run(*device, kernel_text(".param .u64 p0", kProlog + body + kEpilog, variables), {1, threads},
          {out.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  if (instructions != nullptr) *instructions = device->counters().warp_instructions;
  return out.values();
}

TEST(ControlTest, LoopsRunAsOftenAsEachLaneWants) {
  for (const SimdLevel level : levels()) {
    const auto d = execute(level, 64,
                           "mov.u32 %x0, 0;\n"
                           "LOOP: setp.ge.u32 %p0, %x0, %t; @%p0 bra DONE;\n"
                           "add.u32 %d, %d, %x0; add.u32 %x0, %x0, 1; bra.uni LOOP;\nDONE:");
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(d[i], i * (i - 1) / 2) << i;
  }
}

TEST(ControlTest, NestedDivergenceJoins) {
  for (const SimdLevel level : levels()) {
    const auto d = execute(level, 32,
                           "and.b32 %x0, %t, 1; setp.eq.u32 %p0, %x0, 1;\n"
                           "and.b32 %x1, %t, 2; setp.eq.u32 %p1, %x1, 2;\n"
                           "@%p0 bra ODD; @%p1 bra EVEN2; add.u32 %d, %d, 1; bra JOIN;\n"
                           "EVEN2: add.u32 %d, %d, 2; bra JOIN;\n"
                           "ODD: @!%p1 bra ODD0; add.u32 %d, %d, 4; bra JOIN;\n"
                           "ODD0: add.u32 %d, %d, 8;\nJOIN: add.u32 %d, %d, 100;");
    const uint32_t want[4] = {101, 108, 102, 104};
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(d[i], want[i % 4]) << i;
  }
}

TEST(ControlTest, BranchTable) {
  for (const SimdLevel level : levels()) {
    const auto d = execute(level, 32,
                           "rem.u32 %x0, %t, 3;\nTABLE: .branchtargets A, B, C;\n"
                           "brx.idx %x0, TABLE;\nA: mov.u32 %d, 10; bra.uni END;\n"
                           "B: mov.u32 %d, 20; bra.uni END;\nC: mov.u32 %d, 30;\nEND:");
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(d[i], 10 * (i % 3 + 1));
  }
}

TEST(ControlTest, LanesThatExitLeaveTheOthersRunning) {
  for (const SimdLevel level : levels()) {
    const auto d = execute(level, 64,
                           "mov.u32 %d, 5; setp.lt.u32 %p0, %t, 40; @%p0 exit; bar.sync 0;\n"
                           "mov.u32 %d, 6;");
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(d[i], i < 40 ? 0xddddddddu : 6u);
  }
}

TEST(ControlTest, AKernelMayEndWithoutRet) {
  const auto device = open_device(SimdLevel::kPlain);
  Buffer<uint32_t> out(*device, {0});
  const Status status =
      run(*device,
          kernel_text(".param .u64 p0",
                      ".reg .b64 %q; .reg .pred %p; .reg .b32 %t; ld.param.u64 %q, [p0];\n"
                      "mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p bra END;\n"
                      "st.global.u32 [%q], 3;\nEND:"),
          {}, {out.address()});
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(out[0], 3u);
}

TEST(ControlTest, InlineBlocksHaveTheirOwnNames) {
  for (const SimdLevel level : levels()) {
    const auto d = execute(
        level, 32,
        "{ .reg .b32 %d2; .reg .pred P1; mov.u32 %d2, 3; setp.eq.u32 P1, %d2, 3;\n"
        "@P1 bra L; mov.u32 %d2, 9;\nL: add.u32 %d, %d, %d2; }\n"
        "{ .reg .b32 %d2; mov.u32 %d2, 4; bra.uni L; mov.u32 %d2, 9;\nL: add.u32 %d, %d, %d2; }\n");
    EXPECT_EQ(d[7], 7u);
  }
}

TEST(ControlTest, SpecialRegisters) {
  const auto device = open_device(SimdLevel::kPlain);
  Buffer<uint32_t> out(*device, std::vector<uint32_t>(2 * 2 * 96 * 8));
  Image image;
  image.bytes =
      kernel_text(".param .u64 p0",
                  ".reg .b64 %q, %o; .reg .b32 %i, %j, %x<8>; ld.param.u64 %q, [p0];\n"
                  "mov.u32 %x0, %ctaid.y; mov.u32 %x1, %nctaid.x; mov.u32 %x2, %ctaid.x;\n"
                  "mad.lo.u32 %i, %x0, %x1, %x2; mov.u32 %x3, %ntid.x; mov.u32 %x4, %ntid.y;\n"
                  "mul.lo.u32 %x4, %x4, %x3; mul.lo.u32 %i, %i, %x4; mov.u32 %x5, %tid.y;\n"
                  "mad.lo.u32 %j, %x5, %x3, %tid.x; add.u32 %i, %i, %j; mul.wide.u32 %o, %i, 32;\n"
                  "add.s64 %q, %q, %o; mov.u32 %x6, %laneid; mov.u32 %x7, %warpid;\n"
                  "st.global.v4.u32 [%q], {%x2, %x0, %tid.x, %x5};\n"
                  "mov.u32 %x1, %lanemask_lt; mov.u32 %x2, %dynamic_smem_size;\n"
                  "st.global.v4.u32 [%q+16], {%x6, %x7, %x1, %x2}; ret;");
  auto module = device->load(image);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  LaunchConfig config;
  config.grid[0] = config.grid[1] = 2;
  config.block[0] = 48;
  config.block[1] = 2;
  config.shared_bytes = 128;
  const uint64_t address = out.address();
  const Status status = device->launch(**(*module)->function("k"), config, &address, 8, nullptr);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint32_t block = 0; block < 4; ++block) {
    for (uint32_t thread = 0; thread < 96; ++thread) {
      const size_t at = (block * 96 + thread) * 8;
      const uint32_t want[8] = {block % 2,
                                block / 2,
                                thread % 48,
                                thread / 48,
                                thread % 32,
                                thread / 32,
                                (1u << (thread % 32)) - 1,
                                128};
      for (int i = 0; i < 8; ++i)
        EXPECT_EQ(out[at + static_cast<size_t>(i)], want[i]) << thread << " " << i;
    }
  }
}

TEST(ControlTest, RegistersThatShareAPlaceKeepTheirValues) {
  // 200 values live at once, then reduced; and a diverged loop over some of them.
  std::string body = ".reg .b32 %v<200>; .reg .b64 %w<50>;\n";
  for (int i = 0; i < 200; ++i)
    body += "add.u32 %v" + std::to_string(i) + ", %t, " + std::to_string(i) + ";\n";
  for (int i = 0; i < 50; ++i)
    body += "cvt.u64.u32 %w" + std::to_string(i) + ", %v" + std::to_string(2 * i) + ";\n";
  body += "and.b32 %x0, %t, 7; setp.lt.u32 %p0, %x0, 4; @%p0 bra OVER;\n";
  for (int i = 0; i < 100; ++i) body += "add.u32 %d, %d, %v" + std::to_string(i) + ";\n";
  body += "OVER:\n";
  for (int i = 100; i < 200; ++i) body += "add.u32 %d, %d, %v" + std::to_string(i) + ";\n";
  for (int i = 0; i < 50; ++i)
    body += "cvt.u32.u64 %x1, %w" + std::to_string(i) + "; add.u32 %d, %d, %x1;\n";
  for (const SimdLevel level : levels()) {
    const auto d = execute(level, 32, body);
    for (uint32_t t = 0; t < 32; ++t) {
      uint32_t want = 0;
      for (uint32_t i = t % 8 < 4 ? 100 : 0; i < 200; ++i) want += t + i;
      for (uint32_t i = 0; i < 50; ++i) want += t + 2 * i;
      EXPECT_EQ(d[t], want) << t;
    }
  }
}

TEST(CounterTest, CountsEveryInstructionOfEveryWarpOnce) {
  uint64_t count = 0;
  // Prolog 5, epilog 2; 3 + 10 times 3 in the loop; 2 warps.
  execute(SimdLevel::kPlain, 64,
          "mov.u32 %x0, 0;\nLOOP: add.u32 %x0, %x0, 1; setp.lt.u32 %p0, %x0, 10; @%p0 bra LOOP;\n",
          "", &count);
  EXPECT_EQ(count, 2 * (5 + 1 + 10 * 3 + 2));
}

TEST(CounterTest, ADivergedWarpCountsEachSideAndSuspensionCountsNothing) {
  uint64_t count = 0;
  execute(SimdLevel::kPlain, 32,
          "setp.lt.u32 %p0, %t, 7; @%p0 bra JOIN; bra.uni FAR;\n"
          "JOIN: shfl.sync.bfly.b32 %d, %t, 1, 31, -1; bra.uni END;\nFAR: bra.uni JOIN;\nEND:\n",
          "", &count);
  EXPECT_EQ(count, 5u + 2 + 1 + 1 + 2 + 2);
}

const char* const kShared = ".shared .align 4 .b8 s[512];\n";

TEST(BarrierTest, MakesWritesOfOtherWarpsVisible) {
  for (const SimdLevel level : levels()) {
    const auto d = execute(level, 128,
                           "mov.u32 %x0, s; mad.lo.u32 %x1, %t, 4, %x0; st.shared.u32 [%x1], %t;\n"
                           "bar.sync 0; xor.b32 %x2, %t, 127; mad.lo.u32 %x1, %x2, 4, %x0;\n"
                           "ld.shared.u32 %d, [%x1];",
                           kShared);
    for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(d[i], 127 - i);
  }
}

TEST(BarrierTest, NamedBarriersOfSomeWarpsAndArrive) {
  // Warps 0 and 1 produce, arrive on barrier 3 and go on; warps 2 and 3 wait for them.
  const auto d = execute(
      SimdLevel::kPlain, 128,
      "mov.u32 %x0, s; mad.lo.u32 %x1, %t, 4, %x0; setp.ge.u32 %p0, %t, 64; @%p0 bra WAIT;\n"
      "st.shared.u32 [%x1], %t; bar.arrive 3, 128; mov.u32 %d, 1; bra.uni END;\n"
      "WAIT: bar.sync 3, 128; ld.shared.u32 %d, [%x1+-256];\nEND:",
      kShared);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(d[i], i < 64 ? 1 : i - 64);
}

TEST(BarrierTest, LanesOfAWarpMayComeByDifferentWays) {
  const auto d =
      execute(SimdLevel::kPlain, 64,
              "setp.lt.u32 %p0, %t, 5; @%p0 bra A; barrier.sync 0; mov.u32 %d, 1; bra.uni END;\n"
              "A: barrier.sync 0; mov.u32 %d, 2;\nEND:");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(d[i], i < 5 ? 2u : 1u);
}

TEST(BarrierTest, Reductions) {
  for (const SimdLevel level : levels()) {
    EXPECT_EQ(execute(level, 96, "setp.lt.u32 %p0, %t, 41; bar.red.popc.u32 %d, 0, %p0;")[50], 41u);
    const std::string tail = "selp.u32 %d, 1, 0, %p1;";
    EXPECT_EQ(execute(level, 96, "setp.eq.u32 %p0, %t, 41; bar.red.or.pred %p1, 0, %p0;" + tail)[3],
              1u);
    EXPECT_EQ(
        execute(level, 96, "setp.eq.u32 %p0, %t, 41; bar.red.and.pred %p1, 0, %p0;" + tail)[3], 0u);
    EXPECT_EQ(
        execute(level, 96,
                "setp.gt.u32 %p0, %t, 99; barrier.cta.red.and.aligned.pred %p1, 1, 96, !%p0;" +
                    tail)[3],
        1u);
  }
}

TEST(BlocksTest, ResultsDoNotDependOnTheNumberOfThreads) {
  std::vector<uint32_t> first;
  for (const int threads : {1, 2, 5}) {
    const auto device = open_device(SimdLevel::kAuto, threads);
    Buffer<uint32_t> out(*device, std::vector<uint32_t>(300 * 32));
    const Status status = run(
        *device,
        kernel_text(".param .u64 p0",
                    ".reg .b64 %q, %o; .reg .b32 %i, %x<4>; ld.param.u64 %q, [p0];\n"
                    "mov.u32 %x0, %ctaid.x; mov.u32 %x1, %tid.x; mad.lo.u32 %i, %x0, 32, %x1;\n"
                    "mul.wide.u32 %o, %i, 4; add.s64 %q, %q, %o; mul.lo.u32 %i, %i, 2654435761;\n"
                    "st.global.u32 [%q], %i; ret;"),
        {300, 32}, {out.address()});
    ASSERT_TRUE(status.ok()) << status.to_string();
    if (first.empty()) first = out.values();
    EXPECT_EQ(out.values(), first);
    EXPECT_EQ(out[9599], 9599u * 2654435761u);
  }
}

}  // namespace
}  // namespace lssar::test
