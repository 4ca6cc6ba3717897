// Patterns of real kernels that the strict mode must pass, and bugs that look like them: ten seeds
// each, two blocks, which are a cluster where the kernel uses one.
#include <gtest/gtest.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// %o: out; %i: in; %t: thread; %s: shared memory; %g: the first thread. 64 threads.
std::string kernel(const std::string& body) {
  return kernel_text(".param .u64 o, .param .u64 i",
                     ".reg .b64 %o, %i, %l<4>; .reg .b32 %t, %s, %r<8>; .reg .pred %g, %p<4>;\n"
                     "ld.param.u64 %o, [o]; ld.param.u64 %i, [i]; mov.u32 %t, %tid.x;\n"
                     "mov.u32 %s, shared; setp.eq.u32 %g, %t, 0;\n" +
                         body + "\nret;",
                     ".extern .shared .align 128 .b8 shared[];\n", "sm_90");
}

// The reports of seed `seed`, "" where there are none.
std::string reports(const std::string& body, uint32_t blocks, uint64_t seed) {
  VirtualOptions options;
  options.target = *target_from_name("sm_90a");
  options.strict = true;
  options.schedule_seed = seed;
  options.num_threads = 1;
  options.max_block_instructions = 1 << 20;
  const std::shared_ptr<Device> device = make_virtual_device(options);
  constexpr size_t kBytes = 4096;
  const DevicePtr out = *device->allocate(kBytes);
  const DevicePtr in = *device->allocate(kBytes);
  if (!device->fill(in, 1, kBytes).ok()) return "fill failed";
  Image image;
  image.bytes = kernel(body);
  const auto module = device->load(image);
  if (!module.ok()) return module.status().to_string();
  const DeviceFunction* function = *(*module)->function("k");
  LaunchConfig config;
  config.grid[0] = config.cluster[0] = blocks;
  config.block[0] = 64;
  config.shared_bytes = 4096;
  const uint64_t args[] = {out, in};
  const Status status = device->launch(*function, config, args, sizeof args, nullptr);
  return status.ok() ? "" : std::string(status.message());
}

void expect_none(const std::string& body, uint32_t blocks = 1) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_EQ(reports(body, blocks, seed), "") << "seed " << seed;
  }
}

void expect_race(const std::string& body) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::string found = reports(body, 1, seed);
    EXPECT_NE(found.find("race"), std::string::npos) << "seed " << seed << ": " << found;
  }
}

TEST(StrictPatterns, AFencedBarrierIsSeenThroughARelaxedArrivalOfTheCluster) {
  expect_none(
      "@%g mbarrier.init.shared::cta.b64 [%s], 1;\n"
      "@%g fence.mbarrier_init.release.cluster;\n"
      "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;\n"
      "mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1;\n"
      "mapa.shared::cluster.u32 %r5, %s, %r4;\n"
      "@%g mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];\n"
      "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%s], 0; @!%p2 bra W;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
      2);
}

TEST(StrictPatterns, AReleaseIsAcquiredThroughSharedMemory) {
  expect_none(
      "mov.u32 %r0, 0; @%g st.shared.u32 [%s], %r0; bar.sync 0;\n"
      "@%g bra GIVE; setp.ne.u32 %p1, %t, 32; @%p1 bra DONE;\n"
      "SPIN: ld.acquire.cta.shared.u32 %r1, [%s]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN;\n"
      "ld.shared.u32 %r2, [%s+4]; st.global.u32 [%o], %r2; bra DONE;\n"
      "GIVE: mov.u32 %r3, 42; st.shared.u32 [%s+4], %r3; mov.u32 %r4, 1;\n"
      "st.release.cta.shared.u32 [%s], %r4;\n"
      "DONE:");
}

TEST(StrictPatterns, ARelaxedFlagReleasesNothing) {
  expect_race(
      "mov.u32 %r0, 0; @%g st.shared.u32 [%s], %r0; bar.sync 0;\n"
      "@%g bra GIVE; setp.ne.u32 %p1, %t, 32; @%p1 bra DONE;\n"
      "SPIN: ld.relaxed.cta.shared.u32 %r1, [%s]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN;\n"
      "ld.shared.u32 %r2, [%s+4]; st.global.u32 [%o], %r2; bra DONE;\n"
      "GIVE: mov.u32 %r3, 42; st.shared.u32 [%s+4], %r3; mov.u32 %r4, 1;\n"
      "st.relaxed.cta.shared.u32 [%s], %r4;\n"
      "DONE:");
}

