// cp.async.mbarrier.arrive: when it arrives, and what waiting at the barrier makes visible.
#include "tests/virtual/async/bulk_fixture.h"

#include <gtest/gtest.h>

namespace lssar::test {
namespace {

// Each lane copies 8 bytes to the tile, `after` follows, and lanes then read what others copied.
std::string copy_kernel(const std::string& before, const std::string& after) {
  return cluster_kernel(before +
                        "shl.b32 %r21, %r1, 3;\nadd.u32 %r22, %r2, %r21;\n"
                        "cvt.u64.u32 %rd6, %r21;\nadd.u64 %rd6, %rd6, %rd3;\n"
                        "cp.async.ca.shared.global [%r22], [%rd6], 8;\n" +
                        after);
}

class CopyArrivalTest : public testing::TestWithParam<BulkMode> {
 protected:
  CopyArrivalTest()
      : device(GetParam()),
        source(*device.device, words()),
        out(*device.device, std::vector<uint32_t>(64)) {}

  static std::vector<uint32_t> words() {
    std::vector<uint32_t> values(64);
    for (uint32_t i = 0; i < 64; ++i) values[i] = 1000 + i;
    return values;
  }
  Status run(const std::string& before, const std::string& after) {
    return device.run_cluster(copy_kernel(before, after), 1, {out.address(), source.address()});
  }

  BulkDevice device;
  const Buffer<uint32_t> source, out;
};
INSTANTIATE_TEST_SUITE_P(Modes, CopyArrivalTest, testing::ValuesIn(kBulkModes),
                         [](const auto& tested) { return tested.param.name; });

class StrictCopyArrivalTest : public CopyArrivalTest {};
INSTANTIATE_TEST_SUITE_P(Modes, StrictCopyArrivalTest,
                         testing::Values(kBulkModes[2], kBulkModes[3], kBulkModes[4]),
                         [](const auto& tested) { return tested.param.name; });

const char* const kArriveOnce = "@!%p1 mbarrier.arrive.shared.b64 _, [%r3];\n";
// The barrier gets a count of 32.
const char* const kCountOfLanes =
    "@!%p1 mbarrier.inval.shared.b64 [%r3];\n"
    "@!%p1 mbarrier.init.shared.b64 [%r3], 32;\nbar.sync 0;\n";

TEST_P(CopyArrivalTest, ArrivalsCountThemselves) {
  const Status status = run("", std::string("cp.async.mbarrier.arrive.shared.b64 [%r3];\n") +
                                    "bar.sync 0;\n" + kArriveOnce + wait_for_barrier());
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(out.values(), source.values());
}

TEST_P(CopyArrivalTest, ArrivalsThatAreExpected) {
  const Status status =
      run(kCountOfLanes,
          "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r3];\n" + wait_for_barrier());
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(out.values(), source.values());
}

TEST_P(CopyArrivalTest, CopiesOfCommittedGroupsArriveToo) {
  const Status status = run(
      kCountOfLanes, "cp.async.commit_group;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r3];\n" +
                         wait_for_barrier());
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(out.values(), source.values());
}

TEST_P(CopyArrivalTest, OnePhaseNeedsEveryArrival) {
  const Status status =
      run(kCountOfLanes,
          "@%p1 cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];\n" + wait_for_barrier());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("1 of 32 arrivals"), std::string::npos) << status.to_string();
}

TEST_P(CopyArrivalTest, MoreArrivalsThanExpectedAreRefused) {
  // The phase lacks bytes only.
  const Status status =
      run("",
          "@!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;\nbar.sync 0;\n"
          "cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];\n" +
              wait_for_barrier());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("arrivals at mbarrier"), std::string::npos) << status.to_string();
}

TEST_P(StrictCopyArrivalTest, AnOrdinaryArrivalSaysNothingOfCopies) {
  const Status status =
      run(kCountOfLanes, "mbarrier.arrive.shared.b64 _, [%r3];\n" + wait_for_barrier());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("cp.async.ca"), std::string::npos) << status.to_string();
}

TEST_P(StrictCopyArrivalTest, AnArrivalSaysNothingOfOrdinaryStores) {
  const Status status =
      run(kCountOfLanes,
          "cp.async.wait_all;\nst.shared.u32 [%r22], %r1;\n"
          "cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];\n" +
              wait_for_barrier() + "xor.b32 %r23, %r22, 8;\nld.shared.u32 %r24, [%r23];\n");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("race"), std::string::npos) << status.to_string();
  EXPECT_NE(status.message().find("st.shared"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace lssar::test
