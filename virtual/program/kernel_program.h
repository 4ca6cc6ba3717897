// A decoded kernel: what a block runner executes and what reports name. Immutable once made.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "virtual/program/program.h"
#include "virtual/ptx/ptx_ast.h"

namespace lssar::vdev {

inline constexpr uint32_t kNoBlock = 0xffffffffu;

enum class Terminator : uint8_t {
  kFall,     // into `next`
  kJump,     // to `taken`
  kBranch,   // lanes whose guard holds to `taken`, the others to `next`
  kTable,    // each lane to the entry its index names
  kExit,     // lanes whose guard holds exit, the others go to `next`
  kBarrier,  // then `next`
};

// Ops [first_op, first_op + num_ops); every terminator but kFall has an op of its own after them.
struct BasicBlock {
  uint32_t first_op = 0;
  uint32_t num_ops = 0;
  uint32_t num_instructions = 0;  // the terminator's included
  bool may_block = false;         // an op may wait, other than the terminator
  Terminator terminator = Terminator::kFall;
  uint32_t taken = kNoBlock;
  uint32_t next = kNoBlock;  // kNoBlock: the kernel ends there
};

// Registers that are filled before a warp runs.
enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneId,
  kWarpId,
  kNumWarps,
  kSmId,
  kNumSms,
  kGridId,
  kLaneMaskEq,
  kLaneMaskLt,
  kLaneMaskLe,
  kLaneMaskGt,
  kLaneMaskGe,
  kDynamicShared,
  kTotalShared,
  kClusterCtaidX,
  kClusterCtaidY,
  kClusterCtaidZ,
  kClusterNctaidX,
  kClusterNctaidY,
  kClusterNctaidZ,
  kClusterCtarank,
  kClusterNctarank,
  kClusteridX,
  kClusteridY,
  kClusteridZ,
  kNclusteridX,
  kNclusteridY,
  kNclusteridZ,
};
// What the strict mode needs to know of an op beyond how to execute it.
enum class MemoryUse : uint8_t { kNone, kRead, kWrite, kAtomic, kCopyAsync };
enum class TaintKind : uint8_t {
  kByLane,   // a lane's results depend on its own operands
  kWarp,     // on those of all lanes
  kShuffle,  // on those of the lanes they are taken from
  kSelect,   // dst = c ? a : b
  kAnd,      // predicates: dst = a && b
  kOr,
  kMma,
  kMatrix,  // ldmatrix and stmatrix
  kMemory,  // op.list or op.dst and memory
  kWgmma,   // the unit does it
  kDefined,
};
struct OpFacts {
  MemoryUse access = MemoryUse::kNone;
  TaintKind taint = TaintKind::kByLane;
  bool strong = false;  // atomic, volatile, relaxed ...
  bool acquires = false;
  bool releases = false;
  bool whole_warp = false;  // its accesses are made by the warp, not by lanes
  bool transposed = false;
  bool wgmma_registers = false;  // touches a register that a wgmma uses
  bool own_shared = false;       // .shared or .shared::cta: of the block's own only
  // Registers, as ranges of KernelProgram::op_registers.
  uint32_t reads_begin = 0, reads_end = 0, writes_end = 0;
};
struct Constant {
  uint32_t offset;
  RegClass reg_class;
  uint64_t bits;
  bool in_shared = false;  // an address in the block's shared memory, yet without its rank
};
struct SpecialRegister {
  uint32_t offset;
  Special which;
};

struct KernelProgram {
  std::string name;
  // Why it cannot be run, if so: what follows is then not all there.
  Status refusal;
  std::vector<Op> ops;
  std::vector<uint32_t> op_instruction;  // index into parsed->instructions
  std::vector<OpFacts> facts;            // by op
  std::vector<uint32_t> op_registers;    // offsets
  std::vector<BasicBlock> blocks;        // in order of priority: the entry is 0
  std::deque<std::vector<uint32_t>> lists;

  uint32_t register_bytes = 0;  // of a warp
  std::vector<Constant> constants;
  std::vector<SpecialRegister> specials;
  // Registers a path may read before it writes them, as [offset, bytes]: poisoned.
  std::vector<std::array<uint32_t, 2>> undefined;
  // Offsets of those whose use the strict mode looks for: not those of wgmma, whose sums compilers
  // leave undefined until one with scale-d 0 sets them.
  std::vector<uint32_t> followed_undefined;

  uint32_t params_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_offset = 0;  // where extern shared variables begin
  bool uses_dynamic_shared = false;
  // Its waits trap by themselves (templates/ptx/wait_limit.cuh): lanes that poll are no deadlock.
  bool limits_waits = false;
  uint32_t local_bytes = 0;  // per lane
  uint32_t max_threads = 0;  // 0: not given
  std::array<uint32_t, 3> required_block = {0, 0, 0};
  bool has_required_block = false;

  const ParsedKernel* parsed = nullptr;
  const HandlerSet* handlers = nullptr;

  const OpFacts& facts_of(const Op& op) const {
    return facts[static_cast<size_t>(&op - ops.data())];
  }
  uint32_t index_of(const Op& op) const { return static_cast<uint32_t>(&op - ops.data()); }
  const Instruction& instruction(const Op& op) const {
    return parsed->instructions[op_instruction[static_cast<size_t>(&op - ops.data())]];
  }
};

}  // namespace lssar::vdev
