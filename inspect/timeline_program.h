// Turns a trace's events into steps of each warp that a clock can run: work, signals and waits.
// Polls of barriers are left out, because warps of a GPU sleep while they wait.
//
// Used by timeline.cpp alone. Threads: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "virtual/count/block_trace.h"

namespace lssar {

// (what, phase): an mbarrier's, or a barrier's of the block or cluster (with kNamedBarrier).
using SignalKey = std::pair<uint64_t, uint32_t>;
inline constexpr uint64_t kNamedBarrier = uint64_t{1} << 32;

struct WarpStep {
  enum class Kind : uint8_t {
    kWork,  // `instructions`, including `special`; `amount`: FLOP of mma
    kLoad,  // a bulk copy: signals `key` when it is done
    kStore,
    kSignal,       // `key`
    kWait,         // for `key`
    kProduct,      // wgmma: `amount` FLOP of its group
    kProductWait,  // until `amount` products are done
    kCopy,         // cp.async
    kGroupEnd,     // of copies and stores
    kGroupWait,    // until all groups except the last `amount` are done
  };
  Kind kind = Kind::kWork;
  uint32_t instruction = 0;  // of the trace; for work, the first one
  uint32_t instructions = 0;
  uint32_t special = 0;
  uint64_t amount = 0;  // bytes or FLOP
  uint32_t address = 0;
  SignalKey key = {};
};

struct TraceProgram {
  std::vector<std::vector<WarpStep>> warps;
  std::map<SignalKey, int> signals;  // how many signals each needs
};

TraceProgram make_program(const KernelTrace& trace);

}  // namespace lssar
