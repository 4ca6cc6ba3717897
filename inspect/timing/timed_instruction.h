// An instruction as the timing model sees it: what it waits for, which unit executes it, for how
// long, and when its result can be used.
//
// Internal to inspect/. Threads: plain values and pure functions.
#pragma once

#include <cstdint>

#include "inspect/sass.h"
#include "inspect/timing/timing_constants.h"

namespace lssar {

enum class SmPipe : uint8_t {
  kFma,       // two pipes of half rate: multiply-adds, sums and products in float32
  kFmaHeavy,  // only the first of them: integer multiply-adds, packed 16-bit arithmetic
  kAlu,
  kUniform,  // the scalar unit
  kSpecial,
  kTensor,
  kShared,
  kMemory,
  kNone,  // branches, barriers: only an issue slot
};

enum class Action : uint8_t {
  kPlain,
  kProduct,      // HGMMA: goes to the tensor core's queue
  kProductWait,  // WARPGROUP.DEPBAR: until at most `pending` groups of HGMMA are in flight
  kDataWait,     // a test of an mbarrier, whose data TMA brings
  kSync,         // BAR.SYNC
  kArrive,       // BAR.ARV
};

struct TimedInstruction {
  uint32_t address = 0;
  SassClass sass_class = SassClass::kOther;
  SmPipe pipe = SmPipe::kNone;
  Action action = Action::kPlain;
  SassControl control;
  int clocks = 0;   // in its pipe
  int latency = 0;  // from its start there to its result

  // kProduct
  int columns = 0;            // n of the shape
  int operand_bytes = 0;      // that the warp group's product reads from shared memory
  int streamed_bytes = 0;     // of these, B's
  bool is_fresh = false;      // begins a sum
  bool ends_group = false;    // commits a group
  uint32_t accumulator = 0;   // first register of the sum
  int pending = 0;            // kProductWait
  int barrier = kOwnBarrier;  // kSync, kArrive: its number
  int barrier_threads = 0;    // that complete it

  // The number stands in a register: each warp group has its own.
  static constexpr int kOwnBarrier = -1;
};

// kInvalidArgument: its control word is missing, or an HGMMA has a shape that is not understood.
Result<TimedInstruction> timed_instruction(const SassInstruction& in,
                                           const TimingConstants& constants);

}  // namespace lssar
