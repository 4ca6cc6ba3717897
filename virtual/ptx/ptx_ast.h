// What the parser makes of PTX text: variables, kernels, instructions and their operands. Views
// point into the text, which the module owns. Immutable after parsing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "virtual/ptx/state_space.h"

namespace lssar::vdev {

// How wide one lane of a register is.
enum class RegClass : uint8_t { kPred, k16, k32, k64 };
inline constexpr int kNumRegClasses = 4;

struct Variable {
  std::string_view name;
  StateSpace space = StateSpace::kGlobal;
  uint64_t align = 1;
  uint64_t bytes = 0;  // 0: extern, sized by the launch (shared only)
  bool is_extern = false;
  std::vector<uint8_t> init;  // empty: zeros
  // Addresses of other variables in `init`: 8 bytes at `offset`.
  struct Relocation {
    uint64_t offset;
    std::string_view symbol;
    uint32_t line;
  };
  std::vector<Relocation> relocations;
  // Its address in its space. For global and const it is assigned when the module is loaded.
  uint64_t address = 0;
  uint32_t line = 0;
};

enum class OperandKind : uint8_t {
  kRegister,  // index: register
  kSpecial,   // text: %tid.x ...
  kInteger,   // value
  kFloat32,   // value: bits
  kFloat64,   // value: bits
  kVariable,  // index: variable; value: byte offset
  kParam,     // index: kernel parameter; value: byte offset
  kLabel,     // index: the instruction after it
  kTable,     // index: branch table
  kVector,    // index: first of `count` elements in the operand pool
  kPair,      // p|q: like a vector of two
  kAddress,   // [base + value]: like a vector of the base (and what follows a comma in
              // the brackets); count 0: [value]
  kSink,      // _
};

struct Operand {
  OperandKind kind = OperandKind::kSink;
  bool negated = false;  // !p, or -%r
  uint32_t index = 0;
  uint32_t count = 0;
  int64_t value = 0;
  std::string_view text;
};

struct Instruction {
  std::string_view opcode;  // with all modifiers; after loading in the order of the table's rows
  std::string_view text;    // from guard to semicolon
  uint32_t line = 0;
  int32_t guard = -1;  // register; -1: none
  bool guard_negated = false;
  uint32_t first_operand = 0;
  uint32_t num_operands = 0;
};

// A statement of a kernel that the device does not know: what it is, and where.
struct UnknownStatement {
  uint32_t line;
  std::string_view text;
  std::string what;
};

struct ParsedKernel {
  std::string_view name;
  uint32_t line = 0;
  std::vector<RegClass> registers;
  std::vector<Instruction> instructions;
  std::vector<Operand> operands;  // the pool
  // Not empty: the kernel cannot be run, and what follows these statements may be missing.
  std::vector<UnknownStatement> unknown;
  std::vector<Variable> params;  // address: offset in the argument
  uint32_t params_bytes = 0;
  std::vector<std::vector<uint32_t>> branch_tables;  // of .branchtargets: instruction indices
  uint32_t max_threads = 0;                          // 0: not given
  uint32_t min_blocks = 0;                           // per multiprocessor
  uint32_t max_registers = 0;                        // per thread
  uint32_t required_block[3] = {0, 0, 0};
  bool has_required_block = false;
  uint32_t required_cluster[3] = {1, 1, 1};
  bool has_required_cluster = false;
  bool explicit_cluster = false;
};

struct ParsedModule {
  std::string text;
  std::string target;               // "sm_80"
  std::vector<Variable> variables;  // of the module and of every kernel body
  std::vector<std::unique_ptr<ParsedKernel>> kernels;
  std::deque<std::string> spellings;  // of opcodes whose modifiers the text has in another order
};

inline uint32_t class_bytes(RegClass c) {
  switch (c) {
    case RegClass::kPred:
      return 4;  // a mask of 32 lanes
    case RegClass::k16:
      return 64;
    case RegClass::k32:
      return 128;
    case RegClass::k64:
      return 256;
  }
  return 0;
}

}  // namespace lssar::vdev
