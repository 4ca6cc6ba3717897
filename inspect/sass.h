// Machine code as a disassembler lists it: instructions with their class and source line, and the
// loops of every kernel.
//
// Used by `lssar inspect` and `lssar report`. Threads: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lssar {

enum class SassClass : uint8_t {
  kTensor,   // HMMA, HGMMA, ...
  kSpecial,  // MUFU
  kFma,
  kFloat,  // other floating arithmetic and comparison
  kConvert,
  kInteger,   // integer, logic, selects, predicates
  kMove,      // moves, special registers, constants
  kShared,    // shared memory, ldmatrix
  kGlobal,    // global memory, bulk copies
  kLocal,     // spills
  kExchange,  // shuffles, votes
  kSync,      // barriers, waits, fences
  kControl,   // branches, calls, exits
  kOther,
};
inline constexpr int kNumSassClasses = 14;
const char* sass_class_name(SassClass c);  // "tensor", "special", ...
// The class of an opcode with or without its suffixes: "HMMA.16816.F32.BF16".
SassClass sass_class(std::string_view opcode);

using SassCounts = std::array<uint32_t, kNumSassClasses>;

// What an instruction's words say to the scheduler of warps, from compute capability 7.0 on. The
// places of the fields are those of arXiv 1804.06826, section 2.
struct SassControl {
  static constexpr int kNoScoreboard = 7;
  static constexpr int kNumScoreboards = 6;

  int stall = 1;  // clocks from its issue to the issue of the warp's next instruction, at least
  bool yields = false;                   // another warp should issue next
  int write_scoreboard = kNoScoreboard;  // is open until the result has been written
  int read_scoreboard = kNoScoreboard;   // is open until the operands have been read
  uint32_t waits = 0;                    // bit i: waits until scoreboard i is not open

  bool operator==(const SassControl&) const = default;
};
// From an instruction's second (upper) 64-bit word.
SassControl decode_control(uint64_t upper_word);

struct SassInstruction {
  uint32_t address = 0;
  int line = 0;        // of the source; 0: not known
  std::string guard;   // "@!P0", or ""
  std::string opcode;  // "HMMA.16816.F32.BF16"
  std::string text;    // the whole instruction
  SassClass sass_class = SassClass::kOther;
  std::optional<SassControl> control;  // if the listing has the instructions' words
};

// Where an instruction may go. An instruction without an entry only goes to the next one.
struct SassBranch {
  uint32_t from = 0;              // index of the instruction
  std::vector<uint32_t> targets;  // indices
  bool falls_through = false;     // also to the next one
};

// A natural loop. Instructions of an inner loop count for the inner loop only.
struct SassLoop {
  uint32_t first_address = 0, last_address = 0;
  int depth = 1;                    // 1: in no other loop
  uint32_t header = 0;              // index of the instruction that every iteration begins with
  std::vector<uint32_t> own;        // indices of its instructions, ascending
  SassCounts every_iteration = {};  // of instructions that no branch goes around
  SassCounts at_most = {};          // of all its instructions
  bool is_hot = false;              // has matrix products, and no inner loop has
};

struct SassKernel {
  std::string name;
  std::vector<SassInstruction> instructions;
  std::vector<SassBranch> branches;  // by `from`
  std::vector<SassLoop> loops;       // by first address

  SassCounts counts() const;
};

// Parses the output of `nvdisasm -c`, with or without -g and -hex. kInvalidArgument: it has no
// instruction.
Result<std::vector<SassKernel>> parse_sass(std::string_view listing);

}  // namespace lssar
