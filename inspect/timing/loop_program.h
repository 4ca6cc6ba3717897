// What the simulator runs: one way through a loop, and how its warps depend on each other.
//
// Internal to inspect/. Threads: plain values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "inspect/sass.h"
#include "inspect/timing/loop_ways.h"
#include "inspect/timing/timed_instruction.h"

namespace lssar {

inline constexpr int kWarpGroup = 128;  // its threads: a warp of each scheduler

// How the warps of a scheduler meet at the loop's named barriers.
enum class Meeting : uint8_t {
  kNone,   // a barrier of one warp group, or one that cannot be followed: only its latency
  kTurn,   // BAR.SYNC waits for BAR.ARV of other warps: they take turns
  kEvery,  // all warps of a block wait for each other
};

struct LoopProgram {
  std::vector<TimedInstruction> instructions;
  std::vector<Meeting> meetings;  // by instruction
  int turn_passes = 1;            // BAR.ARV that begin a turn: of the previous warp, or of all others
  int blocks = 1;                 // of the SM
  int block_warps = 1;            // of one block on one scheduler: one of each warp group
  double data_clocks = 0;         // that the L2 takes to bring an iteration's tiles
  std::vector<std::string> notes;

  int warps() const { return blocks * block_warps; }
};

struct LoopSettings {
  int blocks = 1, block_warps = 1;  // as in LoopProgram
  // Whether products that continue a sum read tiles that TMA brings. In a forward they read v. In
  // a backward they read tiles again that products which begin a sum have read.
  bool streams_all_products = true;
  double l2_bytes_per_clock = 0;  // of one SM; 0: never waited for
};

// kInvalidArgument: as timed_instruction.
Result<LoopProgram> loop_program(const SassKernel& kernel, const LoopWay& way,
                                 const LoopSettings& settings, const TimingConstants& constants);

// Columns of the products that begin a sum, of the first such product's shape, and how many there
// are.
struct FreshProducts {
  int columns = 0, count = 0;
};
FreshProducts fresh_products(const LoopProgram& program);

// The longest run of instructions of one kind with at most one other between two of them.
struct InstructionRun {
  uint32_t address = 0;
  int length = 0;  // instructions of the kind
};
InstructionRun longest_run(const LoopProgram& program, SmPipe pipe);

}  // namespace lssar
