// Bugs of blocks that work together in a cluster: each is reported in at least one of ten seeds,
// with the instructions that are at fault.
#include <gtest/gtest.h>

#include "tests/virtual/strict/adversary.h"

namespace lssar::test {
namespace {

const Adversary kBugs[] = {
    {"MissingClusterBarrier",
     "peer_read",
     {take_away("start_arrive"), take_away("start_wait")},
     {"@write", "@read"}},
    {"RelaxedClusterArrival",
     "peer_read",
     {change("start_arrive", ".release", ".relaxed")},
     {"@write", "@read"}},
    {"ExitWhilePeerReads",
     "peer_read",
     {take_away("end_arrive"), take_away("end_wait")},
     {"@read"}},
    {"MissingClusterWait", "peer_read", {take_away("end_wait")}, {"@read"}},
    {"ExitWhilePeerWrites",
     "peer_write",
     {take_away("wait"), take_away("wait_again"), take_away("end_arrive"), take_away("end_wait")},
     {"@write"}},
    {"PeerBarrierBeforeInit",
     "peer_write",
     {take_away("start_arrive"), take_away("start_wait")},
     {"@arrive"}},
    {"MissingWaitForPeer",
     "peer_write",
     {take_away("wait"), take_away("wait_again")},
     {"@write", "@read"}},
    {"RelaxedPeerArrival",
     "peer_write",
     {change("arrive", ".release", ".relaxed")},
     {"@write", "@read"}},
    {"MulticastDoesNotWaitForPeer",
     "multicast",
     {change("init_empty", ", 2", ", 1"), take_away("arrive_peer")},
     {"@load", "@read"}},
    {"MulticastIsNotReleasedByPeer",
     "multicast",
     {take_away("arrive_peer")},
     {"deadlock", "@wait_empty"}},
    {"MulticastMissingFence", "multicast", {take_away("fence")}, {"@load", "@read"}},
    {"MulticastIntoExitedPeer",
     "multicast",
     {take_away("end_arrive"), take_away("end_wait")},
     {"multicast"}},
};

class ClusterAdversary : public testing::TestWithParam<Adversary> {};

TEST_P(ClusterAdversary, IsReported) { check_adversary(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, ClusterAdversary, testing::ValuesIn(kBugs),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace lssar::test
