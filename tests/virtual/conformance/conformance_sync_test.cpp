// Rows in which threads meet: votes, matches, barriers of a block in all spellings, mbarrier
// objects, clusters, bulk reductions, trap. Expected values are computed by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "tests/virtual/async/bulk_fixture.h"
#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// Runs `body` in `threads` threads; thread t's %d is in element t. %t is the thread, %sm 64 words
// of shared memory, %b an mbarrier's address, %o where the block's results begin.
std::vector<uint32_t> execute(SimdLevel level, uint32_t threads, const std::string& body,
                              size_t results = 0) {
  const auto device = open_device(level);
  const Buffer<uint32_t> out(*device,
                             std::vector<uint32_t>(std::max<size_t>(results, threads), 77));
  const Status status = run(
      *device,
      kernel_text(".param .u64 p0",
                  ".reg .b64 %o, %x, %l<8>; .reg .b32 %t, %d, %sm, %b, %r<8>; .reg .pred %p<8>;\n"
                  "ld.param.u64 %o, [p0]; mov.u32 %t, %tid.x; mov.u32 %sm, words;\n"
                  "mov.u32 %b, bar; mov.u32 %d, 77; mul.wide.u32 %x, %t, 4; add.s64 %x, %x, %o;\n" +
                      body + "\nst.global.u32 [%x], %d; ret;",
                  ".shared .align 8 .b64 bar;\n.shared .align 16 .b8 words[256];\n"),
      {1, threads}, {out.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out.values();
}

TEST(ConformanceVoteTest, AllAndUniformWhereTheyHoldAndWhereNot) {
  for (const SimdLevel level : levels()) {
    const auto vote = [&](const std::string& mode, const std::string& condition) {
      // The destination first holds the opposite of lane 0's expected value.
      return execute(level, 32,
                     fmt::format("setp.eq.u32 %p0, %t, %t; setp.{} %p1, %t, 5;\n"
                                 "vote.sync.{}.pred %p0, %p1, -1; selp.b32 %d, 1, 0, %p0;\n"
                                 "setp.ne.u32 %p0, %t, %t; vote.sync.{}.pred %p0, %p1, -1;\n"
                                 "@%p0 add.u32 %d, %d, 2;",
                                 condition, mode, mode))[3];
    };
    EXPECT_EQ(vote("all", "lt.u32"), 0u);
    EXPECT_EQ(vote("all", "ne.s32"), 0u);
    EXPECT_EQ(vote("any", "eq.u32"), 3u);
    EXPECT_EQ(vote("uni", "lt.u32"), 0u);
    const auto of_less_than = [&](const std::string& mode, int bound) {
      return execute(level, 32,
                     fmt::format("setp.ne.u32 %p0, %t, %t; setp.lt.s32 %p1, %t, {};\n"
                                 "vote.sync.{}.pred %p0, %p1, -1; selp.b32 %d, 1, 0, %p0;",
                                 bound, mode))[9];
    };
    EXPECT_EQ(of_less_than("all", 32), 1u);
    EXPECT_EQ(of_less_than("uni", 32), 1u);
    EXPECT_EQ(of_less_than("uni", 0), 1u);
    EXPECT_EQ(of_less_than("any", 0), 0u);
  }
}

TEST(ConformanceMatchTest, Of64Bits) {
  for (const SimdLevel level : levels()) {
    // The upper word is thread % 4, the lower one is the same for all.
    const std::string value = "and.b32 %r0, %t, 3; mov.b32 %r1, 9; mov.b64 %l0, {%r1, %r0};\n";
    const auto any = execute(level, 32, value + "match.any.sync.b64 %d, %l0, -1;");
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(any[t], 0x11111111u << t % 4) << t;
    const auto differ = execute(
        level, 32, value + "match.all.sync.b64 %d|%p0, %l0, -1; @%p0 add.u32 %d, %d, 1000;");
    EXPECT_EQ(differ[7], 0u);
    const auto same = execute(level, 32,
                              "mov.u64 %l0, 0x500000005; match.all.sync.b64 %d|%p0, %l0, -1;\n"
                              "@%p0 xor.b32 %d, %d, 1;");
    EXPECT_EQ(same[7], 0xfffffffeu);
  }
}

// Lane 0 stores for lane 1, which runs first after they diverge. Without the barrier it reads 0.
TEST(ConformanceWarpBarrierTest, OrdersTheLanesOfAWarp) {
  for (const SimdLevel level : levels()) {
    for (const char* order : {"eq", "ne"}) {
      const auto out = execute(
          level, 32,
          fmt::format("st.shared.u32 [%sm], 0; bar.warp.sync -1; setp.{}.u32 %p0, %t, 0;\n"
                      "@%p0 bra ZERO;\nsetp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [%sm], 5;\n"
                      "bar.warp.sync 0xffffffff; ld.shared.u32 %d, [%sm]; bra DONE;\n"
                      "ZERO:\nsetp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [%sm], 5;\n"
                      "bar.warp.sync 0xffffffff; ld.shared.u32 %d, [%sm];\nDONE:\n",
                      order));
      for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], 5u) << order << " " << t;
    }
  }
}

