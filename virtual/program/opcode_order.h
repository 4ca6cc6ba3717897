// The order of an opcode's modifiers. ptxas accepts most of them in any order ("add.f32.rn",
// "ldmatrix.sync.aligned.x4.m8n8.shared.b16"); the rows of the opcode table have one order. Used
// when a module is loaded, so that everything else finds opcodes in the order of the rows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lssar::vdev {

// The opcode with its modifiers in the order of a row's pattern; nothing if no order with the same
// meaning fits the pattern. The words of the instruction's name keep their places. .v2 and .v4 stay
// before their type. Types, state spaces, layouts and eviction priorities keep their order among
// themselves. tests/virtual/data/modifier_orders.txt shows that ptxas does the same.
std::optional<std::string> in_order_of(const char* pattern, std::string_view opcode);

}  // namespace lssar::vdev
