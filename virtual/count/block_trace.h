// BlockTrace: what the warps of one cluster of blocks executed and what each waited for, in the
// order in which the virtual device ran them. Recorded if VirtualOptions::trace is set; read by
// inspect/timeline.h.
//
// The order is one of several possible ones. Which event must follow which is decided by the
// barriers that events name, not by their order. Plain values. Threads: the thread that runs the
// block writes the trace; read it after the launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/launch_counters.h"

namespace lssar {

enum class TraceKind : uint8_t {
  kRun,     // `amount` instructions from `instruction` on
  kLoad,    // began a bulk copy of `amount` bytes into shared memory, which ends on `barrier`
  kStore,   // began a bulk copy or sum of `amount` bytes out of shared memory
  kArrive,  // arrived at the mbarrier
  kPolled,  // found the mbarrier's phase incomplete
  kPassed,  // found it complete
  kBarrierArrive,  // came to a barrier of the block (bar), or of the cluster
  kBarrierPass,    // went on from that barrier
};

inline constexpr uint32_t kNoPhase = 0xffffffffu;  // passed a barrier that nobody had used yet
inline constexpr uint32_t kClusterBarrier = 0xffffffffu;  // `barrier` of kBarrierArrive and -Pass

struct TraceEvent {
  TraceKind kind = TraceKind::kRun;
  uint16_t warp = 0;         // in the cluster; those of block 0 come first
  uint32_t instruction = 0;  // index of KernelTrace::instructions
  uint32_t lanes = 0;        // mask
  // An mbarrier: block of the cluster * 2^24 + its address. Another barrier: block * 2^24 + its
  // number.
  uint32_t barrier = 0;
  uint32_t phase = 0;    // of the barrier: how many phases had completed
  uint32_t amount = 0;   // instructions or bytes
  uint32_t address = 0;  // in shared memory, of kLoad and kStore
};

// What the trace needs to know of an instruction besides that it ran.
enum class TraceUse : uint8_t {
  kOther,
  kProduct,       // wgmma: in flight until it is waited for; `amount`: FLOP of the four warps
  kWarpProduct,   // mma: `amount`: FLOP
  kProductGroup,  // wgmma.commit_group
  kProductWait,   // wgmma.wait_group; `amount`: groups that may be in flight
  kCopy,          // cp.async; `amount`: bytes per lane
  kCopyGroup,
  kCopyWait,
  kStoreGroup,  // cp.async.bulk.commit_group
  kStoreWait,
};

struct TraceInstruction {
  uint32_t line = 0;  // of the PTX
  InstructionClass instruction_class = InstructionClass::kControl;
  TraceUse use = TraceUse::kOther;
  uint32_t amount = 0;
};

// The trace of a kernel's first launch.
struct KernelTrace {
  std::string kernel;
  uint32_t warps_per_block = 0;
  uint32_t num_blocks = 0;  // of the cluster
  uint32_t shared_bytes = 0;
  std::vector<TraceInstruction> instructions;
  std::vector<TraceEvent> events;
  bool is_cut = false;  // there were more events than BlockTrace::max_events
};

struct BlockTrace {
  uint64_t cluster = 0;                 // index in the grid; the last cluster if the grid has fewer
  size_t max_events = size_t{1} << 20;  // of a kernel
  std::vector<KernelTrace> kernels;     // in the order of their first launch
};

}  // namespace lssar
