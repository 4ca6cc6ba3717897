// Products of warp groups. Rows only: their handlers are compiled once for all instruction sets.
#include "virtual/async/wgmma_unit.h"
#include "virtual/ops/rows.h"
#include "virtual/state/generic_operands.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

#define WGMMA_N                                                                     \
  "(8|16|24|32|40|48|56|64|72|80|88|96|104|112|120|128|136|144|152|160|168|176|184" \
  "|192|200|208|216|224|232|240|248|256)"
// Integer products have fewer widths.
#define WGMMA_INTEGER_N "(8|16|24|32|48|64|80|96|112|128|144|160|176|192|208|224|240|256)"
#define WGMMA "wgmma.mma_async.sync.aligned.m64n" WGMMA_N

const Row kRows[] = {
    {WGMMA "k16.(f32|f16).f16.f16", Bind::kWgmma, "", wgmma_issue},
    {WGMMA "k16.f32.bf16.bf16", Bind::kWgmma, "", wgmma_issue},
    {WGMMA "k8.f32.tf32.tf32", Bind::kWgmma, "", wgmma_issue},
    {WGMMA "k32.(f32|f16).(e4m3|e5m2).(e4m3|e5m2)", Bind::kWgmma, "", wgmma_issue},
    {"wgmma.mma_async.sync.aligned.m64n" WGMMA_INTEGER_N "k32[.satfinite].s32.(s8|u8).(s8|u8)",
     Bind::kWgmma, "", wgmma_issue},
    {"wgmma.fence.sync.aligned", Bind::kNone, "", wgmma_fence},
    {"wgmma.commit_group.sync.aligned", Bind::kNone, "", wgmma_commit},
    {"wgmma.wait_group.sync.aligned", Bind::kImmediate, "", wgmma_wait, kRowMayBlock},
};

}  // namespace

LSSAR_ROWS(kWgmmaRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
