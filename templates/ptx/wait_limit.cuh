// A limit of polls for every loop that waits, for debugging. A kernel compiled with
// -DLSSAR_WAIT_SPINS=N traps instead of hanging; the library compiles so where LSSAR_DEBUG_WAITS is
// set. Without it, none of this is in the kernel.
//
// After a trap no memory of the device can be read. So a wait that has come to half its limit
// writes where it is into host memory, at the address that the host puts into lssar_wait_report.
// When the first wait reaches its limit, all that hang have written.
#pragma once

#include "templates/kernels/wait_report.cuh"
#include "templates/ptx/index.cuh"
#include "templates/ptx/types.cuh"

// As a default argument: the line of the call. 0 with a compiler that cannot tell (NVRTC 12.4).
#define LSSAR_CALLER_LINE 0
#ifdef LSSAR_WAIT_SPINS
#if __has_builtin(__builtin_LINE)
#undef LSSAR_CALLER_LINE
#define LSSAR_CALLER_LINE __builtin_LINE()
#endif
#endif

namespace lssar_device {

#ifdef LSSAR_WAIT_SPINS

inline constexpr u32 kWaitBaseLine = __LINE__;

extern "C" {
__device__ WaitReport* lssar_wait_report;
}

class SpinLimit {
 public:
  LSSAR_DEVICE SpinLimit(WaitKind kind, u64 place, u64 wanted, u32 line)
      : record_{kind, line - kWaitBaseLine, 0, 0, place, wanted} {}

  // Called after each poll that failed.
  LSSAR_DEVICE void spin() {
    constexpr u64 kLimit = LSSAR_WAIT_SPINS;
    ++spins_;
    if (spins_ == kLimit / 2) report();
    if (spins_ == kLimit) asm volatile("trap;");
  }

 private:
  // Writes one record for all lanes that are here together.
  LSSAR_DEVICE void report() {
    u32 active;
    asm volatile("activemask.b32 %0;" : "=r"(active));
    const bool is_first = (active & ((1u << lane_index()) - 1)) == 0;
    WaitReport* const report = lssar_wait_report;
    if (!is_first || report == nullptr) return;
    u32 index;
    asm volatile("atom.relaxed.sys.global.add.u32 %0, [%1], 1;"
                 : "=r"(index)
                 : "l"(&report->count)
                 : "memory");
    if (index >= u32{kMaxWaitRecords}) return;
    record_.block = block_index();
    record_.thread = static_cast<u32>(thread_index());
    report->records[index] = record_;
    asm volatile("fence.acq_rel.sys;" ::: "memory");
  }

  WaitRecord record_;
  u64 spins_ = 0;
};

#else

struct SpinLimit {
  LSSAR_DEVICE SpinLimit(WaitKind, u64, u64, u32) {}
  LSSAR_DEVICE void spin() const {}
};

#endif

}  // namespace lssar_device