TEST(StrictPatterns, ThreadsThatHaveExitedAreNotWaitedFor) {
  expect_none(
      "setp.ge.u32 %p1, %t, 50; @%p1 bra END;\n"
      "shl.b32 %r0, %t, 2; add.u32 %r1, %s, %r0; st.shared.u32 [%r1], %t;\n"
      "bar.sync 0; ld.shared.u32 %r2, [%s+4];\n"
      "cvt.u64.u32 %l0, %r0; add.u64 %l1, %o, %l0; st.global.u32 [%l1], %r2;\n"
      "END:");
}

TEST(StrictPatterns, LanesMayWriteOneWordByOneInstruction) {
  expect_none(
      "setp.lt.u32 %p1, %t, 32; @%p1 st.shared.u32 [%s], %t; bar.sync 0;\n"
      "ld.shared.u32 %r0, [%s]; @%g st.global.u32 [%o], %r0;");
}

TEST(StrictPatterns, LanesThatWriteOneWordByTwoInstructionsRace) {
  expect_race(
      "setp.eq.u32 %p1, %t, 1; @%p1 st.shared.u32 [%s], %t; @%g st.shared.u32 [%s], %t;\n"
      "bar.sync 0; ld.shared.u32 %r0, [%s]; @%g st.global.u32 [%o], %r0;");
}

TEST(StrictPatterns, LanesMayWriteOneGlobalWordByOneInstruction) {
  expect_none("setp.lt.u32 %p1, %t, 32; @%p1 st.global.u32 [%o], %t;");
}

TEST(StrictPatterns, LanesThatWriteOneGlobalWordByTwoInstructionsRace) {
  expect_race("setp.eq.u32 %p1, %t, 1; @%p1 st.global.u32 [%o], %t; @%g st.global.u32 [%o], %t;");
}

TEST(StrictPatterns, WarpsThatWriteOneGlobalWordByOneInstructionRace) {
  expect_race("st.global.u32 [%o], %t;");
}

// A lane's second turn of a loop is another instruction: the word it wrote in the first is not its
// neighbour's.
TEST(StrictPatterns, LanesThatWriteEachOthersWordsInALoopRace) {
  expect_race(
      "setp.ge.u32 %p1, %t, 32; @%p1 bra END; mov.u32 %r0, 0;\n"
      "LOOP: add.u32 %r1, %t, %r0; shl.b32 %r1, %r1, 2; cvt.u64.u32 %l0, %r1;\n"
      "add.u64 %l1, %o, %l0; st.global.u32 [%l1], %t;\n"
      "add.u32 %r0, %r0, 1; setp.lt.u32 %p2, %r0, 2; @%p2 bra LOOP;\n"
      "END:");
}

// Loads of one phase are not ordered among themselves.
TEST(StrictPatterns, TwoLoadsOfOnePhaseToOnePlaceRace) {
  expect_race(
      "@%g mbarrier.init.shared::cta.b64 [%s], 1; @%g fence.mbarrier_init.release.cluster;\n"
      "bar.sync 0; @!%g bra WAIT; add.u32 %r1, %s, 1024;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], 1024;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%i], 512, [%s];\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%i+512], 512, "
      "[%s];\n"
      "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%s], 0; @!%p2 bra WAIT;");
}

TEST(StrictPatterns, ClustersBeyondWhatIsFollowedAreRefused) {
  VirtualOptions options;
  options.target = *target_from_name("sm_90a");
  options.strict = true;
  const std::shared_ptr<Device> device = make_virtual_device(options);
  Image image;
  image.bytes = kernel("bar.sync 0;");
  const auto module = device->load(image);
  ASSERT_TRUE(module.ok());
  LaunchConfig config;
  config.grid[0] = config.cluster[0] = 16;
  config.block[0] = 1024;
  const uint64_t args[] = {0, 0};
  const Status status =
      device->launch(**(*module)->function("k"), config, args, sizeof args, nullptr);
  EXPECT_NE(status.message().find("follows at most 512"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace lssar::test