// Warp 1 stores, warp 0 reads; warp 0 runs first.
TEST(ConformanceBarrierTest, SyncAndArriveInEverySpelling) {
  const std::string prologue =
      "setp.lt.u32 %p0, %t, 32; @%p0 bra READER;\n"
      "st.shared.u32 [%sm], 1234;\n";
  for (const SimdLevel level : levels()) {
    for (const std::string name : {"bar", "bar.cta", "barrier", "barrier.cta"}) {
      for (const std::string aligned : {"", ".aligned"}) {
        const std::string sync = name + ".sync" + aligned, arrive = name + ".arrive" + aligned;
        const auto both =
            execute(level, 64,
                    fmt::format("{0}{1} 3; bra DONE;\nREADER:\n{1} 3;\nld.shared.u32 %d, [%sm];\n"
                                "DONE:\n",
                                prologue, sync));
        EXPECT_EQ(both[0], 1234u) << sync;
        const auto one = execute(level, 64,
                                 fmt::format("{}{} 2, 64; bra DONE;\nREADER:\n{} 2, 64;\n"
                                             "ld.shared.u32 %d, [%sm];\nDONE:\n",
                                             prologue, arrive, sync));
        EXPECT_EQ(one[0], 1234u) << arrive;
      }
    }
  }
}

TEST(ConformanceBarrierTest, ReductionsInEverySpelling) {
  for (const SimdLevel level : levels()) {
    for (const std::string name : {"bar", "bar.cta", "barrier", "barrier.cta"}) {
      for (const std::string form : {".red.{}{}", ".red.aligned.{}{}", ".red.{}.aligned{}"}) {
        const auto reduce = [&](const std::string& operation, const char* below) {
          const bool counts = operation == "popc";
          const std::string opcode =
              name + fmt::format(fmt::runtime(form), operation, counts ? ".u32" : ".pred");
          // The predicate's old value must not pass for the result, so both values come before.
          const std::string text =
              counts ? fmt::format("setp.lt.u32 %p0, %t, {}; {} %d, 1, %p0;", below, opcode)
                     : fmt::format(
                           "setp.lt.u32 %p0, %t, {0}; setp.eq.u32 %p1, %t, %t;\n"
                           "{1} %p1, 1, %p0; selp.b32 %d, 1, 0, %p1;\n"
                           "setp.ne.u32 %p1, %t, %t; {1} %p1, 1, %p0;\n"
                           "@%p1 add.u32 %d, %d, 2;",
                           below, opcode);
          return execute(level, 64, text)[40];
        };
        EXPECT_EQ(reduce("and", "63"), 0u) << name << form;
        EXPECT_EQ(reduce("and", "64"), 3u) << name << form;
        EXPECT_EQ(reduce("or", "0"), 0u) << name << form;
        EXPECT_EQ(reduce("or", "1"), 3u) << name << form;
        EXPECT_EQ(reduce("popc", "37"), 37u) << name << form;
      }
    }
  }
}

