// The handler sets that this build has: one per instruction set, or with LSSAR_NATIVE_SIMD one.
#pragma once

#include "virtual/program/program.h"
#include "virtual/program/simd_level.h"

namespace lssar::vdev {

// Null where the build leaves the level out, and for kAuto.
const HandlerSet* handler_set(SimdLevel level);

// `wanted` if it is one of `levels`, which are in order; kAuto becomes the last. kInvalidArgument
// says what there is.
Result<SimdLevel> choose_simd_level(SimdLevel wanted, const std::vector<SimdLevel>& levels);

}  // namespace lssar::vdev
