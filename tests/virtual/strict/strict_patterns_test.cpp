// Patterns of real kernels that the strict mode must pass, and bugs that look like them: ten seeds
// each, one block or a cluster.
#include <gtest/gtest.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// %o: out; %i: in; %t: thread; %s: shared memory; %g: the first thread.
std::string kernel(const std::string& body) {
  return kernel_text(".param .u64 o, .param .u64 i",
                     ".reg .b64 %o, %i, %l<4>; .reg .b32 %t, %s, %r<8>; .reg .pred %g, %p<4>;\n"
                     "ld.param.u64 %o, [o]; ld.param.u64 %i, [i]; mov.u32 %t, %tid.x;\n"
                     "mov.u32 %s, shared; setp.eq.u32 %g, %t, 0;\n" +
                         body + "\nret;",
                     ".extern .shared .align 128 .b8 shared[];\n", "sm_90");
}

struct Shape {
  uint32_t blocks = 1;
  uint32_t threads = 64;
};

// The reports with seed `seed`; "" if there are none.
std::string reports(const std::string& body, Shape shape, uint64_t seed) {
  VirtualOptions options;
  options.target = *target_from_name("sm_90a");
  options.strict = true;
  options.schedule_seed = seed;
  options.num_threads = 1;
  options.max_block_instructions = 1 << 20;
  const std::shared_ptr<Device> device = make_virtual_device(options);
  constexpr size_t kBytes = 8192;
  const DevicePtr out = *device->allocate(kBytes);
  const DevicePtr in = *device->allocate(kBytes);
  if (!device->fill(in, 1, kBytes).ok()) return "fill failed";
  Image image;
  image.bytes = kernel(body);
  const auto module = device->load(image);
  if (!module.ok()) return module.status().to_string();
  const DeviceFunction* function = *(*module)->function("k");
  LaunchConfig config;
  config.grid[0] = config.cluster[0] = shape.blocks;
  config.block[0] = shape.threads;
  config.shared_bytes = 4096;
  const uint64_t args[] = {out, in};
  const Status status = device->launch(*function, config, args, sizeof args, nullptr);
  return status.ok() ? "" : std::string(status.message());
}

void expect_none(const std::string& body, Shape shape = {}) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_EQ(reports(body, shape, seed), "") << "seed " << seed;
  }
}

void expect_report(const char* what, const std::string& body, Shape shape = {}) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::string found = reports(body, shape, seed);
    EXPECT_NE(found.find(what), std::string::npos) << "seed " << seed << ": " << found;
  }
}

void expect_race(const std::string& body, Shape shape = {}) { expect_report("race", body, shape); }

// Thread 0 of block 0 writes a number and then a flag. Thread 0 of block 1 waits for the flag and
// reads the number.
std::string message_through_global_memory(const std::string& store, const std::string& load) {
  return "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0;\n"
         "@!%g bra END; @%p1 bra READ;\n"
         "st.global.u32 [%i], 5; " +
         store +
         ".u32 [%i+128], 7; bra END;\n"
         "READ: " +
         load +
         ".u32 %r2, [%i+128]; setp.ne.u32 %p2, %r2, 7; @%p2 bra READ;\n"
         "ld.global.u32 %r3, [%i]; st.global.u32 [%o], %r3;\nEND:\n";
}

TEST(StrictPatterns, ReleaseAndAcquireOrderBlocksInEitherSpelling) {
  for (const char* store : {"st.release.gpu.global", "st.global.release.gpu"}) {
    for (const char* load : {"ld.acquire.gpu.global", "ld.global.acquire.gpu"}) {
      expect_none(message_through_global_memory(store, load), {2, 32});
    }
  }
}

TEST(StrictPatterns, AFlagThatIsOnlyRelaxedOrdersNothing) {
  expect_race(message_through_global_memory("st.global.relaxed.gpu", "ld.global.acquire.gpu"),
              {2, 32});
  expect_race(message_through_global_memory("st.global.release.gpu", "ld.global.relaxed.gpu"),
              {2, 32});
}

// The same with fences around a relaxed flag.
TEST(StrictPatterns, FencesOfEitherNameOrderBlocks) {
  for (const char* fence : {"fence.acq_rel.gpu;", "fence.sc.gpu;", "membar.gl;"}) {
    std::string text =
        message_through_global_memory("st.global.relaxed.gpu", "ld.global.relaxed.gpu");
    text.insert(text.find("st.global.relaxed"), fence);
    text.insert(text.find("ld.global.u32 %r3"), fence);
    expect_none(text, {2, 32});
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
      {.blocks = 2});
}

// Each block completes the other's transactions, and ends when its own are complete. `operation` is
// the one that counts.
std::string bytes_of_the_other_block(const std::string& operation, const std::string& wait) {
  return "@%g mbarrier.init.shared::cta.b64 [%s], 1; @%g fence.mbarrier_init.release.cluster;\n"
         "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;\n"
         "mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1;\n"
         "mapa.shared::cluster.u32 %r5, %s, %r4;\n"
         "@%g mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], 64;\n" +
         operation + wait;
}
constexpr const char* kCompleteTx =
    "@%g mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [%r5], 64;\n";
