// The tables of rows that the handler files define, per instruction set.
#pragma once

#include "virtual/state/registers.h"

namespace lssar::vdev::LSSAR_SIMD {

extern const RowSpan kIntegerRows;
extern const RowSpan kBitRows;
extern const RowSpan kCarryRows;
extern const RowSpan kPackedRows;
extern const RowSpan kFloatRows;
extern const RowSpan kRoundingRows;
extern const RowSpan kHalfRows;
extern const RowSpan kApproxRows;
extern const RowSpan kCompareRows;
extern const RowSpan kNarrowRows;
extern const RowSpan kConvertRows;
extern const RowSpan kMoveRows;
extern const RowSpan kMemoryRows;
extern const RowSpan kAtomicRows;
extern const RowSpan kAsyncRows;
extern const RowSpan kBulkRows;
extern const RowSpan kMatrixRows;
extern const RowSpan kMmaByteRows;
extern const RowSpan kMmaDoubleRows;
extern const RowSpan kMmaIntegerRows;
extern const RowSpan kWgmmaRows;
extern const RowSpan kWarpRows;
extern const RowSpan kCallRows;
extern const RowSpan kControlRows;
extern const RowSpan kSyncRows;

extern const DeliverCopies kDeliverCopies;

// Everything this instruction set provides.
// NOTE: a constant, not a function, because code of this folder must not run on a machine that
// lacks the instruction set.
extern const HandlerSet kHandlerSet;

}  // namespace lssar::vdev::LSSAR_SIMD

#define LSSAR_ROWS(name, array) \
  extern const RowSpan name;    \
  const RowSpan name = {array, static_cast<uint32_t>(sizeof array / sizeof array[0])}
