// Implements the poll limit of ptx/wait_limit.cuh, LSSAR_WAIT_SPINS. The library puts this before a
// source, so it cannot use anything of that source.
//
// After a trap no device memory can be read. So a wait that reaches half its limit writes its place
// to host memory, at the address that the host puts into lssar_wait_report. When the first wait
// reaches its full limit, all hanging waits have written.
#pragma once

#include "templates/kernels/wait_report.cuh"

// As a default argument: the line of the call, counted from the line in the source that defines
// kWaitBaseLine. A compiler without __builtin_LINE (NVRTC 12.4) gives a smaller number.
#if __has_builtin(__builtin_LINE)
#define LSSAR_CALLER_LINE (__builtin_LINE() - lssar_device::kWaitBaseLine)
#else
#define LSSAR_CALLER_LINE (0 - lssar_device::kWaitBaseLine)
#endif

namespace lssar_device {

extern "C" {
__device__ WaitReport* lssar_wait_report;
}

class SpinLimit {
 public:
  __device__ __forceinline__ SpinLimit(WaitKind kind, unsigned long long place,
                                       unsigned long long wanted, unsigned line)
      : record_{kind, line, 0, 0, place, wanted} {}

  // Called after each poll that failed.
  __device__ __forceinline__ void spin() {
    constexpr unsigned long long kLimit = LSSAR_WAIT_SPINS;
    ++spins_;
    if (spins_ == kLimit / 2) report();
    if (spins_ == kLimit) asm volatile("trap;");
  }

 private:
  // Writes one record for all lanes that wait here together.
  __device__ __forceinline__ void report() {
    asm("mov.u32 %0, %%tid.x;" : "=r"(record_.thread));
    unsigned active;
    asm volatile("activemask.b32 %0;" : "=r"(active));
    const bool is_first = (active & ((1u << record_.thread % 32) - 1)) == 0;
    WaitReport* const report = lssar_wait_report;
    if (!is_first || report == nullptr) return;
    unsigned index;
    asm volatile("atom.relaxed.sys.global.add.u32 %0, [%1], 1;"
                 : "=r"(index)
                 : "l"(&report->count)
                 : "memory");
    if (index >= unsigned{kMaxWaitRecords}) return;
    asm("mov.u32 %0, %%ctaid.x;" : "=r"(record_.block));
    report->records[index] = record_;
    asm volatile("fence.acq_rel.sys;" ::: "memory");
  }

  WaitRecord record_;
  unsigned long long spins_ = 0;
};

}  // namespace lssar_device
