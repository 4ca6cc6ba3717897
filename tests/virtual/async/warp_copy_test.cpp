// Bulk copies that several lanes execute at once: how often they are made is what ptxas (13.0.88,
// sm_90a) makes of them, as nvdisasm shows. A store becomes one UBLKCP.G.S or UTMASTG for all lanes
// with the same operands: where these may differ, R2UR picks a lane's and BRA.U.ANY repeats it for
// the lanes that have others. UBLKCP.S.G, UTMALDG, UBLKRED, UTMAREDG and UBLKCP.S.S stand in a loop
// over ELECT, which leaves out one lane at a time.
#include <gtest/gtest.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

struct Outcome {
  std::vector<uint32_t> out;
  LaunchCounters counters;
  std::string reports;
};

// %o: 64 words of `out`, each 5; %s: shared memory with 1 in its first 64 words and a barrier for
// one arrival at %m; %l: the lane; %g: lane 0.
Outcome run_warp(const std::string& body, uint64_t seed) {
  VirtualOptions options;
  options.target = *target_from_name("sm_90a");
  options.strict = true;
  options.count = true;
  options.schedule_seed = seed;
  options.num_threads = 1;
  const auto device = make_virtual_device(options);
  Buffer<uint32_t> out(*device, std::vector<uint32_t>(64, 5));
  const std::string text = kernel_text(
      ".param .u64 o",
      ".reg .b64 %o, %a; .reg .b32 %s, %m, %l, %r<4>; .reg .pred %g, %p;\n"
      ".shared .align 128 .b8 data[1024];\n"
      "ld.param.u64 %o, [o]; mov.u32 %s, data; add.u32 %m, %s, 512; mov.u32 %l, %laneid;\n"
      "setp.eq.u32 %g, %l, 0; mad.lo.u32 %r0, %l, 8, %s; st.shared.v2.u32 [%r0], {1, 1};\n"
      "@%g mbarrier.init.shared::cta.b64 [%m], 1;\n"
      "fence.mbarrier_init.release.cluster; fence.proxy.async; bar.warp.sync -1;\n" +
          body + "\nret;",
      "", "sm_90");
  const Status status = run(*device, text, {1, 32}, {out.address()});
  Outcome outcome;
  for (size_t i = 0; i < 64; ++i) outcome.out.push_back(out[i]);
  outcome.counters = device->counters();
  outcome.reports = status.ok() ? "" : std::string(status.message());
  return outcome;
}

constexpr char kWait[] = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;";

class WarpCopyTest : public testing::TestWithParam<uint64_t> {};

TEST_P(WarpCopyTest, AStoreIsMadeOnceForLanesWithTheSameOperands) {
  const Outcome outcome = run_warp(
      std::string("cp.async.bulk.global.shared::cta.bulk_group [%o], [%s], 256;\n") + kWait,
      GetParam());
  EXPECT_EQ(outcome.reports, "");
  EXPECT_EQ(outcome.out, std::vector<uint32_t>(64, 1));
  EXPECT_EQ(outcome.counters.tma_store_bytes, 256u);
}

TEST_P(WarpCopyTest, AndOnceForEachOfTheOthers) {
  const Outcome outcome =
      run_warp(std::string("and.b32 %r1, %l, 1; mul.wide.u32 %a, %r1, 128; add.s64 %a, %a, %o;\n"
                           "cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 128;\n") +
                   kWait,
               GetParam());
  EXPECT_EQ(outcome.reports, "");
  EXPECT_EQ(outcome.out, std::vector<uint32_t>(64, 1));
  EXPECT_EQ(outcome.counters.tma_store_bytes, 256u);
}

TEST_P(WarpCopyTest, LanesThatStoreDifferentThingsToOnePlaceRace) {
  const Outcome outcome =
      run_warp(std::string("and.b32 %r1, %l, 1; mad.lo.u32 %r1, %r1, 128, %s;\n"
                           "cp.async.bulk.global.shared::cta.bulk_group [%o], [%r1], 128;\n") +
                   kWait,
               GetParam());
  EXPECT_NE(outcome.reports.find("race"), std::string::npos) << outcome.reports;
}

TEST_P(WarpCopyTest, AReductionIsMadeByEveryLane) {
  const Outcome outcome = run_warp(
      std::string("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%o], [%s], 256;\n") +
          kWait,
      GetParam());
  EXPECT_EQ(outcome.reports, "");
  EXPECT_EQ(outcome.out, std::vector<uint32_t>(64, 5 + 32));
  EXPECT_EQ(outcome.counters.tma_reduce_bytes, 32u * 256);
}

TEST_P(WarpCopyTest, ALoadArrivesForEveryLane) {
  const Outcome outcome = run_warp(
      "@%g mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 512;\n"
      "mad.lo.u32 %r1, %l, 16, %s; bar.warp.sync -1;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%o], 16, [%m];\n"
      "W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%m], 0; @!%p bra W;\n"
      "ld.shared.u32 %r2, [%r1]; mul.wide.u32 %a, %l, 4; add.s64 %a, %a, %o;\n"
      "st.global.u32 [%a+128], %r2;",
      GetParam());
  EXPECT_EQ(outcome.reports, "");
  EXPECT_EQ(outcome.out, std::vector<uint32_t>(64, 5));
  EXPECT_EQ(outcome.counters.tma_load_bytes, 512u);
}

// Lane 0 alone commits an earlier group: the lanes count their groups apart.
TEST_P(WarpCopyTest, EveryLaneMayWaitForIt) {
  const Outcome outcome = run_warp(
      "@%g cp.async.bulk.commit_group; @%g cp.async.bulk.commit_group;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%o], [%s], 256;\n"
      "cp.async.bulk.commit_group;\n"
      "setp.eq.u32 %p, %l, 5; @!%p bra END;\n"
      "cp.async.bulk.wait_group 0; ld.global.u32 %r1, [%o+8]; add.u32 %r1, %r1, 1;\n"
      "st.global.u32 [%o+12], %r1; cp.async.bulk.commit_group;\nEND:",
      GetParam());
  EXPECT_EQ(outcome.reports, "");
  std::vector<uint32_t> expected(64, 1);
  expected[3] = 2;
  EXPECT_EQ(outcome.out, expected);
}

INSTANTIATE_TEST_SUITE_P(Seeds, WarpCopyTest, testing::Range(uint64_t{0}, uint64_t{6}));

}  // namespace
}  // namespace lssar::test
