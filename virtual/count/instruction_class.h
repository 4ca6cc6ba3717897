// What an instruction counts as, from its opcode alone. Used by kernel_counts. Threads: pure
// functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/launch_counters.h"

namespace lssar::vdev {

// How an instruction's memory accesses are counted.
enum class AccessMode : uint8_t {
  kNone,  // not counted here: bulk copies count their bytes themselves
  kRead,
  kWrite,
  kAtomic,
  kCopy,  // reads global memory, writes shared memory
};

struct InstructionInfo {
  InstructionClass instruction_class = InstructionClass::kInteger;
  AccessMode access = AccessMode::kNone;
  bool is_barrier = false;
  TensorType tensor_type = TensorType::kF16;
  uint64_t tensor_flop = 0;  // per execution by a warp; for wgmma of all four warps
};

InstructionInfo classify(std::string_view opcode);

}  // namespace lssar::vdev
