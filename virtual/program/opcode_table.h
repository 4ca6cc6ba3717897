// Finds the rows of a handler set that fit an opcode. One table per instruction set, made once;
// read by decoders on any thread.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "virtual/program/program.h"
#include "virtual/program/simd_level.h"

namespace lssar::vdev {

// Whether an opcode has the form of a row: "add[.rn].(u32|s32)" fits "add.rn.u32". Alternatives are
// tried in order, with backtracking.
bool opcode_matches(const char* pattern, std::string_view opcode);

// Whether ".v4" is one of the opcode's modifiers.
bool has_modifier(std::string_view opcode, std::string_view modifier);

class OpcodeTable {
 public:
  explicit OpcodeTable(const HandlerSet& handlers);

  const HandlerSet& handlers() const { return handlers_; }
  // Rows in table order; empty for an unknown opcode.
  std::vector<const Row*> find(std::string_view opcode) const;
  // The opcode with its modifiers in the order that rows have, see opcode_order.h; as it is where
  // a row fits it already, or where none does in any order.
  std::string in_row_order(std::string_view opcode) const;

 private:
  const HandlerSet& handlers_;
  std::unordered_map<std::string_view, std::vector<const Row*>> by_base_;
};

// `level` is not kAuto and the machine has it.
const OpcodeTable& opcode_table(SimdLevel level);

}  // namespace lssar::vdev
