// The fields of a tensor map that a kernel can replace. Used by the codec and by the virtual
// device.
//
// NOTE: the virtual device's handlers include this header and are compiled for several instruction
// sets. It must stay free of inline functions.
#pragma once

#include <cstdint>

namespace lssar::vdev {

// The fields that tensormap.replace can replace.
enum class TensorMapField : uint8_t {
  kGlobalAddress,
  kRank,  // the rank minus 1
  kBoxDim,
  kGlobalDim,
  kGlobalStride,
  kElementStride,
  kType,  // numbered as in the PTX ISA, which differs from the driver's numbers
  kInterleave,
  kSwizzle,
  kFill,
};

}  // namespace lssar::vdev
