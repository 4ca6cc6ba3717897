// The strict mode's reports on wgmma. Every report has a kernel with the bug and, in most cases, a
// right one that is as similar as possible.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/virtual/async/wgmma_fixture.h"

namespace lssar::test::wgmma {
namespace {

// Two groups in flight, each with its own accumulators: waiting for the first leaves the second.
std::string two_groups(const Product& p, const char* first_wait) {
  std::string text = prologue(p);
  text += kFence + steps_text(p) + kCommit;
  text += steps_text(p, "%e") + kCommit;
  text += first_wait;
  for (uint32_t i = 0; i < p.num_sums(); ++i) text += fmt::format("mov.b32 %a{0}, %d{0};\n", i);
  text += kWait;
  for (uint32_t i = 0; i < p.num_sums(); ++i) {
    text += fmt::format("max.f32 %d{0}, %a{0}, %e{0};\n", i);
  }
  return text + epilogue(p);
}
TEST(WgmmaReports, WaitsForTheFirstOfTwoGroups) {
  const Product p = {.n = 64, .steps = 2};
  check_text(p, two_groups(p, "wgmma.wait_group.sync.aligned 1;\n"));
}
TEST(WgmmaReports, AWaitThatLeavesTheGroupInFlightIsReported) {
  const Product p = {.n = 64, .steps = 2};
  expect_report(p, two_groups(p, "wgmma.wait_group.sync.aligned 2;\n"),
                {"operation in flight", "mov.b32 %a0, %d0", "wgmma.mma_async"});
}

TEST(WgmmaReports, MissingWaitIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kWait, ""),
                {"operation in flight", "st.global.u32", "reads a register of", "wgmma.mma_async",
                 "the warp ends without having waited"});
}
TEST(WgmmaReports, MissingCommitIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kCommit, ""),
                {"operation in flight", "st.global.u32", "wgmma.mma_async"});
}
TEST(WgmmaReports, MissingFenceIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kFence, ""), {"no wgmma.fence", "wgmma.mma_async"});
}
TEST(WgmmaReports, AccumulatorWrittenAfterTheFenceIsReported) {
  const Product p = {.accumulate = true};
  expect_report(p, replaced(product_text(p), kFence, kFence + "mov.b32 %d3, 0;\n"),
                {"mov.b32 %d3, 0", "without a wgmma.fence", "an accumulator"});
}
TEST(WgmmaReports, RegisterOfAWrittenAfterTheFenceIsReported) {
  const Product p = {.a = Layout::kRegisters};
  expect_report(p, replaced(product_text(p), kFence, kFence + "add.u32 %a5, %a5, 0;\n"),
                {"add.u32 %a5, %a5, 0", "without a wgmma.fence", "a register of A"});
}
// A product, a read of its sums, and the same again, with or without a fence in between.
std::string read_between(const Product& p, const std::string& fence) {
  std::string text = prologue(p) + kFence + steps_text(p) + kCommit + kWait;
  text += "mov.b32 %x, %d3;\n" + fence;
  return text + steps_text(p) + kCommit + kWait + epilogue(p);
}
TEST(WgmmaReports, AccumulatorsMayBeReadBeforeAFence) {
  check_text(Product(), read_between(Product(), kFence));
}
TEST(WgmmaReports, AccumulatorReadAfterTheFenceIsReported) {
  expect_report(Product(), read_between(Product(), ""),
                {"mov.b32 %x, %d3", "without a wgmma.fence", "an accumulator was read"});
}
TEST(WgmmaReports, AccumulatorWrittenInFlightIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kCommit, kCommit + "mov.b32 %d3, 0;\n"),
                {"operation in flight", "mov.b32 %d3, 0", "writes a register of"});
}
TEST(WgmmaReports, RegisterOfAWrittenInFlightIsReported) {
  const Product p = {.a = Layout::kRegisters};
  expect_report(p, replaced(product_text(p), kCommit, kCommit + "mov.b32 %a3, 0;\n"),
                {"operation in flight", "mov.b32 %a3, 0", "writes a register of"});
}
TEST(WgmmaReports, RegisterOfAReadInFlightIsReported) {
  const Product p = {.a = Layout::kRegisters};
  expect_report(p, replaced(product_text(p), kCommit, kCommit + "mov.b32 %x, %a3;\n"),
                {"operation in flight", "mov.b32 %x, %a3", "reads a register of"});
}
TEST(WgmmaReports, OtherRegistersMayBeUsedInFlight) {
  const Product p = {.a = Layout::kRegisters};
  check_text(p,
             replaced(product_text(p), kCommit, kCommit + "mov.b32 %x, %t; add.u32 %x, %x, 1;\n"));
}
// One lane's fence covers what it has seen: its own writes, and others' that are ordered before it.
const std::string kFenceOfOneLane =
    "{ .reg .b32 %lane; .reg .pred %first; mov.u32 %lane, %laneid; setp.eq.u32 %first, %lane, 0;\n"
    "@%first fence.proxy.async.shared::cta; }\n";
