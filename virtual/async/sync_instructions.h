// Handlers of synchronising instructions and of cluster instructions. They are compiled once, for
// every instruction set. Bind::kGeneric says where their operands are.
#pragma once

#include "virtual/state/warp.h"

namespace lssar::vdev {

void fence_proxy_async(Warp& warp, const Op& op);
void fence_mbarrier_init(Warp& warp, const Op& op);
void fence_device(Warp& warp, const Op& op);  // of device scope or wider
void set_registers_down(Warp& warp, const Op& op);
void set_registers_up(Warp& warp, const Op& op);
void cluster_arrive(Warp& warp, const Op& op);
void cluster_wait(Warp& warp, const Op& op);
void map_shared_32(Warp& warp, const Op& op);  // d, address, rank
void map_shared_64(Warp& warp, const Op& op);
void shared_rank_32(Warp& warp, const Op& op);  // d, address
void shared_rank_64(Warp& warp, const Op& op);

}  // namespace lssar::vdev
