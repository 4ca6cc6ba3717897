// The fields of a tensor map that a kernel can replace. Used by the codec and by the virtual
// device.
//
// NOTE: the handlers of the virtual device include this header and are compiled for several
// instruction sets; it must stay free of inline functions.
#pragma once

#include <cstdint>

namespace lssar::vdev {

// What tensormap.replace can replace.
enum class TensorMapField : uint8_t {
  kGlobalAddress,
  kRank,  // less 1
  kBoxDim,
  kGlobalDim,
  kGlobalStride,
  kElementStride,
  kType,  // as the PTX ISA numbers types, which is not as the driver does
  kInterleave,
  kSwizzle,
  kFill,
};

}  // namespace lssar::vdev