TEST(WgmmaReports, AFenceOfOneLaneDoesNotReachTheOthersWrites) {
  const Product p;
  expect_report(p, replaced(product_text(p), kProxyFence, kFenceOfOneLane),
                {"missing fence.proxy.async", "wgmma.mma_async"});
}
TEST(WgmmaReports, AFenceOfOneLaneOfEachWarpReachesWhatABarrierOrdersBeforeIt) {
  const Product p;
  check_text(p, replaced(product_text(p), kProxyFence + kBarrier, kBarrier + kFenceOfOneLane));
}
TEST(WgmmaReports, AFenceOfOneWarpIsNoneOfTheOthers) {
  const Product p;
  const std::string one_warp = replaced(kFenceOfOneLane, "%laneid", "%tid.x");
  expect_report(p, replaced(product_text(p), kProxyFence + kBarrier, kBarrier + one_warp),
                {"missing fence.proxy.async", "wgmma.mma_async"});
}
TEST(WgmmaReports, AFenceOfOneThreadReachesAllThroughTwoBarriers) {
  const Product p;
  const std::string one_thread = replaced(kFenceOfOneLane, "%laneid", "%tid.x");
  check_text(p,
             replaced(product_text(p), kProxyFence + kBarrier, kBarrier + one_thread + kBarrier));
}

TEST(WgmmaReports, MissingProxyFenceIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kProxyFence, ""),
                {"missing fence.proxy.async", "st.shared.u32", "wgmma.mma_async"});
}
TEST(WgmmaReports, ProxyFenceAfterTheBarrierIsEnough) {
  const Product p;
  check_text(p, replaced(product_text(p), kProxyFence + kBarrier, kBarrier + kProxyFence));
}
TEST(WgmmaReports, MissingBarrierIsReported) {
  const Product p;
  expect_report(p, replaced(product_text(p), kBarrier, ""),
                {"race", "st.shared.u32", "wgmma.mma_async"});
}
TEST(WgmmaReports, OperandsOverwrittenInFlightAreReported) {
  const Product p;
  const std::string store = fmt::format("st.shared.u32 [{}], %t;\n", kPlaceOfB);
  expect_report(p, replaced(product_text(p), kCommit, kCommit + store),
                {"race", "st.shared.u32", "wgmma.mma_async"});
}
// Any warp's wait orders everything that the operation read.
TEST(WgmmaReports, OperandsMayBeOverwrittenAfterAWait) {
  const Product p;
  const std::string store =
      fmt::format("setp.eq.u32 %more, %t, 127; @%more st.shared.u32 [{}], %t;\n", kPlaceOfB);
  check_text(p, replaced(product_text(p), kWait, kWait + store));
}
TEST(WgmmaReports, UndefinedSharedMemoryIsReported) {
  const Product p;
  const std::string text =
      replaced(product_text(p), fmt::format("%s, {};", kSharedBytes), "%s, 36864;");
  expect_report(p, text, {"undefined value", "wgmma.mma_async", "nobody wrote"});
}
TEST(WgmmaReports, UndefinedRegisterOfAIsReportedWhereItMatters) {
  const Product p = {.a = Layout::kRegisters};
  const std::string load =
      fmt::format("ld.shared.u32 %a2, [{}];\nld.param.u64 %g, [p2]", kSharedBytes);
  expect_report(p, replaced(product_text(p), "ld.param.u64 %g, [p2]", load),
                {"undefined value", "st.global.u32", "ld.shared.u32 %a2"});
}

