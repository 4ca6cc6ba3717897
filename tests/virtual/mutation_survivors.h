// Mutants that nothing finds out: those as right as what they were made from, and the few that
// differ in what the virtual device does not model.
#pragma once

namespace lssar::test {

struct Survivor {
  const char* subject;
  const char* mutant;  // Mutant::name
  const char* reason;
};

// Of the rings of the portable kernels, here of two stages or three; true whatever the lengths.
inline constexpr const char kEmptyGroup[] =
    "start() and next() have committed every copy: this group is empty (of one stage it is not)";
inline constexpr const char kNewestIsEmpty[] =
    "the one group that may stay pending is the newest, which finish() committed empty";
inline constexpr const char kNeverRead[] =
    "waits only where the block's rows see no key, for queries that nothing reads any more";
inline constexpr const char kForAssembler[] =
    "keeps loads in groups for the assembler; a barrier of the block has ordered what they read";
inline constexpr const char kImplied[] =
    "the wait for v's empty stage before it comes after the release of this one";
inline constexpr const char kLast[] = "the last of its kind: nothing follows that needs it";
inline constexpr const char kUntouched[] =
    "the registers were not touched since the wait for the product before";

inline constexpr Survivor kSurvivors[] = {
    {"forward", "lssar_forward: cp.async.commit_group last: taken away", kEmptyGroup},
    {"forward", "lssar_forward: cp.async.wait_group last: taken away", kNeverRead},
    {"forward", "lssar_forward: cp.async.wait_group last: one more pending", kNewestIsEmpty},

    {"backward", "lssar_backward_dkdv: cp.async.commit_group last: taken away", kEmptyGroup},
    {"backward", "lssar_backward_dkdv: cp.async.wait_group last: one more pending", kNewestIsEmpty},
    {"backward", "lssar_backward_dkdv: bar.warp.sync #1: taken away", kForAssembler},
    {"backward", "lssar_backward_dkdv: bar.warp.sync #2: taken away", kForAssembler},
    {"backward", "lssar_backward_dkdv: bar.warp.sync #3: taken away", kForAssembler},
    {"backward", "lssar_backward_dkdv: bar.warp.sync last: taken away", kForAssembler},
    {"backward", "lssar_backward_dq: cp.async.commit_group last: taken away", kEmptyGroup},
    {"backward", "lssar_backward_dq: cp.async.wait_group last: one more pending", kNewestIsEmpty},
    {"backward", "lssar_backward_dq: bar.warp.sync #1: taken away", kForAssembler},
    {"backward", "lssar_backward_dq: bar.warp.sync #2: taken away", kForAssembler},
    {"backward", "lssar_backward_dq: bar.warp.sync #3: taken away", kForAssembler},
    {"backward", "lssar_backward_dq: bar.warp.sync last: taken away", kForAssembler},

    {"backward_atomic", "lssar_backward_dkdv: cp.async.commit_group last: taken away", kEmptyGroup},
    {"backward_atomic", "lssar_backward_dkdv: cp.async.wait_group last: one more pending",
     kNewestIsEmpty},
    {"backward_atomic", "lssar_backward_dkdv: bar.warp.sync #1: taken away", kForAssembler},
    {"backward_atomic", "lssar_backward_dkdv: bar.warp.sync #2: taken away", kForAssembler},
    {"backward_atomic", "lssar_backward_dkdv: bar.warp.sync #3: taken away", kForAssembler},
    {"backward_atomic", "lssar_backward_dkdv: bar.warp.sync last: taken away", kForAssembler},

    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #1: taken for true",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #1: result ignored",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #3: taken for true",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #3: result ignored",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #7: taken for true",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #7: result ignored",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #9: taken for true",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #9: result ignored",
     kImplied},
    {"hopper_forward_d64", "hopper_forward_d64: bar.sync #3: taken away",
     "the consumers take turns for speed only, and nobody waits for this last turn"},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #1: taken for true",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #1: result ignored",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #3: taken for true",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #3: result ignored",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #7: taken for true",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #7: result ignored",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #9: taken for true",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #9: result ignored",
     kImplied},
    {"reduce_add", "reduce_add: cp.async.bulk.wait_group #1: only reads",
     "the kernel ends: its writes are complete before anybody else looks"},
    {"barrier_again", "barrier_again: fence.proxy.async.shared::cta last: taken away", kLast},
    {"barrier_again", "barrier_again: mbarrier.inval.shared::cta.b64 last: taken away", kLast},
    {"dependent_add_one", "dependent_add_one: griddepcontrol.wait #1: taken away",
     "launches run one after the other: what it waits for is not modelled"},
    {"multicast_gemm", "multicast_gemm: wgmma.fence.sync.aligned #2: taken away", kUntouched},
    {"multicast_gemm", "multicast_gemm: wgmma.fence.sync.aligned last: taken away", kUntouched},
    {"multicast_gemm",
     "multicast_gemm: mbarrier.arrive.release.cluster.shared::cluster.b64 last: taken away", kLast},
    {"exchange", "exchange: fence.mbarrier_init.release.cluster #1: taken away",
     "the cluster's barrier releases the initialisation too, and no bulk copy uses the barriers"},
    {"exchange", "exchange: mbarrier.arrive.release.cluster.shared::cluster.b64 last: taken away",
     kLast},
};

}  // namespace lssar::test
