// cp.async.mbarrier.arrive: an arrival at a barrier once the cp.async copies of a lane have come.
// Used by the rows of ops/bulk_ops.cpp; delivery of copies also by those of ops/async_ops.cpp. One
// thread at a time.
#pragma once

#include "virtual/state/warp.h"

namespace lssar::vdev {

// Moves the bytes of these lanes of a copy.
void deliver_copy(Warp& warp, const AsyncCopy& copy, uint32_t lanes);

// Handlers: [barrier], as Bind::kGeneric has it.
// The expected arrivals grow by the one that will come.
void copy_arrive(Warp& warp, const Op& op);
// The arrival is one of those that are expected.
void copy_arrive_noinc(Warp& warp, const Op& op);

}  // namespace lssar::vdev
