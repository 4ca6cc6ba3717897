// Operands of instructions whose handlers are compiled once: see generic_operands.h.
//
// A row's letters: p, h, w, l are values of 1, 16, 32 or 64 bits, in upper case destinations. @ is
// an address, * an address in global memory if the opcode names another space too, i a literal, #
// the literal 128, {..} a vector of these. ? after the last one: it may be left out.
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "virtual/program/generic_layout.h"
#include "virtual/program/opcode_table.h"
#include "virtual/program/operand_binder.h"

namespace lssar::vdev {
namespace {

StateSpace generic_space_of(std::string_view opcode) {
  for (const std::string_view m : {".shared", ".shared::cta", ".shared::cluster"}) {
    if (has_modifier(opcode, m)) return StateSpace::kShared;
  }
  return has_modifier(opcode, ".global") ? StateSpace::kGlobal : StateSpace::kGeneric;
}

}  // namespace

// Splits the operands as the letters say, vectors too. False: there are too many or too few.
bool OperandBinder::take_apart(const Instruction& in, const char* letters,
                               std::vector<GenericOperand>& taken) const {
  uint32_t next = 0;
  for (const char* l = letters; *l != 0; ++l) {
    if (*l == '?') continue;
    if (next == in.num_operands) return l[1] == '?';
    const Operand& o = operand(in, next++);
    if (*l != '{') {
      taken.push_back({&o, *l});
      continue;
    }
    if (o.kind != OperandKind::kVector) return false;
    uint32_t i = 0;
    while (*++l != '}') {
      if (i == o.count) return false;
      taken.push_back({&element(o, i++), *l});
    }
    if (i != o.count) return false;
  }
  return next == in.num_operands;
}

bool OperandBinder::fits_generic(const Instruction& in, const Row& row) const {
  std::vector<GenericOperand> operands;
  if (!take_apart(in, row.operands, operands)) return false;
  for (const auto& [o, letter] : operands) {
    if (letter == '@' || letter == '*') {
      if (o->kind != OperandKind::kAddress) return false;
      continue;
    }
    if (letter == '#') {
      if (o->kind != OperandKind::kInteger || o->value != 128) return false;
      continue;
    }
    const bool destination = std::isupper(static_cast<unsigned char>(letter)) != 0;
    const char width = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    Operand positive = *o;
    positive.negated = o->negated && width != 'p';
    if (!fits_value(positive, width, destination)) return false;
  }
  return true;
}

Status OperandBinder::bind_generic(const Instruction& in, const Row& row, Op& op) {
  op.flags = row.arg & static_cast<uint8_t>(~kRowMayBlock);
  if (has_modifier(in.opcode, ".relaxed")) op.flags |= kGenericRelaxed;
  std::vector<GenericOperand> operands;
  take_apart(in, row.operands, operands);
  // An operand that is left out has its words, too.
  std::vector<uint32_t> list(std::strlen(row.operands) * kOperandWords, 0);
  op.a = kNoRegister;
  uint32_t* words = list.data();
  for (const auto& [o, letter] : operands) {
    words[3] = kOperandPresent | (o->negated ? kOperandNegated : 0);
    if (letter == '@' || letter == '*') {
      const StateSpace space = letter == '*' ? StateSpace::kGlobal : generic_space_of(in.opcode);
      int64_t offset = 0;
      bool wide = false;
      LSSAR_RETURN_IF_ERROR(address(*o, space, words[0], offset, wide));
      words[1] = static_cast<uint32_t>(offset);
      words[2] = static_cast<uint32_t>(static_cast<uint64_t>(offset) >> 32);
      if (wide) words[3] |= kOperandWide;
    } else if (letter == 'i' || letter == '#') {
      words[1] = static_cast<uint32_t>(o->value);
      words[2] = static_cast<uint32_t>(static_cast<uint64_t>(o->value) >> 32);
    } else if (std::isupper(static_cast<unsigned char>(letter)) != 0) {
      LSSAR_RETURN_IF_ERROR(write(*o, words[0]));
    } else {
      LSSAR_RETURN_IF_ERROR(read(*o, letter, words[0]));
    }
    words += kOperandWords;
  }
  op.list = keep(std::move(list));
  return {};
}

}  // namespace lssar::vdev
