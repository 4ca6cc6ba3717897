// Hooks for a limit of polls, which the library may add for debugging.
//
// The definitions here do nothing. With LSSAR_DEBUG_WAITS the library puts ptx/wait_limit_on.cuh
// before the source, and a kernel traps instead of hanging.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

#ifdef LSSAR_WAIT_SPINS
inline constexpr u32 kWaitBaseLine = __LINE__;
#else
#define LSSAR_CALLER_LINE 0  // as a default argument: the line of the call
enum WaitKind { kWaitMbarrier, kWaitTurn, kWaitCluster };
struct SpinLimit {
  LSSAR_DEVICE SpinLimit(WaitKind, u64, u64, u32) {}
  LSSAR_DEVICE void spin() const {}
};
#endif

}  // namespace lssar_device
