// The arithmetic of wgmma. The asynchronous engine reaches it through HandlerSet::wgmma.
#pragma once

#include "virtual/program/wgmma.h"
#include "virtual/state/registers.h"

namespace lssar::vdev::LSSAR_SIMD {

// D = A B [+ D] for the call's warps. Reads all operands before it writes sums; checks nothing.
void execute_wgmma(const WgmmaCall& call);

}  // namespace lssar::vdev::LSSAR_SIMD
