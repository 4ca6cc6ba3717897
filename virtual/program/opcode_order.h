// The order of an opcode's modifiers. ptxas takes most of them in any order ("add.f32.rn",
// "ldmatrix.sync.aligned.x4.m8n8.shared.b16"); the rows of the opcode table have one. Used when a
// module is loaded, so that all that looks at opcodes finds the order of the rows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lssar::vdev {

// The opcode with its modifiers in the order of a row's pattern, or nothing where no order that
// means the same fits it. The words of the instruction's name keep their places, .v2 and .v4
// stay before their type, and these keep their order among themselves: types, state spaces,
// layouts, eviction priorities. tests/virtual/data/modifier_orders.txt shows that ptxas does the
// same.
std::optional<std::string> in_order_of(const char* pattern, std::string_view opcode);

}  // namespace lssar::vdev
