// Mutants that nothing finds out: those as right as what they were made from, and the few that
// differ in what the virtual device does not model.
#pragma once

namespace lssar::test {

struct Survivor {
  const char* subject;
  const char* mutant;  // Mutant::name
  const char* reason;
};

// For the rings of the portable kernels, here with two or three stages. True for all lengths.
inline constexpr const char kEmptyGroup[] =
    "start() and next() have committed every copy: this group is empty (of one stage it is not)";
inline constexpr const char kNewestIsEmpty[] =
    "the one group that may stay pending is the newest, which finish() committed empty";
inline constexpr const char kNeverRead[] =
    "waits only where the block's rows see no key, for queries that nothing reads any more";
inline constexpr const char kForAssembler[] =
    "keeps loads in groups for the assembler; what they read has been ordered before";
inline constexpr const char kImplied[] =
    "the wait for v's empty stage before it comes after the release of this one";
inline constexpr const char kLast[] = "the last of its kind: nothing follows that needs it";
inline constexpr const char kUntouched[] =
    "the registers were not touched since the wait for the product before";

// For the Hopper kernels.
inline constexpr const char kRegisters[] =
    "not modelled: virtual registers do not run out, the assembler sees to the real ones";
inline constexpr const char kPool[] =
    "the block has that many registers more than its warps ask for";
inline constexpr const char kFenced[] =
    "the registers were not touched since the wgmma.fence before";
inline constexpr const char kBeginsSums[] =
    "both operands are in shared memory, and the sums are begun, in registers that nothing touched";
inline constexpr const char kNextCommit[] =
    "the products are committed with the next ones, which the same wait is for";
inline constexpr const char kTwoWaits[] = "two waits in a row: either is enough";
inline constexpr const char kNeverWraps[] =
    "with the lengths of these tests the ring of slots never wraps around at this step";
inline constexpr const char kForSpeed[] = "the consumers alternate for speed only";
inline constexpr const char kNextIsValues[] =
    "of four slots, this one's next tile is of values, without the norms that lanes read; the next "
    "norms come after the release of that one";
inline constexpr const char kTurnBetween[] =
    "a turn, a barrier of the warp group, comes after the lanes' last read of the slot";
inline constexpr const char kQueriesFirst[] =
    "of the work tile's last slots: who fills them next has waited for the release of its queries, "
    "which comes later and has the same fence and barrier";
inline constexpr const char kOwnRows[] =
    "a warp has read rows of its own, which only its own output replaces; the barrier and the "
    "fence "
    "before that is stored come after, and before the release of the queries";
inline constexpr const char kExchange[] =
    "dS' is exchanged after the lanes' last read of the slot, with a fence and a barrier";
inline constexpr const char kOneWorkTile[] =
    "the kernel is not persistent: nobody waits until the keys of a block are given back";

// For fp16's scale that is found ahead.
inline constexpr const char kWordsRead[] =
    "of the norms' words: consumers come to the next ones by way of slots that this warp scales "
    "after it has read these";
inline constexpr const char kReadersFence[] =
    "consumers, which read what was written, have the same fence before they release the slot";

// For ordered sums of dq.
inline constexpr const char kKnownByAll[] =
    "not modelled: what one thread knows of other blocks all of its block know, with a barrier "
    "between or not";
inline constexpr const char kSecondPart[] =
    "a second part of the sum: the turn has begun with the first";
inline constexpr const char kSlotReleased[] =
    "the release of the slot, with a barrier of the warp, comes after the lanes' additions";

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

    {"hopper_forward", "lssar_forward: setmaxnreg.inc.sync.aligned.u32 #1: taken away", kRegisters},
    {"hopper_forward", "lssar_forward: fence.proxy.async.shared::cta #5: taken away",
     kNextIsValues},
    {"hopper_forward", "lssar_forward: bar.warp.sync #5: taken away", kNextIsValues},
    {"hopper_forward", "lssar_forward: wgmma.fence.sync.aligned #6: taken away", kFenced},
    {"hopper_forward", "lssar_forward: wgmma.fence.sync.aligned #9: taken away", kFenced},
    {"hopper_forward", "lssar_forward: wgmma.fence.sync.aligned #7: taken away", kFenced},

