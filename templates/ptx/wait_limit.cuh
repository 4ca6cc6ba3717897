// A limit of polls for every loop that waits, for debugging: compiled with -DLSSAR_WAIT_SPINS=N, as
// the library does where LSSAR_DEBUG_WAITS is set, a kernel traps instead of hanging. Without it
// nothing of this is left.
//
// A trap leaves no memory of the device to be read. So waits that are at half their limit write
// where they are into memory of the host, whose address the host puts into lssar_wait_report; those
// that hang have then all done so when the first of them is at its limit.
#pragma once

#include "templates/kernels/wait_report.cuh"
#include "templates/ptx/index.cuh"
#include "templates/ptx/types.cuh"

// As a default argument, the line of the call; 0 of a compiler that cannot tell (NVRTC 12.4).
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

  // After each poll in vain.
  LSSAR_DEVICE void spin() {
    constexpr u64 kLimit = LSSAR_WAIT_SPINS;
    ++spins_;
    if (spins_ == kLimit / 2) report();
    if (spins_ == kLimit) asm volatile("trap;");
  }

 private:
  // One record for all lanes that are here together.
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