// One thread takes a barrier of two arrivals through three phases. Bit i of the result answers
// question i.
TEST(ConformanceMbarrierTest, ArrivalsTransactionsAndPhases) {
  for (const SimdLevel level : levels()) {
    std::string body =
        "setp.ne.u32 %p0, %t, 0; @%p0 bra DONE;\nmov.u32 %d, 0;\n"
        "mbarrier.init.shared::cta.b64 [%b], 2;\n";
    uint32_t want = 0;
    int questions = 0;
    const auto ask = [&](const std::string& instruction, bool answer) {
      // The predicate first has the opposite value.
      body += fmt::format("setp.{}.u32 %p1, %t, %t; {}\n@%p1 or.b32 %d, %d, {};\n",
                          answer ? "ne" : "eq", instruction, 1u << questions);
      want |= (answer ? 1u : 0u) << questions++;
    };
    body += "mbarrier.arrive.shared::cta.b64 %l0, [%b];\n";
    ask("mbarrier.test_wait.shared::cta.b64 %p1, [%b], %l0;", false);
    ask("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 0;", false);
    ask("mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p1, [%b], 1;", true);
    body += "mbarrier.arrive.release.cta.shared::cta.b64 %l1, [%b];\n";
    ask("mbarrier.test_wait.shared::cta.b64 %p1, [%b], %l0;", true);
    ask("mbarrier.try_wait.shared::cta.b64 %p1, [%b], %l1;", true);
    ask("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 0;", true);
    ask("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%b], 0;", true);
    // The second phase expects 12 bytes; one of the two arrivals drops out.
    body +=
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 12;\n"
        "mbarrier.arrive_drop.shared::cta.b64 %l2, [%b];\nmbarrier.arrive.shared::cta.b64 _, "
        "[%b];\n";
    ask("mbarrier.test_wait.shared::cta.b64 %p1, [%b], %l2;", false);
    body += "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 8;\n";
    ask("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 1;", false);
    body += "mbarrier.complete_tx.shared::cta.b64 [%b], 4;\n";
    ask("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 1;", true);
    ask("mbarrier.try_wait.shared::cta.b64 %p1, [%b], %l2;", true);
    // The third phase has one arrival left.
    ask("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 0;", false);
    body += "mbarrier.arrive.shared::cta.b64 _, [%b];\n";
    ask("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%b], 0;", true);
    body += "mbarrier.inval.shared::cta.b64 [%b];\nDONE:\n";
    EXPECT_EQ(execute(level, 32, body)[0], want) << simd_level_name(level);
  }
}

TEST(ConformanceClusterTest, AddressesOfAPeerAndTheirRanks) {
  BulkDevice device(kBulkModes[0]);
  const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(2 * 64));
  const Status status =
      device.run_cluster(cluster_kernel("xor.b32 %r21, %r20, 1; cvt.u64.u32 %rd6, %r2;\n"
                                        "mapa.shared::cluster.u32 %r22, %r2, %r21;\n"
                                        "mapa.shared::cluster.u64 %rd7, %rd6, %r21;\n"
                                        "mov.u32 %r23, 99; mov.u32 %r24, 99;\n"
                                        "getctarank.shared::cluster.u32 %r23, %r22;\n"
                                        "getctarank.shared::cluster.u64 %r24, %rd7;\n"
                                        "add.u32 %r25, %r20, 1000; add.u32 %r26, %r20, 2000;\n"
                                        "@%p1 bra AFTER;\n"
                                        "st.shared.u32 [%r2], %r23; st.shared.u32 [%r2+4], %r24;\n"
                                        "st.shared::cluster.u32 [%r22+16], %r25;\n"
                                        "st.shared::cluster.u32 [%rd7+20], %r26;\nAFTER:\n"),
                         2, {out.address(), 0});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint32_t rank : {0u, 1u}) {
    const uint32_t* tile = &out[64 * rank];
    EXPECT_EQ(tile[0], rank ^ 1);
    EXPECT_EQ(tile[1], rank ^ 1);
    EXPECT_EQ(tile[4], 1000 + (rank ^ 1));
    EXPECT_EQ(tile[5], 2000 + (rank ^ 1));
    EXPECT_EQ(tile[6], tile_word(6));
  }
}

