// cp.async.mbarrier.arrive: an arrival at a barrier once a lane's cp.async copies have come. Used
// by the rows of ops/bulk_ops.cpp; those of ops/async_ops.cpp deliver copies with it, too. One
// thread at a time.
#pragma once

#include "virtual/state/warp.h"

namespace lssar::vdev {

// Moves the bytes of these lanes of a copy.
void deliver_copy(Warp& warp, const AsyncCopy& copy, uint32_t lanes);

// Handlers: [barrier], as Bind::kGeneric has it.
// Adds the arrival to those that the barrier expects.
void copy_arrive(Warp& warp, const Op& op);
// The barrier expects the arrival already.
void copy_arrive_noinc(Warp& warp, const Op& op);

}  // namespace lssar::vdev
