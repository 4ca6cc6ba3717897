// What cp.reduce.async.bulk does with the elements of its source and destination.
//
// Used by the bulk instructions. Threads: each element is updated atomically, because reductions of
// several host threads, and atomics of kernels, may meet in one element.
#pragma once

#include <cstdint>

#include "device/tensor_map.h"
#include "virtual/program/bulk_operands.h"

namespace lssar::vdev {

// Applies to `bytes` of whole elements: destination = op(destination, source).
using BulkReduce = void (*)(uint8_t* destination, const uint8_t* source, uint32_t bytes);

// Null if PTX has no such operation. .b32 and .b64 are kU32 and kU64. Sums of f32 flush subnormals,
// as in global memory on hardware; sums of f16 and bf16 (.noftz) do not.
BulkReduce bulk_reduce(BulkReduceOp op, NumberType type);

// The element type of reductions through a tensor map; false: the map's type has no reductions.
bool bulk_reduce_type(TensorDataType type, NumberType& number);

}  // namespace lssar::vdev