// A block's own addresses also have its rank from bit 24 on: those of variables, and those that
// mapa makes.
TEST(ConformanceClusterTest, OwnAddressesHaveTheBlocksRank) {
  BulkDevice device(kBulkModes[0]);
  const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(4 * 64));
  const Status status = device.run_cluster(
      cluster_kernel(".reg .pred %q<4>;\nshr.u32 %r21, %r2, 24;\nmov.u64 %rd6, tile+32;\n"
                     "shr.u64 %rd8, %rd6, 24; cvt.u32.u64 %r22, %rd8;\n"
                     "mapa.shared::cluster.u32 %r23, %r2, %r20; sub.u32 %r23, %r23, %r2;\n"
                     "getctarank.shared::cluster.u32 %r24, %r2;\n"
                     "cvta.shared.u64 %rd6, %rd6; isspacep.shared::cta %q0, %rd6;\n"
                     "xor.b32 %r25, %r20, 1; mapa.u64 %rd7, %rd6, %r25;\n"
                     "isspacep.shared::cta %q1, %rd7; isspacep.shared::cluster %q2, %rd7;\n"
                     "selp.u32 %r26, 1, 0, %q0; selp.u32 %r27, 1, 0, %q1;\n"
                     "selp.u32 %r28, 1, 0, %q2; add.u32 %r29, %r20, 500;\n@%p1 bra AFTER;\n"
                     "st.shared.u32 [tile], %r21; st.shared.u32 [%r2+4], %r22;\n"
                     "st.shared::cta.u32 [tile+8], %r23; st.shared::cluster.u32 [%r2+12], %r24;\n"
                     "st.shared::cluster.u32 [tile+16], %r26; st.u32 [%rd6+-12], %r27;\n"
                     "st.u32 [tile+24], %r28; st.u32 [%rd7], %r29;\nAFTER:\n"),
      4, {out.address(), 0});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const uint32_t want[] = {rank, rank, 0, rank, 1, 0, 1, tile_word(7), 500 + (rank ^ 1)};
    for (uint32_t i = 0; i < std::size(want); ++i) EXPECT_EQ(out[64 * rank + i], want[i]) << i;
  }
}

// .shared and .shared::cta are the block's own memory, never a peer's. An address without a rank is
// one of block 0.
TEST(ConformanceClusterTest, AddressesOfAPeerInInstructionsOnTheOwnBlockAreFaults) {
  for (const char* use : {"ld.shared.u32 %r23, [%r22];", "st.shared::cta.u32 [%r22], %r1;",
                          "mbarrier.arrive.shared.b64 _, [%r22];", "ld.shared.u32 %r23, [%r21];"}) {
    BulkDevice device(kBulkModes[0]);
    const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(2 * 64));
    const Status status =
        device.run_cluster(cluster_kernel("setp.eq.u32 %p4, %r20, 1; and.b32 %r21, %r3, 0xffffff;\n"
                                          "mapa.shared::cluster.u32 %r22, %r3, 0;\n@%p4 " +
                                          std::string(use) + "\n"),
                           2, {out.address(), 0});
    EXPECT_NE(status.to_string().find("in block 0 of the cluster, but the instruction is on block "
                                      "1's own shared memory"),
              std::string::npos)
        << use << status.to_string();
  }
}

// As late as allowed: the copy has read the tile once .read has waited, not before.
TEST(ConformanceBulkReduceTest, WaitingForReadsLetsTheSourceChange) {
  BulkDevice device(kBulkModes[0]);
  const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(64));
  const Status status =
      device.run(store_kernel("cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 256;\n"
                              "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;\n"
                              "st.shared.u32 [%r2+8], 7;",
                              256),
                 {}, {}, {out.address(), 0});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], tile_word(i)) << i;
}