TEST(WgmmaReports, DescriptorsThatDifferFault) {
  const Product p;
  expect_report(
      p, replaced(product_text(p), "wgmma.mma_async", "add.u64 %da, %da, %wide;\nwgmma.mma_async"),
      {"the descriptor of A is", "in lane 1"});
  expect_report(p,
                replaced(product_text(p), "wgmma.mma_async",
                         "shr.u32 %x, %t, 5; cvt.u64.u32 %at, %x; add.u64 %db, %db, %at;\n"
                         "wgmma.mma_async"),
                {"the descriptor of B is", "for the warps of its group that came first"});
}
TEST(WgmmaReports, ScaleThatDiffersFaults) {
  const Product p;
  const std::string text = replaced(product_text(p), "%never, 1, 1", "%more, 1, 1");
  expect_report(p, replaced(text, kFence, "setp.lt.u32 %more, %t, 5;\n" + kFence),
                {"scale-d holds in lanes 0x0000001f only"});
  expect_report(p, replaced(text, kFence, "setp.lt.u32 %more, %t, 32;\n" + kFence), {"scale-d is"});
}
TEST(WgmmaReports, OperandOutOfBoundsFaults) {
  const Product p;
  expect_report(
      p, replaced(product_text(p), "wgmma.mma_async", "add.u64 %db, %db, 4032;\nwgmma.mma_async"),
      {"B has 16 bytes at shared address", "out of bounds"});
}
TEST(WgmmaReports, PartOfAWarpGroupFaults) {
  const Product p;
  const Operands operands(p, 5);
  const Outcome have = run_text(options_for(levels().back(), false, AsyncTiming::kLatest, 0),
                                operands, product_text(p), 96);
  EXPECT_NE(have.status.to_string().find("whole warp group"), std::string::npos)
      << have.status.to_string();
}
TEST(WgmmaReports, PartOfAWarpFaults) {
  const Product p;
  const std::string some = "setp.lt.u32 %more, %t, 100;\n@%more wgmma.mma_async";
  expect_report(p, replaced(product_text(p), "wgmma.mma_async", some), {"all 32 lanes"});
}
TEST(WgmmaReports, WarpThatDoesNotComeIsADeadlock) {
  const Product p;
  const std::string some = "setp.ge.u32 %more, %t, 96;\n@%more bra SKIP;\n";
  std::string text = replaced(product_text(p), kFence, some + kFence);
  text = replaced(text, kCommit, "SKIP:\n" + kCommit);
  expect_report(p, text, {"deadlock", "wgmma.wait_group", "the other warps of its group"});
}

// The second product's accumulators are some of the first one's, in another shape.
TEST(WgmmaReports, OtherShapeOnAccumulatorsInFlight) {
  const Product p;
  const Product narrow = {.n = 32, .steps = 1};
  expect_report(p, replaced(product_text(p), kCommit, kCommit + wgmma_text(narrow, 0) + kCommit),
                {"operation in flight", "an accumulator is a register of an operation in flight"});
}
// Accumulators of one product are A of the next.
TEST(WgmmaReports, AccumulatorsInFlightAsRegistersOfA) {
  const Product p;
  std::string next = wgmma_text({.a = Layout::kRegisters, .steps = 1}, 0, "%e");
  next = replaced(next, "{%a0, %a1, %a2, %a3}", "{%d4, %d5, %d6, %d7}");
  expect_report(p, replaced(product_text(p), kCommit, kCommit + next + kCommit),
                {"operation in flight", "a register of A is a register of an operation in flight"});
}

}  // namespace
}  // namespace lssar::test::wgmma
