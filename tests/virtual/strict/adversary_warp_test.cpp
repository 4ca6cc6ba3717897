// Lanes that synchronise apart, and a warp that acts as one: correct forms give no report (see
// adversary_correct_test.cpp), and here are bugs that look like them.
#include <gtest/gtest.h>

#include "tests/virtual/strict/adversary.h"

namespace lssar::test {
namespace {

const Adversary kBugs[] = {
    {"OneLaneDoesNotWait",
     "waits_apart",
     {take_away("wait_first"), take_away("wait_first_again")},
     {"@load", "@read"}},
    {"OnlyOneLaneWaits",
     "waits_apart",
     {take_away("wait"), take_away("wait_again")},
     {"@load", "@read"}},
    {"RowsWrittenBackByLanes", "rows_back", {put_in("by_lane")}, {"@read", "@by_lane"}},
    {"RowsReadBackTooEarly",
     "rows_back",
     {take_away("barrier_after")},
     {"@write_rows", "@read_back"}},
    {"RowsReadTooEarly", "rows_back", {take_away("barrier")}, {"@write", "@read"}},
    {"StoresThatOverlap", "stores_together", {put_in("apart")}, {"race", "@store"}},
    {"StoreBeforeItsWarpHasWritten",
     "stores_together",
     {take_away("barrier")},
     {"@write", "@store"}},
    {"StoreWithoutFence",
     "stores_together",
     {take_away("fence")},
     {"missing fence.proxy.async", "@write", "@store"}},
    {"StoreNotWaitedFor", "stores_together", {take_away("wait")}, {"@store", "@read"}},
    {"StoreWaitedForByItsReads",
     "stores_together",
     {change("wait", "wait_group 0", "wait_group.read 0")},
     {"@store", "@read"}},
    {"EndWithoutWaiting",
     "multicast_and_end",
     {take_away("wait"), take_away("wait_again")},
     {"block (1, 0, 0)", "@load", "may be in use"}},
    {"RelaxedWait",
     "multicast_and_end",
     {change("wait", ".acquire", ".relaxed")},
     {"block (1, 0, 0)", "@load", "@read"}},
};

class WarpAdversary : public testing::TestWithParam<Adversary> {};

TEST_P(WarpAdversary, IsReported) { check_adversary(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, WarpAdversary, testing::ValuesIn(kBugs),
                         [](const auto& p) { return p.param.name; });

// Right on every GPU, though the PTX ISA does not promise it.
TEST(LetterTest, RowsWrittenBackAreReportedWhereAskedFor) {
  const AdversaryKernel kernel = {"adversary_warp", "rows_back", 1, 32, 1, 32};
  for (int seed = 0; seed < kAdversarySeeds; ++seed) {
    const AdversaryRun run = run_adversary(kernel, adversary_text(kernel), seed, true);
    EXPECT_NE(run.status.message().find("stmatrix"), std::string::npos) << "seed " << seed;
    EXPECT_NE(run.status.message().find("ldmatrix"), std::string::npos) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lssar::test
