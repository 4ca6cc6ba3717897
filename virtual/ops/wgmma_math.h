// The arithmetic of wgmma; reached by the asynchronous engine through HandlerSet::wgmma.
#pragma once

#include "virtual/program/wgmma.h"
#include "virtual/state/registers.h"

namespace lssar::vdev::LSSAR_SIMD {

// D = A B [+ D] for the call's warps. Operands are read, then sums written; nothing is checked.
void execute_wgmma(const WgmmaCall& call);

}  // namespace lssar::vdev::LSSAR_SIMD