    {"hopper_forward_in_turn", "lssar_forward: setmaxnreg.inc.sync.aligned.u32 #1: taken away",
     kRegisters},
    {"hopper_forward_in_turn", "lssar_forward: wgmma.fence.sync.aligned #2: taken away", kFenced},
    {"hopper_forward_in_turn", "lssar_forward: wgmma.commit_group.sync.aligned #3: taken away",
     kNextCommit},
    {"hopper_forward_in_turn", "lssar_forward: wgmma.fence.sync.aligned #4: taken away", kFenced},
    {"hopper_forward_in_turn", "lssar_forward: wgmma.wait_group.sync.aligned #3: one more pending",
     kTwoWaits},
    {"hopper_forward_in_turn", "lssar_forward: wgmma.wait_group.sync.aligned #4: taken away",
     kTwoWaits},
    {"hopper_forward_in_turn", "lssar_forward: wgmma.wait_group.sync.aligned #4: one more pending",
     kTwoWaits},

    {"hopper_forward_train", "lssar_forward: setmaxnreg.inc.sync.aligned.u32 #1: taken away",
     kRegisters},
    {"hopper_forward_train", "lssar_forward: fence.proxy.async.shared::cta #5: taken away",
     kNextIsValues},
    {"hopper_forward_train", "lssar_forward: bar.warp.sync #5: taken away", kNextIsValues},
    {"hopper_forward_train", "lssar_forward: xor.b32 #6: not flipped", kNeverWraps},
    {"hopper_forward_train", "lssar_forward: wgmma.fence.sync.aligned #6: taken away", kFenced},
    {"hopper_forward_train", "lssar_forward: wgmma.fence.sync.aligned #9: taken away", kFenced},
    {"hopper_forward_train", "lssar_forward: wgmma.fence.sync.aligned #7: taken away", kFenced},

    {"hopper_forward_staggered", "lssar_forward: setmaxnreg.inc.sync.aligned.u32 #1: taken away",
     kRegisters},
    {"hopper_forward_staggered", "lssar_forward: bar.sync #2: taken away", kOwnRows},
    {"hopper_forward_staggered", "lssar_forward: bar.sync #9: taken away", kOwnRows},
    {"hopper_forward_staggered", "lssar_forward: fence.proxy.async.shared::cta #5: taken away",
     kNextIsValues},
    {"hopper_forward_staggered", "lssar_forward: bar.warp.sync #5: taken away", kNextIsValues},
    {"hopper_forward_staggered", "lssar_forward: wgmma.fence.sync.aligned #8: taken away", kFenced},
    {"hopper_forward_staggered", "lssar_forward: wgmma.fence.sync.aligned #14: taken away",
     kFenced},
    {"hopper_forward_staggered", "lssar_forward: wgmma.fence.sync.aligned #6: taken away", kFenced},
    {"hopper_forward_staggered", "lssar_forward: wgmma.fence.sync.aligned #7: taken away", kFenced},
    {"hopper_forward_staggered", "lssar_forward: wgmma.fence.sync.aligned #9: taken away", kFenced},
    {"hopper_forward_staggered", "lssar_forward: wgmma.fence.sync.aligned #11: taken away",
     kFenced},
    {"hopper_forward_staggered", "lssar_forward: wgmma.fence.sync.aligned #12: taken away",
     kFenced},

    {"hopper_forward_cluster", "lssar_forward: setmaxnreg.dec.sync.aligned.u32 #1: 8 more", kPool},
    {"hopper_forward_cluster", "lssar_forward: setmaxnreg.inc.sync.aligned.u32 #1: taken away",
     kRegisters},
    {"hopper_forward_cluster", "lssar_forward: fence.proxy.async.shared::cta #5: taken away",
     kNextIsValues},
    {"hopper_forward_cluster", "lssar_forward: bar.warp.sync #5: taken away", kNextIsValues},
    {"hopper_forward_cluster", "lssar_forward: wgmma.fence.sync.aligned #6: taken away", kFenced},
    {"hopper_forward_cluster", "lssar_forward: wgmma.fence.sync.aligned #9: taken away", kFenced},
    {"hopper_forward_cluster", "lssar_forward: wgmma.fence.sync.aligned #7: taken away", kFenced},

