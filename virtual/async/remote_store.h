// st.async and red.async: a lane sends values to the shared memory of a block of the cluster, and
// they complete on an mbarrier there. Used by the rows of ops/bulk_ops.cpp. One thread at a time.
//
// NOTE: PTX performs them in the generic proxy, so they need no fence.proxy.async.
#pragma once

#include "virtual/state/warp.h"

namespace lssar::vdev {

// Handlers. Bind::kGeneric says where their operands are: [address], values, [barrier].
void store_async_1x32(Warp& warp, const Op& op);
void store_async_2x32(Warp& warp, const Op& op);
void store_async_4x32(Warp& warp, const Op& op);
void store_async_1x64(Warp& warp, const Op& op);
void store_async_2x64(Warp& warp, const Op& op);
// Row::arg: BulkReduceOp << 1.
void reduce_async_u32(Warp& warp, const Op& op);
void reduce_async_s32(Warp& warp, const Op& op);
void reduce_async_u64(Warp& warp, const Op& op);

}  // namespace lssar::vdev
