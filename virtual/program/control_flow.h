// Basic blocks of a kernel, in the order in which diverged lanes run.
//
// A warp always runs its lanes at the lowest block. So a block must come after every block from
// which lanes may still reach it without going round a loop, and a loop's blocks must come before
// its exits. Lanes that diverged then meet again where their paths join.
#pragma once

#include <cstdint>
#include <vector>

#include "virtual/program/kernel_program.h"

namespace lssar::vdev {

// How an instruction ends a block. kFall: it does not end one.
struct InstructionFlow {
  Terminator terminator = Terminator::kFall;
  bool guarded = false;
  uint32_t target = 0;                           // instruction, of kJump and kBranch
  const std::vector<uint32_t>* table = nullptr;  // instructions, of kTable
};

struct FlowBlock {
  uint32_t begin = 0;  // instructions [begin, end)
  uint32_t end = 0;
  Terminator terminator = Terminator::kFall;
  std::vector<uint32_t> successors;  // taken first, then next; kNoBlock: the kernel's end
};

struct ControlFlow {
  std::vector<FlowBlock> blocks;  // reachable ones only; 0 is the entry
};

// `flow` has one entry per instruction. Targets may be one past the last instruction.
ControlFlow build_control_flow(const std::vector<InstructionFlow>& flow);

}  // namespace lssar::vdev
