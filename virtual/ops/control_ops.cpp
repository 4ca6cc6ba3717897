// Control flow, barriers and fences, and the whole of what an instruction set provides.
#include "virtual/ops/rows.h"
#include "virtual/ops/wgmma_math.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

void nop(Warp&, const Op&) {}
void trap(Warp& w, const Op& op) { raise_fault(w, op, "trap"); }
void breakpoint(Warp& w, const Op& op) { raise_fault(w, op, "brkpt: a breakpoint"); }

// run_masked of an op whose lanes do not see each other.
void blended(Warp& w, const Op& op) {
  Op scratch = op;
  scratch.dst = kScratchOffset;
  op.core(w, scratch);
  const u32 mask = w.mask;
  switch (op.count) {  // 4-byte units of the result
    case 1: {
      store_mask(w, op.dst, mask_of(w, kScratchOffset));
      break;
    }
    case 16:
      store_lanes(w, op.dst, lanes<u16>(w, kScratchOffset));
      break;
    case 32:
      store_lanes(w, op.dst, lanes<u32>(w, kScratchOffset));
      break;
    default:
      store_lanes(w, op.dst, lanes<u64>(w, kScratchOffset));
      break;
  }
  w.mask = mask;
}

inline u32 guard_mask(const Warp& w, const Op& op) {
  return mask_of(w, op.guard) ^ (op.guard_negated ? kAllLanes : 0);
}

void guarded(Warp& w, const Op& op) {
  const u32 mask = w.mask;
  w.mask = mask & guard_mask(w, op);
  if (w.mask != 0) op.core(w, op);
  w.mask = mask;
}

void guarded_blended(Warp& w, const Op& op) {
  const u32 mask = w.mask;
  w.mask = mask & guard_mask(w, op);
  if (w.mask == w.live) {
    op.core(w, op);
  } else if (w.mask != 0) {
    blended(w, op);
  }
  w.mask = mask;
}

constexpr uint8_t barrier(BarrierKind kind, Combine combine = Combine::kNone) {
  return static_cast<uint8_t>(static_cast<uint8_t>(kind) | static_cast<uint8_t>(combine) << 2);
}

#define BARRIER(form, operands, arg)                              \
  {"bar[.cta]." form, Bind::kBarrier, operands, nullptr, arg}, {  \
    "barrier[.cta]." form, Bind::kBarrier, operands, nullptr, arg \
  }

const Row kRows[] = {
    {"bra[.uni]", Bind::kBranch, "", nullptr},
    {"brx.idx[.uni]", Bind::kTable, "w", nullptr},
    {"exit", Bind::kExit, "", nullptr},
    {"ret[.uni]", Bind::kExit, "", nullptr},
    BARRIER("sync[.aligned]", "", barrier(BarrierKind::kSync)),
    BARRIER("arrive[.aligned]", "", barrier(BarrierKind::kArrive)),
    BARRIER("red.and[.aligned].pred", "p", barrier(BarrierKind::kReduce, Combine::kAnd)),
    BARRIER("red.or[.aligned].pred", "p", barrier(BarrierKind::kReduce, Combine::kOr)),
    BARRIER("red.popc[.aligned].u32", "w", barrier(BarrierKind::kReduce, Combine::kPopc)),
    BARRIER("red[.aligned].and.pred", "p", barrier(BarrierKind::kReduce, Combine::kAnd)),
    BARRIER("red[.aligned].or.pred", "p", barrier(BarrierKind::kReduce, Combine::kOr)),
    BARRIER("red[.aligned].popc.u32", "w", barrier(BarrierKind::kReduce, Combine::kPopc)),
    {"trap", Bind::kNone, "", trap},
    {"brkpt", Bind::kNone, "", breakpoint},
    {"nanosleep.u32", Bind::kNone, "w", nop},
};

// The first row that matches and fits is used, so narrow conversions come before the general one.
const RowSpan* const kSpans[] = {
    &kIntegerRows,  &kBitRows,    &kCarryRows,   &kPackedRows,    &kFloatRows,
    &kRoundingRows, &kHalfRows,   &kApproxRows,  &kCompareRows,   &kNarrowRows,
    &kConvertRows,  &kMoveRows,   &kMemoryRows,  &kAtomicRows,    &kAsyncRows,
    &kBulkRows,     &kMatrixRows, &kMmaByteRows, &kMmaDoubleRows, &kMmaIntegerRows,
    &kWgmmaRows,    &kWarpRows,   &kCallRows,    &kControlRows,   &kSyncRows,
};

}  // namespace

LSSAR_ROWS(kControlRows, kRows);

const HandlerSet kHandlerSet = {kSpans,          sizeof kSpans / sizeof kSpans[0],
                                blended,         guarded,
                                guarded_blended, execute_wgmma,
                                &kDeliverCopies};

}  // namespace lssar::vdev::LSSAR_SIMD
