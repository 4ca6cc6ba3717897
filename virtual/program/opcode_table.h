// Finds the rows of a handler set that fit an opcode. There is one table per instruction set, made
// once; decoders on any thread read it.
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
  // The opcode with its modifiers in the order of the rows; see opcode_order.h. Unchanged if a row
  // fits it already, or if no order fits a row.
  std::string in_row_order(std::string_view opcode) const;

 private:
  const HandlerSet& handlers_;
  std::unordered_map<std::string_view, std::vector<const Row*>> by_base_;
};

// REQUIRES: `level` is one of available_simd_levels().
const OpcodeTable& opcode_table(SimdLevel level);

}  // namespace lssar::vdev
