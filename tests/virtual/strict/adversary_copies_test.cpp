// Bugs with cp.async, block and warp barriers, races, bounds, poison and loops: each is reported in
// at least one of ten seeds, with the instructions that are at fault.
#include <gtest/gtest.h>

#include "tests/virtual/strict/adversary.h"

namespace lssar::test {
namespace {

const Adversary kBugs[] = {
    // cp.async
    {"MissingCopyWait", "copy_for_others", {take_away("wait")}, {"@copy", "@read"}},
    {"CopyWaitTooLax", "copy_for_others", {change("wait", "0", "1")}, {"@copy", "@read"}},
    {"MissingCopyCommit", "copy_for_others", {take_away("commit")}, {"@copy", "@read"}},
    {"CopyReadByOthersWithoutBarrier",
     "copy_for_others",
     {take_away("barrier")},
     {"@copy", "@read"}},
    {"OwnCopyWaitTooLax", "copy_own", {change("wait", "1", "2")}, {"@copy", "@read"}},
    {"OwnCopySecondWaitTooLax",
     "copy_own",
     {change("second_wait", "0", "1")},
     {"@second_copy", "@second_read"}},
    {"MissingOwnCopyWait", "copy_own", {take_away("second_wait")}, {"@second_copy"}},
    {"CopySourceOverwritten", "copy_source", {put_in("early")}, {"@copy", "@early"}},
    {"CopyTargetWritten", "copy_source", {put_in("target")}, {"@copy", "@target"}},
    // barriers
    {"MissingBlockBarrier", "block_exchange", {take_away("barrier")}, {"@write", "@read"}},
    {"MissingSecondBlockBarrier",
     "block_exchange",
     {take_away("second_barrier")},
     {"@write", "@read"}},
    {"MissingWarpBarrier", "lane_exchange", {take_away("barrier")}, {"@write", "@read"}},
    {"MissingSecondWarpBarrier",
     "lane_exchange",
     {take_away("second_barrier")},
     {"@write", "@read"}},
    {"DivergentBarrier",
     "whole_warp_barrier",
     {change("barrier", "bar.sync", "@some bar.sync")},
     {"@barrier"}},
    {"BarrierCountsDiffer", "named_barriers", {change("sync", "64", "96")}, {"@sync"}},
    {"BarrierCountTooHigh",
     "named_barriers",
     {change("first_sync", "64", "96"), change("second_sync", "64", "96")},
     {"deadlock", "@first_sync", "@second_sync"}},
    {"MissingBarrierArrival", "named_barriers", {take_away("arrive")}, {"deadlock", "@sync"}},
    {"MissingBarrierSync", "named_barriers", {take_away("sync")}, {"@write", "@read"}},
    // global memory
    {"GlobalRaceOfWarps", "global_exchange", {take_away("barrier")}, {"@write", "@read"}},
    {"GlobalReadRaceOfBlocks", "global_blocks", {put_in("read_other")}, {"@write", "@read_other"}},
    {"GlobalWriteRaceOfBlocks",
     "global_blocks",
     {put_in("write_other")},
     {"@write", "@write_other"}},
    {"GlobalAtomicRaceOfBlocks", "global_blocks", {put_in("read_sum")}, {"@add", "@read_sum"}},
    {"GlobalOutOfBounds",
     "plain_accesses",
     {change("load", "]", "+1048576]")},
     {"out of bounds", "@load"}},
    {"SharedOutOfBounds",
     "plain_accesses",
     {change("store_shared", "]", "+32768]")},
     {"out of bounds", "@store_shared"}},
    {"GlobalMisaligned",
     "plain_accesses",
     {change("store", "]", "+2]")},
     {"not aligned", "@store"}},
    {"SharedMisaligned",
     "plain_accesses",
     {change("load_shared", "]", "+1]")},
     {"not aligned", "@load_shared"}},
    {"UnwrittenGlobalRead", "plain_accesses", {put_in("unwritten")}, {"@unwritten"}},
    // poison
    {"PoisonStored", "poison", {put_in("value")}, {"@read", "@store"}},
    {"PoisonInAddress", "poison", {put_in("address")}, {"@read", "@address"}},
    {"PoisonInBranch", "poison", {put_in("branch")}, {"@read", "@branch"}},
    // loops
    {"EndlessLoop", "loop", {put_in("endless")}, {"@endless"}},
};

class CopiesAdversary : public testing::TestWithParam<Adversary> {};

TEST_P(CopiesAdversary, IsReported) { check_adversary(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, CopiesAdversary, testing::ValuesIn(kBugs),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace lssar::test
