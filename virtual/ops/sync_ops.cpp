// mbarrier objects, proxy fences, clusters, register counts. Rows only: their handlers are compiled
// once for all instruction sets.
#include "virtual/async/mbarrier.h"
#include "virtual/async/sync_instructions.h"
#include "virtual/ops/rows.h"
#include "virtual/state/generic_operands.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

void nop(Warp&, const Op&) {}

#define SHARED "[.shared|.shared::cta]"
#define ANY_SHARED "[.shared|.shared::cta|.shared::cluster]"
#define ARRIVES "[.release|.relaxed][.cta|.cluster]" ANY_SHARED ".b64"
#define WAITS "[.acquire|.relaxed][.cta|.cluster]" SHARED ".b64"

const Row kRows[] = {
    {"mbarrier.init" SHARED ".b64", Bind::kGeneric, "@w", mbarrier_init},
    {"mbarrier.inval" SHARED ".b64", Bind::kGeneric, "@", mbarrier_inval},
    {"mbarrier.arrive[.noComplete]" ARRIVES, Bind::kGeneric, "L@w?", mbarrier_arrive},
    {"mbarrier.arrive_drop[.noComplete]" ARRIVES, Bind::kGeneric, "L@w?", mbarrier_arrive_drop},
    {"mbarrier.arrive.expect_tx" ARRIVES, Bind::kGeneric, "L@w", mbarrier_arrive_expect},
    {"mbarrier.expect_tx[.relaxed][.cta|.cluster]" ANY_SHARED ".b64", Bind::kGeneric, "@w",
     mbarrier_expect},
    {"mbarrier.complete_tx[.relaxed][.cta|.cluster]" ANY_SHARED ".b64", Bind::kGeneric, "@w",
     mbarrier_complete},
    {"mbarrier.test_wait" WAITS, Bind::kGeneric, "P@l", mbarrier_test_state},
    {"mbarrier.test_wait.parity" WAITS, Bind::kGeneric, "P@w", mbarrier_test_parity},
    {"mbarrier.try_wait" WAITS, Bind::kGeneric, "P@lw?", mbarrier_try_state},
    {"mbarrier.try_wait.parity" WAITS, Bind::kGeneric, "P@ww?", mbarrier_try_parity},

    {"membar.(cta|gl|sys)", Bind::kNone, "", fence_device},
    {"fence[.sc|.acq_rel|.acquire|.release].(cta|cluster|gpu|sys)", Bind::kNone, "", fence_device},
    {"fence.proxy.alias", Bind::kNone, "", nop},
    {"fence.proxy.async[.global|.shared::cta|.shared::cluster]", Bind::kNone, "",
     fence_proxy_async},
    {"fence.mbarrier_init.release.cluster", Bind::kNone, "", fence_mbarrier_init},

    {"barrier.cluster.arrive[.release|.relaxed][.aligned]", Bind::kGeneric, "", cluster_arrive},
    {"barrier.cluster.wait[.acquire][.aligned]", Bind::kGeneric, "", cluster_wait, kRowMayBlock},
    {"mapa[.shared::cluster].u32", Bind::kGeneric, "Www", map_shared_32},
    {"mapa[.shared::cluster].u64", Bind::kGeneric, "Llw", map_shared_64},
    {"getctarank[.shared::cluster].u32", Bind::kGeneric, "Ww", shared_rank_32},
    {"getctarank[.shared::cluster].u64", Bind::kGeneric, "Wl", shared_rank_64},

    {"setmaxnreg.dec.sync.aligned.u32", Bind::kImmediate, "", set_registers_down},
    {"setmaxnreg.inc.sync.aligned.u32", Bind::kImmediate, "", set_registers_up, kRowMayBlock},
    // These do nothing, because one launch runs at a time.
    {"griddepcontrol.(wait|launch_dependents)", Bind::kNone, "", nop},
};

}  // namespace

LSSAR_ROWS(kSyncRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
