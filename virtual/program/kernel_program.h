// A decoded kernel: what a block runner executes and what reports name. Immutable once it is made.
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
  kBranch,   // lanes whose guard holds go to `taken`, the others to `next`
  kTable,    // each lane goes to the entry that its index names
  kExit,     // lanes whose guard holds exit, the others go to `next`
  kBarrier,  // then goes on to `next`
};

// Ops [first_op, first_op + num_ops). Every terminator but kFall has an op of its own after them.
struct BasicBlock {
  uint32_t first_op = 0;
  uint32_t num_ops = 0;
  uint32_t num_instructions = 0;  // including the terminator
  bool may_block = false;         // an op other than the terminator may wait
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
// What the strict mode needs to know of an op besides how to execute it.
enum class MemoryUse : uint8_t { kNone, kRead, kWrite, kAtomic, kCopyAsync };
enum class TaintKind : uint8_t {
  kByLane,   // a lane's results depend on its own operands
  kWarp,     // a lane's results depend on the operands of all lanes
  kShuffle,  // a lane's results depend on the lanes that its values are taken from
  kSelect,   // dst = c ? a : b
  kAnd,      // predicates: dst = a && b
  kOr,
  kMma,
  kMatrix,  // ldmatrix and stmatrix
  kMemory,  // between memory and op.list or op.dst
  kWgmma,   // the wgmma unit checks it
  kDefined,
};
struct OpFacts {
  MemoryUse access = MemoryUse::kNone;
  TaintKind taint = TaintKind::kByLane;
  bool strong = false;  // atomic, volatile, relaxed ...
  bool acquires = false;
  bool releases = false;
  bool whole_warp = false;  // the warp makes its accesses, not the lanes
  bool transposed = false;
  bool wgmma_registers = false;  // touches a register that a wgmma uses
  bool own_shared = false;       // .shared or .shared::cta: only the block's own memory
  // Registers, as ranges of KernelProgram::op_registers.
  uint32_t reads_begin = 0, reads_end = 0, writes_end = 0;
};
struct Constant {
  uint32_t offset;
  RegClass reg_class;
  uint64_t bits;
  bool in_shared = false;  // an address in the block's shared memory, without its rank
};
struct SpecialRegister {
  uint32_t offset;
  Special which;
};

struct KernelProgram {
  std::string name;
  // Why the kernel cannot be run; OK: it can. If it cannot, what follows is incomplete.
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
  // Registers that a path may read before it writes them, as [offset, bytes]. They are poisoned.
  std::vector<std::array<uint32_t, 2>> undefined;
  // Offsets of those whose use the strict mode reports. wgmma's registers are left out, because
  // compilers leave its sums undefined until a wgmma with scale-d 0 sets them.
  std::vector<uint32_t> followed_undefined;

  uint32_t params_bytes = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_offset = 0;  // where extern shared variables begin
  bool uses_dynamic_shared = false;
  // The kernel's waits trap by themselves (templates/ptx/wait_limit.cuh), so lanes that poll are no
  // deadlock.
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