    {"hopper_backward", "lssar_backward_dkdv: setmaxnreg.inc.sync.aligned.u32 #1: taken away",
     kRegisters},
    {"hopper_backward", "lssar_backward_dkdv: bar.sync #2: taken away", kForSpeed},
    {"hopper_backward", "lssar_backward_dkdv: bar.warp.sync #2: taken away", kForAssembler},
    {"hopper_backward", "lssar_backward_dkdv: bar.warp.sync #3: taken away", kForAssembler},
    {"hopper_backward", "lssar_backward_dkdv: bar.warp.sync #4: taken away", kForAssembler},
    {"hopper_backward", "lssar_backward_dkdv: bar.warp.sync last: taken away", kForAssembler},
    {"hopper_backward", "lssar_backward_dq: setmaxnreg.inc.sync.aligned.u32 #1: taken away",
     kRegisters},
    {"hopper_backward", "lssar_backward_dq: wgmma.fence.sync.aligned #4: taken away", kFenced},
    {"hopper_backward", "lssar_backward_dq: bar.warp.sync #1: taken away", kTurnBetween},
    {"hopper_backward", "lssar_backward_dq: fence.proxy.async.shared::cta #2: taken away",
     kQueriesFirst},
    {"hopper_backward", "lssar_backward_dq: bar.warp.sync #2: taken away", kQueriesFirst},
    {"hopper_backward", "lssar_backward_dq: bar.warp.sync #3: taken away", kForAssembler},
    {"hopper_backward", "lssar_backward_dq: bar.warp.sync #4: taken away", kForAssembler},
    {"hopper_backward", "lssar_backward_dq: bar.warp.sync #5: taken away", kForAssembler},
    {"hopper_backward", "lssar_backward_dq: bar.warp.sync #6: taken away", kForAssembler},
    {"hopper_backward",
     "lssar_backward_dq: mbarrier.arrive.release.cta.shared::cta.b64 #2: relaxed", kQueriesFirst},

    {"hopper_backward_fp16", "lssar_backward_dkdv: bar.sync #2: taken away", kForSpeed},
    {"hopper_backward_fp16", "lssar_backward_dkdv: bar.warp.sync #2: taken away", kForAssembler},
    {"hopper_backward_fp16", "lssar_backward_dkdv: bar.warp.sync #3: taken away", kForAssembler},
    {"hopper_backward_fp16", "lssar_backward_dkdv: bar.warp.sync #4: taken away", kForAssembler},
    {"hopper_backward_fp16", "lssar_backward_dkdv: bar.warp.sync #5: taken away", kForAssembler},
    {"hopper_backward_fp16", "lssar_backward_dkdv: bar.warp.sync #6: taken away", kWordsRead},
    {"hopper_backward_fp16", "lssar_backward_dkdv: fence.proxy.async.shared::cta #3: taken away",
     kWordsRead},
    {"hopper_backward_fp16",
     "lssar_backward_dkdv: mbarrier.arrive.release.cta.shared::cta.b64 #4: relaxed", kWordsRead},
    {"hopper_backward_fp16", "lssar_backward_dkdv: fence.proxy.async.shared::cta last: taken away",
     kReadersFence},

    {"backward_epsilon", "lssar_backward_epsilon: cp.async.commit_group last: taken away",
     kEmptyGroup},
    {"backward_epsilon", "lssar_backward_epsilon: cp.async.wait_group last: one more pending",
     kNewestIsEmpty},
    {"backward_epsilon", "lssar_backward_epsilon: cp.async.wait_group last: taken away",
     kNeverRead},
    {"hopper_backward_epsilon",
     "lssar_backward_epsilon: setmaxnreg.inc.sync.aligned.u32 #1: taken away", kRegisters},
    {"hopper_backward_epsilon", "lssar_backward_epsilon: bar.sync last: taken away", kForSpeed},

