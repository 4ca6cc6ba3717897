// Bugs with mbarriers, bulk copies and tensor maps: each is reported in at least one of ten seeds,
// with the instructions that are at fault. An empty expectation: no bug, no report.
#include <gtest/gtest.h>

#include "tests/virtual/strict/adversary.h"

namespace lssar::test {
namespace {

const Adversary kBugs[] = {
    // one phase
    {"MissingBarrierWait",
     "bulk_in",
     {take_away("wait"), take_away("wait_again")},
     {"@load", "@read"}},
    {"TryWaitResultIgnored", "bulk_in", {take_away("wait_again")}, {"@load", "@read"}},
    {"WrongParity", "bulk_in", {change("wait", ", %r", ", 1; // %r")}, {"@load", "@read"}},
    {"TooFewBytesExpected", "bulk_in", {change("expect", "4096", "4080")}, {"deadlock", "@wait"}},
    {"TooManyBytesExpected", "bulk_in", {change("expect", "4096", "4112")}, {"deadlock", "@wait"}},
    {"BytesBeyondTheLimit", "bulk_in", {change("expect", "4096", "1048576")}, {"@expect"}},
    {"CountTooHigh", "bulk_in", {change("init", ", 1", ", 2")}, {"deadlock", "@wait"}},
    {"MissingInitFence", "bulk_in", {take_away("fence_init")}, {"@init"}},
    {"BarrierUsedBeforeInit", "bulk_in", {take_away("barrier_init")}, {"@wait"}},
    {"InitAgainWithoutInval", "barrier_again", {take_away("inval")}, {"@init"}},
    // phases
    {"PhaseNeverFlips", "bulk_phases", {take_away("flip")}, {"@load", "@read"}},
    {"MissingFenceReadBeforeCopy", "bulk_phases", {take_away("fence")}, {"@load", "@read"}},
    {"FenceAfterTheBarrier", "bulk_phases", {take_away("fence"), put_in("fence_late")}, {}},
    {"MissingBarrierBeforeCopy", "bulk_phases", {take_away("barrier")}, {"@load", "@read"}},
    // pipeline
    {"StageOverwritten",
     "bulk_pipeline",
     {take_away("wait_empty"), take_away("wait_empty_again")},
     {"@load", "@read"}},
    {"MissingRelease", "bulk_pipeline", {take_away("arrive")}, {"deadlock", "@wait_empty"}},
    {"ReleasedTwice", "bulk_pipeline", {put_in("arrive_twice")}, {"deadlock", "@wait_empty"}},
    {"ProducerBeginsWithWrongParity",
     "bulk_pipeline",
     {change("first_parity", ", 1", ", 0")},
     {"deadlock", "@wait_empty"}},
    {"ProducerPhaseNeverFlips", "bulk_pipeline", {take_away("flip_empty")}, {"@load", "@read"}},
    {"ConsumerPhaseNeverFlips", "bulk_pipeline", {take_away("flip")}, {"@load", "@read"}},
    {"ReleasedBeforeOtherLanesHaveRead",
     "bulk_pipeline",
     {take_away("barrier")},
     {"@load", "@read"}},
    {"MissingFenceBeforeRelease", "bulk_pipeline", {take_away("fence")}, {"@load", "@read"}},
    // out
    {"MissingFenceWriteBeforeStore", "bulk_out", {take_away("fence")}, {"@write", "@store"}},
    {"FenceBeforeStoreIsEnough", "bulk_out", {take_away("fence"), put_in("fence_late")}, {}},
    {"MissingBarrierBeforeStore", "bulk_out", {take_away("barrier")}, {"@write", "@store"}},
    {"SourceOverwritten", "bulk_out", {take_away("wait")}, {"@write", "@store"}},
    {"MissingBulkCommit", "bulk_out", {take_away("commit")}, {"@write", "@store"}},
    {"ExitWhileStoreReads", "bulk_out_and_back", {take_away("wait")}, {"@store"}},
    {"ReadWaitTakenForWait",
     "bulk_out_and_back",
     {change("wait", "wait_group", "wait_group.read")},
     {"@store", "@read"}},
    {"MissingFenceWriteBeforeCopy", "bulk_over_stores", {take_away("fence")}, {"@write", "@load"}},
    // tensor maps
    {"MapMisaligned", "map_in_memory", {change("place", ", 0", ", 32")}, {"aligned", "@load"}},
    {"MissingMapFence", "map_in_memory", {take_away("acquire")}, {"@write", "@load"}},
    {"MissingMapFences",
     "map_in_memory",
     {take_away("release"), take_away("acquire")},
     {"@write", "@load"}},
};

class BulkAdversary : public testing::TestWithParam<Adversary> {};

TEST_P(BulkAdversary, IsReported) { check_adversary(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, BulkAdversary, testing::ValuesIn(kBugs),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace lssar::test
