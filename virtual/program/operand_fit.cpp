// Decides which rows an instruction's operands fit.
#include "virtual/program/operand_binder.h"

#include <cstring>

#include "virtual/program/opcode_table.h"
#include "virtual/ptx/ptx_parser_impl.h"

namespace lssar::vdev {
namespace {

bool class_of_letter(char letter, RegClass& reg_class) {
  switch (letter) {
    case 'p':
      reg_class = RegClass::kPred;
      return true;
    case 'h':
      reg_class = RegClass::k16;
      return true;
    case 'w':
      reg_class = RegClass::k32;
      return true;
    case 'l':
      reg_class = RegClass::k64;
      return true;
    default:
      return false;
  }
}

uint32_t vector_count(std::string_view opcode) {
  return has_modifier(opcode, ".v2")   ? 2
         : has_modifier(opcode, ".v4") ? 4
         : has_modifier(opcode, ".v8") ? 8
                                       : 1;
}

uint32_t matrix_count(std::string_view opcode) {
  return has_modifier(opcode, ".x4") ? 4 : has_modifier(opcode, ".x2") ? 2 : 1;
}

}  // namespace

bool OperandBinder::fits_value(const Operand& o, char letter, bool is_destination) const {
  if (o.kind == OperandKind::kSink) return is_destination;
  if (letter == 'i') return o.kind == OperandKind::kInteger;
  RegClass reg_class;
  if (!class_of_letter(letter, reg_class)) return false;
  if (o.kind == OperandKind::kRegister) return !o.negated && register_class(o) == reg_class;
  if (is_destination) return false;
  if (letter == 'p') return o.kind == OperandKind::kInteger;
  Special which;
  switch (o.kind) {
    case OperandKind::kInteger:
      return true;
    case OperandKind::kFloat32:
    case OperandKind::kFloat64:
      return letter == 'w' || letter == 'l';
    case OperandKind::kVariable:
    case OperandKind::kParam:
      return letter == 'w' || letter == 'l';
    case OperandKind::kSpecial:
      return special(o.text, letter, which);
    default:
      return false;
  }
}

bool OperandBinder::fits_values(const Instruction& in, const char* letters) const {
  if (in.num_operands != std::strlen(letters)) return false;
  for (uint32_t i = 0; i < in.num_operands; ++i) {
    if (!fits_value(operand(in, i), letters[i], i == 0)) return false;
  }
  return true;
}

bool OperandBinder::fits_vector(const Operand& o, char letter, uint32_t count,
                                bool is_destination) const {
  if (o.kind != OperandKind::kVector) return count == 1 && fits_value(o, letter, is_destination);
  if (o.count != count) return false;
  for (uint32_t i = 0; i < count; ++i) {
    if (!fits_value(element(o, i), letter, is_destination)) return false;
  }
  return true;
}

bool OperandBinder::fits_pair(const Operand& o, char letter) const {
  if (o.kind != OperandKind::kPair) return fits_value(o, letter, true);
  return fits_value(element(o, 0), letter, true) && fits_value(element(o, 1), 'p', true);
}

bool OperandBinder::fits_setp(const Instruction& in, const char* letters) const {
  const bool combined = has_modifier(in.opcode, ".and") || has_modifier(in.opcode, ".or") ||
                        has_modifier(in.opcode, ".xor");
  if (in.num_operands != (combined ? 4u : 3u)) return false;
  if (!fits_pair(operand(in, 0), letters[0])) return false;
  if (!fits_value(operand(in, 1), letters[1], false)) return false;
  if (!fits_value(operand(in, 2), letters[2], false)) return false;
  if (!combined) return true;
  const Operand& c = operand(in, 3);
  return c.kind == OperandKind::kRegister && register_class(c) == RegClass::kPred;
}

bool OperandBinder::fits_pack(const Instruction& in, const char* letters) const {
  if (in.num_operands != 2) return false;
  const auto count = static_cast<uint32_t>(std::strlen(letters)) - 1;
  const Operand& d = operand(in, 0);
  const Operand& a = operand(in, 1);
  return d.kind == OperandKind::kVector
             ? fits_vector(d, letters[0], count, true) && fits_value(a, letters[count], false)
             : a.kind == OperandKind::kVector && fits_value(d, letters[0], true) &&
                   fits_vector(a, letters[1], count, false);
}

bool OperandBinder::fits_memory(const Instruction& in, const Row& row) const {
  const uint32_t count = vector_count(in.opcode);
  const char letter = row.operands[0];
  const auto is_address = [&](uint32_t i) {
    return in.num_operands > i && operand(in, i).kind == OperandKind::kAddress;
  };
  switch (row.bind) {
    case Bind::kLoadParam:
    case Bind::kLoad: {
      if (in.num_operands != 2 || !is_address(1)) return false;
      const Operand& a = operand(in, 1);
      const bool by_name = a.count == 1 && element(a, 0).kind == OperandKind::kParam;
      return by_name == (row.bind == Bind::kLoadParam) &&
             fits_vector(operand(in, 0), letter, count, true);
    }
    case Bind::kStore:
    case Bind::kReduce:
      return in.num_operands == 2 && is_address(0) &&
             fits_vector(operand(in, 1), letter, count, false);
    default: {  // kAtomic
      if (count > 1) {
        return in.num_operands == 3 && is_address(1) &&
               fits_vector(operand(in, 0), letter, count, true) &&
               fits_vector(operand(in, 2), letter, count, false);
      }
      const size_t length = std::strlen(row.operands);
      if (in.num_operands != length + 1 || !is_address(1)) return false;
      if (!fits_value(operand(in, 0), letter, true)) return false;
      for (uint32_t i = 1; i < length; ++i) {
        if (!fits_value(operand(in, i + 1), row.operands[i], false)) return false;
      }
      return true;
    }
  }
}

bool OperandBinder::fits_matrix(const Instruction& in, const Row& row) const {
  if (row.bind == Bind::kMma) {
    if (in.num_operands != 4) return false;
    const char letter = mma_letter(row);
    for (uint32_t i = 0; i < 4; ++i) {
      if (!fits_vector(operand(in, i), letter, static_cast<uint32_t>(row.operands[i] - '0'),
                       i == 0)) {
        return false;
      }
    }
    return true;
  }
  if (in.num_operands != 2) return false;
  const bool load = row.bind == Bind::kMatrixLoad;
  return operand(in, load ? 1 : 0).kind == OperandKind::kAddress &&
         fits_vector(operand(in, load ? 0 : 1), 'w', matrix_count(in.opcode), load);
}

bool OperandBinder::fits_barrier(const Instruction& in, const Row& row) const {
  const bool reduces = row.operands[0] != '\0';
  const uint32_t first = reduces ? 1 : 0;
  const uint32_t last = in.num_operands - (reduces ? 1 : 0);
  if (in.num_operands < first + 1 + (reduces ? 1 : 0) || last - first > 2) return false;
  if (reduces) {
    const Operand& c = operand(in, last);
    if (!fits_value(operand(in, 0), row.operands[0], true)) return false;
    if (c.kind != OperandKind::kRegister || register_class(c) != RegClass::kPred) return false;
  }
  for (uint32_t i = first; i < last; ++i) {
    if (!fits_value(operand(in, i), 'w', false)) return false;
  }
  return true;
}

bool OperandBinder::fits_conversion(const Instruction& in) const {
  if (in.num_operands != 2) return false;
  const size_t from_dot = in.opcode.rfind('.');
  const size_t to_dot = in.opcode.rfind('.', from_dot - 1);
  const std::string_view types[2] = {in.opcode.substr(to_dot, from_dot - to_dot),
                                     in.opcode.substr(from_dot)};
  for (uint32_t i = 0; i < 2; ++i) {
    const Operand& o = operand(in, i);
    if (o.kind == OperandKind::kInteger && i == 1) continue;
    if (o.kind != OperandKind::kRegister || register_class(o) == RegClass::kPred) return false;
    const uint32_t have = class_bytes(register_class(o)) / kLanes;
    const uint32_t want = type_bytes(types[i]);
    const bool is_float = types[i].find('f') != std::string_view::npos;
    if (is_float ? have != want : have < want) return false;
  }
  return true;
}

bool OperandBinder::has_policy(const Instruction& in, const Row& row) {
  switch (row.bind) {
    case Bind::kLoad:
    case Bind::kStore:
    case Bind::kAtomic:
    case Bind::kReduce:
    case Bind::kCopyAsync:
      return in.num_operands != 0 && has_modifier(in.opcode, ".L2::cache_hint");
    default:
      return false;
  }
}

bool OperandBinder::fits(const Instruction& in, const Row& row) const {
  if (!has_policy(in, row)) return fits_operands(in, row);
  Instruction without = in;
  --without.num_operands;
  return fits_value(operand(in, without.num_operands), 'l', false) && fits_operands(without, row);
}

bool OperandBinder::fits_operands(const Instruction& in, const Row& row) const {
  uint8_t code = 0;
  switch (row.bind) {
    case Bind::kAlu:
      return fits_values(in, row.operands);
    case Bind::kSetp:
      return fits_setp(in, row.operands);
    case Bind::kPack:
      return in.num_operands == 2 && operand(in, 0).kind != OperandKind::kVector &&
             fits_pack(in, row.operands);
    case Bind::kUnpack:
      return in.num_operands == 2 && operand(in, 0).kind == OperandKind::kVector &&
             fits_pack(in, row.operands);
    case Bind::kClock:
      return in.num_operands == 2 && operand(in, 1).kind == OperandKind::kSpecial &&
             clock_register(operand(in, 1).text, row.operands[0], code) &&
             fits_value(operand(in, 0), row.operands[0], true);
    case Bind::kConvert:
      return fits_conversion(in);
    case Bind::kLoad:
    case Bind::kLoadParam:
    case Bind::kStore:
    case Bind::kAtomic:
    case Bind::kReduce:
      return fits_memory(in, row);
    case Bind::kCopyAsync:
      return (in.num_operands == 3 || in.num_operands == 4) &&
             operand(in, 0).kind == OperandKind::kAddress &&
             operand(in, 1).kind == OperandKind::kAddress &&
             operand(in, 2).kind == OperandKind::kInteger;
    case Bind::kBulk:
      return fits_bulk(in);
    case Bind::kGeneric:
      return fits_generic(in, row);
    case Bind::kNone:
      return row.operands == nullptr || fits_generic(in, row);
    case Bind::kImmediate:
      return in.num_operands == 1 && operand(in, 0).kind == OperandKind::kInteger;
    case Bind::kMatrixLoad:
    case Bind::kMatrixStore:
    case Bind::kMma:
      return fits_matrix(in, row);
    case Bind::kWgmma:
      return fits_wgmma(in);
    case Bind::kShuffle:
      return in.num_operands == 5 && fits_pair(operand(in, 0), 'w') &&
             fits_value(operand(in, 1), 'w', false) && fits_value(operand(in, 2), 'w', false) &&
             fits_value(operand(in, 3), 'w', false) && fits_value(operand(in, 4), 'w', false);
    case Bind::kCollective:
    case Bind::kCollectivePair: {
      if (in.num_operands != std::strlen(row.operands)) return false;
      const bool pair = row.bind == Bind::kCollectivePair;
      if (pair ? !fits_pair(operand(in, 0), row.operands[0])
               : !fits_value(operand(in, 0), row.operands[0], true)) {
        return false;
      }
      for (uint32_t i = 1; i < in.num_operands; ++i) {
        Operand o = operand(in, i);
        o.negated = o.negated && row.operands[i] != 'p';  // votes take !p
        if (!fits_value(o, row.operands[i], false)) return false;
      }
      return true;
    }
    case Bind::kWarpSync:
      return in.num_operands == 1 && fits_value(operand(in, 0), 'w', false);
    case Bind::kBranch:
      return in.num_operands == 1 && operand(in, 0).kind == OperandKind::kLabel;
    case Bind::kTable:
      return in.num_operands == 2 && fits_value(operand(in, 0), 'w', false) &&
             operand(in, 1).kind == OperandKind::kTable;
    case Bind::kExit:
      return in.num_operands == 0;
    case Bind::kBarrier:
      return fits_barrier(in, row);
  }
  return false;
}

}  // namespace lssar::vdev