    {"hopper_backward_atomic", "lssar_backward_dkdv: mbarrier.init.shared::cta.b64 last: count +1",
     kOneWorkTile},
    {"hopper_backward_atomic", "lssar_backward_dkdv: mbarrier.init.shared::cta.b64 last: count -1",
     kOneWorkTile},
    {"hopper_backward_atomic",
     "lssar_backward_dkdv: setmaxnreg.inc.sync.aligned.u32 #1: taken away", kRegisters},
    {"hopper_backward_atomic",
     "lssar_backward_dkdv: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #3: taken for true",
     kOneWorkTile},
    {"hopper_backward_atomic",
     "lssar_backward_dkdv: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #3: result ignored",
     kOneWorkTile},
    {"hopper_backward_atomic", "lssar_backward_dkdv: wgmma.fence.sync.aligned #6: taken away",
     kBeginsSums},
    {"hopper_backward_atomic", "lssar_backward_dkdv: wgmma.fence.sync.aligned #7: taken away",
     kBeginsSums},
    {"hopper_backward_atomic", "lssar_backward_dkdv: wgmma.fence.sync.aligned last: taken away",
     kBeginsSums},
    {"hopper_backward_atomic", "lssar_backward_dkdv: wgmma.fence.sync.aligned #8: taken away",
     kBeginsSums},
    {"hopper_backward_atomic", "lssar_backward_dkdv: fence.proxy.async.shared::cta #7: taken away",
     kExchange},
    {"hopper_backward_atomic", "lssar_backward_dkdv: bar.warp.sync #7: taken away", kExchange},
    {"hopper_backward_atomic", "lssar_backward_dkdv: bar.warp.sync #8: taken away", kForAssembler},
    {"hopper_backward_atomic", "lssar_backward_dkdv: bar.warp.sync #9: taken away", kForAssembler},
    {"hopper_backward_atomic", "lssar_backward_dkdv: bar.warp.sync #10: taken away", kForAssembler},
    {"hopper_backward_atomic", "lssar_backward_dkdv: bar.warp.sync last: taken away",
     kForAssembler},
    {"hopper_backward_atomic",
     "lssar_backward_dkdv: fence.proxy.async.shared::cta last: taken away", kOneWorkTile},
    {"hopper_backward_atomic", "lssar_backward_dkdv: bar.sync last: taken away", kOneWorkTile},
    {"hopper_backward_atomic",
     "lssar_backward_dkdv: mbarrier.arrive.release.cta.shared::cta.b64 last: taken away",
     kOneWorkTile},
    {"hopper_backward_atomic",
     "lssar_backward_dkdv: mbarrier.arrive.release.cta.shared::cta.b64 last: relaxed",
     kOneWorkTile},
    {"hopper_backward_atomic",
     "lssar_backward_dkdv: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #3: relaxed",
     kOneWorkTile},

    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.warp.sync #1: taken away", kKnownByAll},
    {"hopper_backward_ordered", "lssar_backward_dkdv: ld.acquire.gpu.global.u32 #2: relaxed",
     kSecondPart},
    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.warp.sync #2: taken away", kSecondPart},
    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.warp.sync #3: taken away", kKnownByAll},
    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.warp.sync #4: taken away", kExchange},
    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.warp.sync #5: taken away", kSlotReleased},
    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.warp.sync #6: taken away", kForAssembler},
    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.warp.sync #7: taken away", kForAssembler},
    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.warp.sync #8: taken away", kForAssembler},
    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.warp.sync last: taken away",
     kForAssembler},
    {"hopper_backward_ordered", "lssar_backward_dkdv: bar.sync last: taken away", kOneWorkTile},

    {"hopper_forward_d64", "hopper_forward_d64: setmaxnreg.inc.sync.aligned.u32 #1: taken away",
     kRegisters},
    {"hopper_forward_d128", "hopper_forward_d128: setmaxnreg.inc.sync.aligned.u32 #1: taken away",
     kRegisters},
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
     "the consumers alternate for speed only, and nobody waits for this last release"},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.arrive.release.cta.shared::cta.b64 #2: relaxed", kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #1: relaxed",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #3: relaxed",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #7: relaxed",
     kImplied},
    {"hopper_forward_d64",
     "hopper_forward_d64: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #9: relaxed",
     kImplied},
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
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.arrive.release.cta.shared::cta.b64 #2: relaxed", kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #1: relaxed",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #3: relaxed",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #7: relaxed",
     kImplied},
    {"hopper_forward_d128",
     "hopper_forward_d128: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 #9: relaxed",
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
    {"multicast_gemm",
     "multicast_gemm: mbarrier.arrive.release.cluster.shared::cluster.b64 last: relaxed", kLast},
    {"exchange", "exchange: fence.mbarrier_init.release.cluster #1: taken away",
     "the cluster's barrier releases the initialisation too, and no bulk copy uses the barriers"},
    {"exchange", "exchange: mbarrier.arrive.release.cluster.shared::cluster.b64 last: taken away",
     kLast},
    {"exchange", "exchange: mbarrier.arrive.release.cluster.shared::cluster.b64 last: relaxed",
     kLast},
};

}  // namespace lssar::test