constexpr const char* kWaitForPhase =
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%s], 0; @!%p2 bra W;\n";

TEST(StrictPatterns, SeeingAPhaseOrdersItsOperations) {
  expect_none(bytes_of_the_other_block(kCompleteTx, kWaitForPhase), {.blocks = 2, .threads = 32});
}

TEST(StrictPatterns, AnOperationOnABarrierOfABlockThatDoesNotWaitMayComeTooLate) {
  expect_report("may be in use", bytes_of_the_other_block(kCompleteTx, ""),
                {.blocks = 2, .threads = 32});
}

TEST(StrictPatterns, ACompleteTxHandsOnNothingElse) {
  const std::string store = "@%g st.shared::cluster.u32 [%r5+16], 5;\n";
  expect_report("may be in use", bytes_of_the_other_block(store + kCompleteTx, kWaitForPhase),
                {.blocks = 2, .threads = 32});
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

// A lane's second turn of a loop is another instruction: the word that the lane wrote in the first
// turn is not its neighbour's.
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

// Every thread of a cluster of two stores 16 bytes in bulk, in two groups, and then reuses the
// memory.
std::string bulk_sums(const std::string& wait) {
  return "mov.u32 %r0, %cluster_ctarank; shl.b32 %r1, %t, 4; add.u32 %r2, %s, %r1;\n"
         "mad.lo.u32 %r3, %r0, 4096, %r1; cvt.u64.u32 %l0, %r3; add.u64 %l1, %o, %l0;\n"
         "setp.eq.u32 %p1, %t, 5; st.shared.v4.u32 [%r2], {%t, %t, %t, %t};\n"
         "fence.proxy.async.shared::cta;\n"
         "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%l1], [%r2], 16;\n"
         "cp.async.bulk.commit_group;\n"
         "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%l1], [%r2], 16;\n"
         "cp.async.bulk.commit_group;\n" +
         wait +
         "mov.u32 %r4, 0; st.shared.v4.u32 [%r2], {%r4, %r4, %r4, %r4};\n"
         "cp.async.bulk.wait_group 0;";
}
constexpr Shape kTwoOf256 = {.blocks = 2, .threads = 256};

TEST(StrictPatterns, EveryThreadOfAClusterAddsInBulk) {
  expect_none(bulk_sums("cp.async.bulk.wait_group 1; cp.async.bulk.wait_group.read 0;\n"),
              kTwoOf256);
}

TEST(StrictPatterns, AThreadThatDoesNotWaitForItsBulkSumRaces) {
  expect_race(bulk_sums("@!%p1 cp.async.bulk.wait_group.read 0;\n"), kTwoOf256);
}

TEST(StrictPatterns, AThreadThatWaitsForTheFirstOfItsBulkSumsRaces) {
  expect_race(bulk_sums("@%p1 cp.async.bulk.wait_group.read 1;\n"
                        "@!%p1 cp.async.bulk.wait_group.read 0;\n"),
              kTwoOf256);
}

TEST(StrictPatterns, BulkStoresOfTwoThreadsToOnePlaceRace) {
  expect_race(
      "setp.ge.u32 %p1, %t, 8; @%p1 bra END; shl.b32 %r1, %t, 4; add.u32 %r2, %s, %r1;\n"
      "st.shared.v4.u32 [%r2], {%t, %t, %t, %t}; fence.proxy.async.shared::cta;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%o], [%r2], 16;\n"
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
      "END:");
}

// A thousand times: a barrier, a load that completes on it, the end of the barrier.
std::string barriers_in_a_loop(const std::string& wait, const std::string& end) {
  return "@!%g bra END; mov.u32 %r0, 0; add.u32 %r1, %s, 1024;\n"
         "LOOP: mbarrier.init.shared::cta.b64 [%s], 1; fence.mbarrier_init.release.cluster;\n"
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], 16;\n"
         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%i], 16, "
         "[%s];\n" +
         wait + "ld.shared.u32 %r2, [%r1]; fence.proxy.async.shared::cta;\n" + end +
         "mbarrier.inval.shared::cta.b64 [%s];\n"
         "add.u32 %r0, %r0, 1; setp.lt.u32 %p3, %r0, 1000; @%p3 bra LOOP;\n"
         "st.global.u32 [%o], %r2;\n"
         "END:";
}
constexpr const char* kWaitForBarrier =
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%s], 0; @!%p2 bra WAIT;\n";

TEST(StrictPatterns, BarriersMayBeMadeAndEndedInALoop) {
  expect_none(barriers_in_a_loop(kWaitForBarrier, ""));
}

TEST(StrictPatterns, ALaterBarrierAtAPlaceIsWaitedForLikeTheFirst) {
  expect_race(barriers_in_a_loop("", kWaitForBarrier));
}

