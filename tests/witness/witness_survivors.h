// Mutants of the witness kernels that no check finds, and why. Names are those of the PTX that nvcc
// 13.0 makes of the pinned headers.
#pragma once

namespace lssar::test {

struct WitnessSurvivor {
  const char* subject;
  const char* mutant;  // Mutant::name, without the entry
  const char* reason;
};

inline constexpr const char kEmptyGroup[] =
    "the last copies are beyond k, where none is made: nothing is in flight";
inline constexpr const char kTwoBarriers[] =
    "two barriers with no access to shared memory between them: either is enough";
inline constexpr const char kLastFence[] =
    "the fence after the last initialisation, by the same lane, is for all of them";
inline constexpr const char kRegisters[] =
    "not modelled: virtual registers do not run out, the assembler sees to the real ones";
inline constexpr const char kFenced[] = "the sums were not touched since the wgmma.fence before";
inline constexpr const char kForSpeed[] = "lets the loads of a and b be issued before those of c";
inline constexpr const char kLastStage[] =
    "at the end: stages are given back in order, so that the wait for the last is for all";
inline constexpr const char kOwnBlock[] =
    "at the end: only warps of the block itself give back this stage, and they go on living";
inline constexpr const char kFirstRound[] =
    "of the first tile, which the compiler has peeled off: nobody has used the stage before";
inline constexpr const char kAllThreads[] =
    "all threads give back the stage of c that the tile of d lies in, the one that has waited for "
    "the store among them";
inline constexpr const char kOneStore[] =
    "the tile before has waited for all of its stores: here is one, and one may be pending";

inline constexpr const char kCooperative[] = "cooperative fp16 MN-major, cluster 1x2";
inline constexpr const char kMultistage[] = "multistage fp16";
inline constexpr const char kPingpong[] = "pingpong bf16, cluster 2x1";

inline constexpr WitnessSurvivor kWitnessSurvivors[] = {
    {kCooperative, "fence.mbarrier_init.release.cluster #1: taken away", kLastFence},
    {kCooperative, "fence.mbarrier_init.release.cluster #2: taken away", kLastFence},
    {kCooperative, "setmaxnreg.inc.sync.aligned.u32 #1: taken away", kRegisters},
    {kCooperative, "mbarrier.try_wait.parity.shared::cta.b64 #1: taken for true", kForSpeed},
    {kCooperative, "mbarrier.try_wait.parity.shared::cta.b64 #3: taken for true", kLastStage},
    {kCooperative, "mbarrier.try_wait.parity.shared::cta.b64 #4: taken for true", kLastStage},
    {kCooperative, "wgmma.fence.sync.aligned last: taken away", kFenced},
    {kCooperative, "bar.sync #2: taken away", kAllThreads},
    {kCooperative, "bar.sync last: taken away", kAllThreads},
    {kCooperative, "mbarrier.try_wait.parity.shared::cta.b64 #14: taken for true", kOwnBlock},
    {kCooperative, "mbarrier.try_wait.parity.shared::cta.b64 #15: taken for true", kOwnBlock},
    {kCooperative, "mbarrier.try_wait.parity.shared::cta.b64 last: taken for true", kOwnBlock},
    {kMultistage, "cp.async.commit_group last: taken away", kEmptyGroup},
    {kMultistage, "cp.async.wait_all #1: taken away", kEmptyGroup},
    {kMultistage, "bar.sync #3: taken away", kTwoBarriers},
    {kMultistage, "bar.sync #12: taken away", kTwoBarriers},
    {kPingpong, "fence.mbarrier_init.release.cluster #1: taken away", kLastFence},
    {kPingpong, "fence.mbarrier_init.release.cluster #2: taken away", kLastFence},
    {kPingpong, "fence.mbarrier_init.release.cluster #3: taken away", kLastFence},
    {kPingpong, "setmaxnreg.inc.sync.aligned.u32 #1: taken away", kRegisters},
    {kPingpong, "wgmma.fence.sync.aligned last: taken away", kFenced},
    {kPingpong, "cp.async.bulk.wait_group.read #1: taken away", kOneStore},
    {kPingpong, "bar.sync #2: taken away", kOneStore},
    {kPingpong, "bar.sync last: taken away", kAllThreads},
    {kPingpong, "mbarrier.try_wait.parity.shared::cta.b64 #10: taken for true", kLastStage},
    {kPingpong, "mbarrier.try_wait.parity.shared::cta.b64 #11: taken for true", kLastStage},
    {kPingpong, "mbarrier.try_wait.parity.shared::cta.b64 #13: taken for true", kForSpeed},
    {kPingpong, "mbarrier.try_wait.parity.shared::cta.b64 #14: taken for true", kFirstRound},
    {kPingpong, "mbarrier.try_wait.parity.shared::cta.b64 #15: taken for true", kFirstRound},
    {kPingpong, "mbarrier.try_wait.parity.shared::cta.b64 #18: taken for true", kOwnBlock},
    {kPingpong, "mbarrier.try_wait.parity.shared::cta.b64 #19: taken for true", kOwnBlock},
    {kPingpong, "mbarrier.try_wait.parity.shared::cta.b64 last: taken for true", kOwnBlock},
};

}  // namespace lssar::test