struct Reduction {
  const char* name;  // with its type
  uint32_t (*apply)(uint32_t old, uint32_t b);
};
uint32_t least_signed(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a) < static_cast<int32_t>(b) ? a : b;
}
const Reduction kReductions[] = {
    {"min.u32", [](uint32_t a, uint32_t b) { return std::min(a, b); }},
    {"max.u32", [](uint32_t a, uint32_t b) { return std::max(a, b); }},
    {"min.s32", least_signed},
    {"max.s32", [](uint32_t a, uint32_t b) { return least_signed(a, b) == a ? b : a; }},
    {"inc.u32", [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }},
    {"dec.u32", [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }},
    {"and.b32", [](uint32_t a, uint32_t b) { return a & b; }},
    {"or.b32", [](uint32_t a, uint32_t b) { return a | b; }},
    {"xor.b32", [](uint32_t a, uint32_t b) { return a ^ b; }},
};

TEST(ConformanceBulkReduceTest, IntoGlobalMemory) {
  for (const Reduction& r : kReductions) {
    BulkDevice device(kBulkModes[0]);
    std::vector<uint32_t> old(64);
    for (uint32_t i = 0; i < 64; ++i) old[i] = tile_word(i * 3) ^ (i % 2 << 31);
    const Buffer<uint32_t> out(*device.device, old);
    const Status status =
        device.run(store_kernel(fmt::format("cp.reduce.async.bulk.global.shared::cta.bulk_group.{} "
                                            "[%rd2], [%r2], 256;",
                                            r.name),
                                256),
                   {}, {}, {out.address(), 0});
    ASSERT_TRUE(status.ok()) << r.name << status.to_string();
    for (uint32_t i = 0; i < 64; ++i) {
      ASSERT_EQ(out[i], r.apply(old[i], tile_word(i))) << r.name << " " << i;
    }
  }
}

TEST(ConformanceBulkReduceTest, IntoThePeersSharedMemory) {
  for (const Reduction& r : kReductions) {
    BulkDevice device(kBulkModes[0]);
    const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(2 * 64));
    const std::string text = cluster_kernel(
        "setp.eq.u32 %p3, %r20, 1;\n@%p3 setp.eq.s32 %p3, %r1, 0;\n"
        "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;\n"
        "setp.eq.u32 %p4, %r20, 0;\n@%p4 setp.eq.s32 %p4, %r1, 0;\n"
        "mapa.shared::cluster.u32 %r21, %r2, 1;\nmapa.shared::cluster.u32 %r22, %r3, 1;\n"
        "@%p4 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes." +
        std::string(r.name) +
        " [%r21+64], [%r2], 128, [%r22];\nsetp.eq.u32 %p5, %r20, 0;\n@%p5 bra AFTER;\n" +
        wait_for_barrier() + "AFTER:\n");
    const Status status = device.run_cluster(text, 2, {out.address(), 0});
    ASSERT_TRUE(status.ok()) << r.name << status.to_string();
    for (uint32_t i = 0; i < 64; ++i) {
      const bool written = i >= 16 && i < 48;
      ASSERT_EQ(out[64 + i], written ? r.apply(tile_word(i), tile_word(i - 16)) : tile_word(i))
          << r.name << " " << i;
    }
  }
}

void expect_end(const std::string& instruction, const char* name) {
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    const Buffer<uint32_t> out(*device, {1});
    const Status status = run(*device,
                              kernel_text(".param .u64 p0",
                                          ".reg .b64 %p; ld.param.u64 %p, [p0];\n"
                                          "st.global.u32 [%p], 2; " +
                                              instruction + "\nst.global.u32 [%p], 3;"),
                              {1, 1}, {out.address()});
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.to_string().find(name), std::string::npos) << status.to_string();
    EXPECT_EQ(out[0], 2u);
  }
}
TEST(ConformanceTrapTest, EndsTheLaunchAndNamesItself) {
  expect_end("trap;", ": trap");
  expect_end("brkpt;", "breakpoint");
}

}  // namespace
}  // namespace lssar::test
