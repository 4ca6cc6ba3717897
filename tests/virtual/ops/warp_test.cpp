// Shuffles, votes, reductions and matches, against the pseudo-code of the PTX ISA.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// Runs `body` with %a holding each lane's input; gives %d, and %p's lanes as bits.
struct Outcome {
  std::vector<uint32_t> d;
  uint32_t p = 0;
};
Outcome execute(SimdLevel level, const std::vector<uint32_t>& input, const std::string& body) {
  const auto device = open_device(level);
  Buffer<uint32_t> in(*device, input);
  Buffer<uint32_t> out(*device, std::vector<uint32_t>(64));
  const Status status = run(
      *device,
      kernel_text(".param .u64 p0, .param .u64 p1",
                  ".reg .b64 %in, %out, %o; .reg .b32 %t, %a, %d, %x<4>; .reg .pred %p, %q, %g;\n"
                  "ld.param.u64 %in, [p0]; ld.param.u64 %out, [p1]; mov.u32 %t, %tid.x;\n"
                  "mul.wide.u32 %o, %t, 4; add.s64 %in, %in, %o; add.s64 %out, %out, %o;\n"
                  "ld.global.u32 %a, [%in]; mov.u32 %d, 77; setp.ne.s32 %p, 0, 0;\n" +
                      body +
                      "\nst.global.u32 [%out], %d; selp.u32 %x0, 1, 0, %p;\n"
                      "st.global.u32 [%out+128], %x0; ret;"),
      {}, {in.address(), out.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  Outcome result;
  for (uint32_t i = 0; i < 32; ++i) {
    result.d.push_back(out[i]);
    result.p |= out[32 + i] << i;
  }
  return result;
}

std::vector<uint32_t> lane_numbers() {
  std::vector<uint32_t> v(32);
  for (uint32_t i = 0; i < 32; ++i) v[i] = i;
  return v;
}
std::vector<uint32_t> random_values() {
  std::mt19937 random(3);
  std::vector<uint32_t> v(32);
  for (uint32_t& x : v) x = random();
  return v;
}

struct Shuffle {
  const char* mode;
  uint32_t b;
  uint32_t c;
};
class ShuffleTest : public testing::TestWithParam<Shuffle> {};
TEST_P(ShuffleTest, FollowsThePseudoCode) {
  const auto [mode, b, c] = GetParam();
  const std::string m = mode;
  for (const SimdLevel level : levels()) {
    const Outcome outcome = execute(
        level, lane_numbers(), fmt::format("shfl.sync.{}.b32 %d|%p, %a, {}, {}, -1;", mode, b, c));
    for (int lane = 0; lane < 32; ++lane) {
      const int bval = b & 31, cval = c & 31, segment = (c >> 8) & 31;
      const int max_lane = (lane & segment) | (cval & ~segment);
      const int min_lane = lane & segment;
      int j = m == "up"     ? lane - bval
              : m == "down" ? lane + bval
              : m == "bfly" ? lane ^ bval
                            : min_lane | (bval & ~segment);
      const bool ok = m == "up" ? j >= max_lane : j <= max_lane;
      if (!ok) j = lane;
      EXPECT_EQ(outcome.d[lane], static_cast<uint32_t>(j)) << mode << " " << b << " lane " << lane;
      EXPECT_EQ((outcome.p >> lane) & 1, ok) << mode << " " << b << " lane " << lane;
    }
  }
}
const Shuffle kShuffles[] = {
    {"up", 1, 0},        {"up", 5, 0},        {"up", 4, 0x1800}, {"down", 1, 31},
    {"down", 16, 31},    {"down", 3, 0x181f}, {"bfly", 1, 31},   {"bfly", 16, 31},
    {"bfly", 8, 0x181f}, {"idx", 0, 31},      {"idx", 17, 31},   {"idx", 3, 0x1c1f},
    {"idx", 9, 5},       {"bfly", 33, 31},
};
INSTANTIATE_TEST_SUITE_P(Modes, ShuffleTest, testing::ValuesIn(kShuffles));

TEST(ShuffleTest, WithoutPredicateAndWithRegisterOperands) {
  for (const SimdLevel level : levels()) {
    const Outcome outcome = execute(level, lane_numbers(),
                                    "sub.u32 %x0, 31, %t; mov.u32 %x1, 31; mov.u32 %x2, -1;\n"
                                    "shfl.sync.idx.b32 %d, %a, %x0, %x1, %x2;");
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(outcome.d[i], 31 - i);
  }
}

TEST(VoteTest, AllAnyUniformAndBallot) {
  for (const SimdLevel level : levels()) {
    const std::string prolog = "setp.lt.u32 %g, %t, 5;\n";
    EXPECT_EQ(execute(level, lane_numbers(), prolog + "vote.sync.all.pred %p, %g, -1;").p, 0u);
    EXPECT_EQ(execute(level, lane_numbers(), prolog + "vote.sync.any.pred %p, %g, -1;").p, ~0u);
    EXPECT_EQ(execute(level, lane_numbers(), prolog + "vote.sync.uni.pred %p, %g, -1;").p, 0u);
    EXPECT_EQ(execute(level, lane_numbers(), prolog + "vote.sync.ballot.b32 %d, %g, -1;").d[9],
              31u);
    EXPECT_EQ(execute(level, lane_numbers(), prolog + "vote.sync.ballot.b32 %d, !%g, -1;").d[9],
              ~31u);
    EXPECT_EQ(execute(level, lane_numbers(), "activemask.b32 %d;").d[3], ~0u);
  }
}

TEST(VoteTest, InABranchCountsTheMembersOnly) {
  for (const SimdLevel level : levels()) {
    const Outcome outcome =
        execute(level, lane_numbers(),
                "setp.lt.u32 %g, %t, 8; @!%g bra SKIP; setp.gt.u32 %q, %t, 2;\n"
                "vote.sync.ballot.b32 %d, %q, 0xff; vote.sync.any.pred %p, %q, 0xff;\nSKIP:\n");
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(outcome.d[i], i < 8 ? 0xf8u : 77u);
    EXPECT_EQ(outcome.p, 0xffu);
  }
}

TEST(ReduxTest, EveryOperation) {
  const std::vector<uint32_t> v = random_values();
  uint32_t sum = 0, least = ~0u, most = 0, ands = ~0u, ors = 0, xors = 0;
  int32_t least_signed = INT32_MAX, most_signed = INT32_MIN;
  for (const uint32_t x : v) {
    sum += x, least = std::min(least, x), most = std::max(most, x), ands &= x, ors |= x, xors ^= x;
    least_signed = std::min(least_signed, static_cast<int32_t>(x));
    most_signed = std::max(most_signed, static_cast<int32_t>(x));
  }
  for (const SimdLevel level : levels()) {
    const auto result = [&](const char* form) {
      return execute(level, v, fmt::format("redux.sync.{} %d, %a, 0xffffffff;", form)).d[21];
    };
    EXPECT_EQ(result("add.u32"), sum);
    EXPECT_EQ(result("add.s32"), sum);
    EXPECT_EQ(result("min.u32"), least);
    EXPECT_EQ(result("max.u32"), most);
    EXPECT_EQ(result("min.s32"), static_cast<uint32_t>(least_signed));
    EXPECT_EQ(result("max.s32"), static_cast<uint32_t>(most_signed));
    EXPECT_EQ(result("and.b32"), ands);
    EXPECT_EQ(result("or.b32"), ors);
    EXPECT_EQ(result("xor.b32"), xors);
  }
}

TEST(MatchTest, AnyAndAll) {
  for (const SimdLevel level : levels()) {
    const Outcome any =
        execute(level, lane_numbers(), "and.b32 %x0, %t, 3; match.any.sync.b32 %d, %x0, -1;");
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(any.d[i], 0x11111111u << (i % 4));
    const Outcome differ = execute(level, lane_numbers(), "match.all.sync.b32 %d|%p, %t, -1;");
    EXPECT_EQ(differ.d[0], 0u);
    EXPECT_EQ(differ.p, 0u);
    const Outcome equal =
        execute(level, lane_numbers(), "mov.u32 %x0, 4; match.all.sync.b32 %d|%p, %x0, -1;");
    EXPECT_EQ(equal.d[0], ~0u);
    EXPECT_EQ(equal.p, ~0u);
  }
}

TEST(ElectTest, OneLaneLeads) {
  for (const SimdLevel level : levels()) {
    const Outcome outcome = execute(level, lane_numbers(), "elect.sync %d|%p, 0xffffffff;");
    EXPECT_EQ(outcome.p, 1u << outcome.d[0]);
    for (const uint32_t d : outcome.d) EXPECT_EQ(d, outcome.d[0]);
  }
}

// The leader is the same at every election among the same lanes.
void elect_leaders(uint64_t seed, ElectedLane elected, uint32_t members, uint32_t warps,
                   std::vector<uint32_t>* leaders) {
  VirtualOptions options;
  options.num_threads = 1;
  options.target.major = 9;
  options.target.shared_bytes_per_block = 227 << 10;
  options.schedule_seed = seed;
  options.elected_lane = elected;
  options.max_block_instructions = 1'000'000;
  const auto device = make_virtual_device(options);
  Buffer<uint32_t> out(*device, std::vector<uint32_t>(64 * warps, 99));
  const Status status =
      run(*device,
          kernel_text(
              ".param .u64 p0",
              fmt::format(".reg .b64 %p, %o; .reg .b32 %t, %l, %d, %e; .reg .pred %p1, %p2, %g;\n"
                          "ld.param.u64 %p, [p0]; mov.u32 %t, %tid.x; mov.u32 %l, %laneid;\n"
                          "mul.wide.u32 %o, %t, 8; add.s64 %p, %p, %o;\n"
                          "shr.u32 %e, {0:#x}, %l; and.b32 %e, %e, 1; setp.eq.u32 %g, %e, 0;\n"
                          "@%g bra END;\n"
                          "elect.sync %d|%p1, {0:#x}; st.global.u32 [%p], %d;\n"
                          "elect.sync %e|%p2, {0:#x}; st.global.u32 [%p+4], %e;\n"
                          "@%p1 st.global.u32 [%p], %l;\nEND: ret;",
                          members)),
          {1, 32 * warps}, {out.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  for (uint32_t w = 0; w < warps; ++w) {
    const uint32_t first = static_cast<uint32_t>(__builtin_ctz(members));
    const uint32_t leader = out[2 * (32 * w + first)];
    EXPECT_TRUE(leader < 32 && (members >> leader) & 1) << leader;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if (!((members >> lane) & 1)) continue;
      EXPECT_EQ(out[2 * (32 * w + lane)], leader);
      EXPECT_EQ(out[2 * (32 * w + lane) + 1], leader);
    }
    leaders->push_back(leader);
  }
}
// CUTLASS has thread 0 expect the bytes that the elected lane copies.
TEST(ElectTest, TheLowestLeadsWhateverTheSeed) {
  for (uint64_t seed = 0; seed <= 8; ++seed) {
    std::vector<uint32_t> lowest;
    elect_leaders(seed, VirtualOptions{}.elected_lane, 0xffff0010u, 4, &lowest);
    EXPECT_EQ(lowest, std::vector<uint32_t>(4, 4)) << "seed " << seed;
  }
}
TEST(ElectTest, WhereAskedForASeedDrawsTheLeaderOnceAndForAll) {
  std::vector<uint32_t> lowest, drawn;
  elect_leaders(0, ElectedLane::kDrawn, 0xffff0010u, 4, &lowest);
  EXPECT_EQ(lowest, std::vector<uint32_t>(4, 4));
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    elect_leaders(seed, ElectedLane::kDrawn, 0xffff0010u, 4, &drawn);
  }
  std::sort(drawn.begin(), drawn.end());
  EXPECT_GT(std::unique(drawn.begin(), drawn.end()) - drawn.begin(), 4);
}

// Lanes come to the shuffle by different ways; it waits until all are there.
TEST(ConvergenceTest, ACollectiveWaitsForLanesThatTookALongerWay) {
  for (const SimdLevel level : levels()) {
    const Outcome outcome = execute(level, lane_numbers(),
                                    "setp.lt.u32 %g, %t, 7; @%g bra JOIN; bra.uni FAR;\n"
                                    "JOIN: shfl.sync.bfly.b32 %d, %a, 31, 31, -1; bra.uni END;\n"
                                    "FAR: add.u32 %a, %a, 100; bra.uni JOIN;\nEND:\n");
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t j = 31 - i;
      EXPECT_EQ(outcome.d[i], j < 7 ? j : j + 100) << i;
    }
  }
}

TEST(ConvergenceTest, BarWarpSyncJoinsLanesAtDifferentInstructions) {
  for (const SimdLevel level : levels()) {
    const Outcome outcome = execute(level, lane_numbers(),
                                    "setp.lt.u32 %g, %t, 16; @%g bra LOW;\n"
                                    "bar.warp.sync -1; mov.u32 %d, 1; bra.uni END;\n"
                                    "LOW: bar.warp.sync 0xffffffff; mov.u32 %d, 2;\nEND:\n");
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(outcome.d[i], i < 16 ? 2u : 1u);
  }
}

// Lanes below 16 wait at the first until the others, which its guard keeps from it, have stored and
// come to the second.
TEST(ConvergenceTest, LanesThatAGuardKeepsFromBarWarpSyncHaveNotCome) {
  for (const SimdLevel level : levels()) {
    const Outcome outcome = execute(
        level, lane_numbers(),
        ".shared .align 4 .b8 place[4]; .reg .b32 %v; .reg .b32 %s;\n"
        "mov.u32 %v, 7; mov.u32 %s, place; setp.lt.u32 %g, %t, 16; st.shared.u32 [%s], %t;\n"
        "bar.warp.sync -1; @%g bar.warp.sync -1;\n"
        "@%g bra READ; st.shared.u32 [%s], %v; bar.warp.sync -1;\n"
        "READ: ld.shared.u32 %d, [%s];\n");
    for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(outcome.d[i], 7u) << i;
  }
}

}  // namespace
}  // namespace lssar::test
