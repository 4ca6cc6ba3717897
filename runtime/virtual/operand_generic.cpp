// Operands of instructions whose handlers are compiled once: see generic_operands.h.
//
// A row's letters: p h w l a value of 1, 16, 32 or 64 bits, the same in upper case a destination,
// @ an address, i a literal; ? after the last one: it may be left out.
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "runtime/virtual/generic_operands.h"
#include "runtime/virtual/opcode_table.h"
#include "runtime/virtual/operand_binder.h"

namespace lssar::vdev {
namespace {

struct Letters {
  uint32_t most;
  uint32_t least;
};
Letters count_letters(const char* letters) {
  const auto length = static_cast<uint32_t>(std::strlen(letters));
  const bool optional = length != 0 && letters[length - 1] == '?';
  return optional ? Letters{length - 1, length - 2} : Letters{length, length};
}

StateSpace space_of(std::string_view opcode) {
  for (const std::string_view m : {".shared", ".shared::cta", ".shared::cluster"}) {
    if (has_modifier(opcode, m)) return StateSpace::kShared;
  }
  return has_modifier(opcode, ".global") ? StateSpace::kGlobal : StateSpace::kGeneric;
}

}  // namespace

bool OperandBinder::fits_generic(const Instruction& in, const Row& row) const {
  const Letters letters = count_letters(row.operands);
  if (in.num_operands > letters.most || in.num_operands < letters.least) return false;
  for (uint32_t i = 0; i < in.num_operands; ++i) {
    const char letter = row.operands[i];
    const Operand& o = operand(in, i);
    if (letter == '@') {
      if (o.kind != OperandKind::kAddress) return false;
      continue;
    }
    const bool destination = std::isupper(static_cast<unsigned char>(letter)) != 0;
    const char width = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    Operand positive = o;
    positive.negated = o.negated && width != 'p';
    if (!fits_value(positive, width, destination)) return false;
  }
  return true;
}

Status OperandBinder::bind_generic(const Instruction& in, const Row& row, Op& op) {
  if (has_modifier(in.opcode, ".relaxed")) op.flags |= kGenericRelaxed;
  std::vector<uint32_t> list(size_t{count_letters(row.operands).most} * kOperandWords, 0);
  op.a = kNoRegister;
  for (uint32_t i = 0; i < in.num_operands; ++i) {
    uint32_t* const words = list.data() + size_t{i} * kOperandWords;
    const char letter = row.operands[i];
    const Operand& o = operand(in, i);
    words[3] = kOperandPresent | (o.negated ? kOperandNegated : 0);
    if (letter == '@') {
      int64_t offset = 0;
      bool wide = false;
      LSSAR_RETURN_IF_ERROR(address(o, space_of(in.opcode), words[0], offset, wide));
      words[1] = static_cast<uint32_t>(offset);
      words[2] = static_cast<uint32_t>(static_cast<uint64_t>(offset) >> 32);
      if (wide) words[3] |= kOperandWide;
    } else if (letter == 'i') {
      words[1] = static_cast<uint32_t>(o.value);
      words[2] = static_cast<uint32_t>(static_cast<uint64_t>(o.value) >> 32);
    } else if (std::isupper(static_cast<unsigned char>(letter)) != 0) {
      LSSAR_RETURN_IF_ERROR(write(o, words[0]));
    } else {
      LSSAR_RETURN_IF_ERROR(read(o, letter, words[0]));
    }
  }
  op.list = keep(std::move(list));
  return {};
}

}  // namespace lssar::vdev