TEST(StrictPatterns, AStoreOverALiveBarrierIsReported) {
  expect_report("where there is an mbarrier",
                "@%g mbarrier.init.shared::cta.b64 [%s], 1; bar.sync 0;\n"
                "setp.eq.u32 %p1, %t, 7; @%p1 st.shared.u32 [%s+4], %t;");
}

TEST(StrictPatterns, ABulkCopyOverALiveBarrierIsReported) {
  expect_report("where there is an mbarrier",
                "@!%g bra END; add.u32 %r1, %s, 16;\n"
                "mbarrier.init.shared::cta.b64 [%s], 1; mbarrier.init.shared::cta.b64 [%r1], 1;\n"
                "fence.mbarrier_init.release.cluster;\n"
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], 32;\n"
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%i], "
                "32, [%s];\n" +
                    std::string(kWaitForBarrier) + "END:");
}

TEST(StrictPatterns, AStoreBesideABarrierOrAfterItsEndIsNot) {
  expect_none(
      "@%g mbarrier.init.shared::cta.b64 [%s], 1; @%g mbarrier.init.shared::cta.b64 [%s+24], 1;\n"
      "bar.sync 0; setp.eq.u32 %p1, %t, 7; @%p1 st.shared.v2.u32 [%s+8], {%t, %t};\n"
      "@%g mbarrier.inval.shared::cta.b64 [%s]; bar.sync 0; @%p1 st.shared.u32 [%s+4], %t;");
}

// Only the first 8 lanes of a warp write %r0.
const std::string kWrittenByEight = "setp.lt.u32 %p1, %t, 8; @%p1 mov.u32 %r0, 7;\n";

TEST(StrictPatterns, AStoreOfARegisterThatWasNeverWrittenIsReported) {
  expect_report("a value that nobody wrote", kWrittenByEight +
                                                 "shl.b32 %r1, %t, 2; cvt.u64.u32 %l0, %r1;\n"
                                                 "add.u64 %l1, %o, %l0; st.global.u32 [%l1], %r0;");
}

TEST(StrictPatterns, ABranchOnARegisterThatWasNeverWrittenIsReported) {
  expect_report("the branch depends on",
                kWrittenByEight + "setp.eq.u32 %p2, %r0, 7; @%p2 bra END; bar.sync 0;\nEND:");
}

TEST(StrictPatterns, AtomicsOfAValueThatWasNeverWrittenAreReported) {
  for (const char* atomic : {"red.global.add.u32 [%o], %r0;", "atom.global.add.u32 %r5, [%o], %r0;",
                             "red.global.add.v2.f32 [%o], {%t, %r0};",
                             "atom.global.add.noftz.v2.bf16x2 {%r5, %r6}, [%o], {%t, %r0};"}) {
    expect_report("stores to global memory a value that nobody wrote",
                  std::string("setp.lt.u32 %p1, %t, 8; @%p1 mov.u32 %r0, 5;\n") + atomic);
  }
}

TEST(StrictPatterns, AnAddressThatWasNeverWrittenIsReported) {
  expect_report("an address depends on",
                "setp.lt.u32 %p1, %t, 8; @%p1 mov.u64 %l0, %o; st.global.u32 [%l0], %t;");
}

TEST(StrictPatterns, LanesThatWroteARegisterMayUseItAndPassItOn) {
  expect_none(kWrittenByEight +
              "add.u32 %r1, %r0, 1; shfl.sync.bfly.b32 %r2, %r1, 4, 31, -1;\n"
              "selp.b32 %r3, %r2, 0, %p1; and.pred %p2, %p1, %p1;\n"
              "setp.eq.u32 %p3, %r0, 7; and.pred %p2, %p3, %p1; @!%p2 bra END;\n"
              "shl.b32 %r4, %t, 2; cvt.u64.u32 %l0, %r4; add.u64 %l1, %o, %l0;\n"
              "@%p1 st.global.u32 [%l1], %r3;\n"
              "END:");
}

TEST(StrictPatterns, WhatAShuffleTakesFromALaneThatNeverWroteItIsReported) {
  expect_report("a value that nobody wrote",
                kWrittenByEight +
                    "shfl.sync.bfly.b32 %r2, %r0, 8, 31, -1;\n"
                    "shl.b32 %r4, %t, 2; cvt.u64.u32 %l0, %r4;\n"
                    "add.u64 %l1, %o, %l0; @%p1 st.global.u32 [%l1], %r2;");
}

TEST(StrictPatterns, TheLargestClusterIsFollowed) {
  EXPECT_EQ(reports("bar.sync 0;", {.blocks = 16, .threads = 1024}, 0), "");
}

TEST(StrictPatterns, ClustersBeyondWhatIsFollowedAreRefused) {
  const std::string found = reports(
      "setp.ge.u32 %p1, %t, 200; @%p1 bra END; shl.b32 %r0, %t, 3; add.u32 %r1, %s, %r0;\n"
      "mbarrier.init.shared::cta.b64 [%r1], 1;\n"
      "END:",
      {.blocks = 16, .threads = 1024}, 0);
  EXPECT_NE(found.find("follows at most 4096"), std::string::npos) << found;
}

}  // namespace
}  // namespace lssar::test
