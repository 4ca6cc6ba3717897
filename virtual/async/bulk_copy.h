// The bulk instructions: copies and reductions of whole ranges or tensor boxes between global and
// shared memory, which run asynchronously and complete on an mbarrier or in a bulk group.
//
// Addresses, maps and sizes are checked when an instruction issues; memory is read and written when
// the async engine says so. Used by the rows of ops/bulk_ops.cpp. One thread at a time.
#pragma once

#include "virtual/state/warp.h"

namespace lssar::vdev {

// Handlers. Bind::kBulk says where their operands are.
void bulk_load(Warp& warp, const Op& op);
void bulk_store(Warp& warp, const Op& op);  // also reductions in global memory
void bulk_copy(Warp& warp, const Op& op);   // also reductions in shared memory
void bulk_prefetch(Warp& warp, const Op& op);
void create_policy(Warp& warp, const Op& op);  // a cache policy: d, and what it is made from
void bulk_commit_group(Warp& warp, const Op& op);
void bulk_wait_group(Warp& warp, const Op& op);       // Op::imm groups may be in flight
void bulk_wait_group_read(Warp& warp, const Op& op);  // the same for reads
// fence.proxy.tensormap. NOTE: a map that a kernel writes is checked like other memory that the
// async proxy reads. So fence.proxy.async is accepted too.
void fence_tensor_map(Warp& warp, const Op& op);

}  // namespace lssar::vdev
