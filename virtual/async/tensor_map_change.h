// Instructions by which a kernel changes a tensor map. tensormap.replace changes one field of a map
// in global or shared memory; tensormap.cp_fenceproxy copies a map from shared to global memory.
//
// Both access memory by the generic proxy. A user of the map needs fence.proxy.tensormap with
// .acquire, as after any other write to the map. Used by the rows of ops/bulk_ops.cpp.
#pragma once

#include "virtual/state/warp.h"

namespace lssar::vdev {

// Operands: address, value.
void replace_map_word(Warp& warp, const Op& op);
void replace_map_address(Warp& warp, const Op& op);
// Address, dimension, value.
void replace_map_dimension(Warp& warp, const Op& op);
void replace_map_stride(Warp& warp, const Op& op);
// Address, value. Both are literals; the PTX ISA's tables explain them.
void replace_map_mode(Warp& warp, const Op& op);
// Destination, source, size; by a whole warp.
void copy_map(Warp& warp, const Op& op);

}  // namespace lssar::vdev
