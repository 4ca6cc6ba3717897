// How operands of loads, stores, atomics, copies and matrix accesses are bound.
#include <string_view>

#include <fmt/format.h>

#include "virtual/program/opcode_table.h"
#include "virtual/program/operand_binder.h"

namespace lssar::vdev {
namespace {

StateSpace space_of(std::string_view opcode) {
  if (has_modifier(opcode, ".global")) return StateSpace::kGlobal;
  if (has_modifier(opcode, ".shared") || has_modifier(opcode, ".shared::cta") ||
      has_modifier(opcode, ".shared::cluster")) {
    return StateSpace::kShared;
  }
  if (has_modifier(opcode, ".local")) return StateSpace::kLocal;
  if (has_modifier(opcode, ".const")) return StateSpace::kConst;
  if (has_modifier(opcode, ".param")) return StateSpace::kParam;
  return StateSpace::kGeneric;
}

uint32_t row_type_bytes(std::string_view opcode) {
  const std::string_view type = opcode.substr(opcode.rfind('.'));
  return type.find("64") != std::string_view::npos   ? 8
         : type.find("32") != std::string_view::npos ? 4
         : type.find("16") != std::string_view::npos ? 2
                                                     : 1;
}

}  // namespace

// [register + offset], [variable + offset] or [offset].
Status OperandBinder::address(const Operand& o, StateSpace space, uint32_t& base, int64_t& offset,
                              bool& wide) {
  base = kNoRegister;
  offset = o.value;
  wide = true;
  if (o.count == 0) return {};
  if (o.count > 1) return device_error("an address of several parts");
  const Operand& e = element(o, 0);
  if (e.kind == OperandKind::kRegister) {
    const RegClass reg_class = register_class(e);
    if (reg_class != RegClass::k32 && reg_class != RegClass::k64) {
      return device_error(fmt::format("[{}]: an address has 32 or 64 bits", e.text));
    }
    wide = reg_class == RegClass::k64;
    if (!wide && (space == StateSpace::kGlobal || space == StateSpace::kGeneric)) {
      return device_error(fmt::format("[{}]: an address of this state space has 64 bits", e.text));
    }
    return read(e, wide ? 'l' : 'w', base);
  }
  if (e.kind != OperandKind::kVariable)
    return device_error(fmt::format("[{}]: not an address", e.text));
  const Variable& variable = module_.variables[e.index];
  const StateSpace have = variable.space;
  if (space != have && space != StateSpace::kGeneric) {
    return device_error(fmt::format("{} lies in another state space", e.text));
  }
  uint64_t window = 0;
  if (space == StateSpace::kGeneric && have == StateSpace::kShared) window = kSharedWindow;
  if (space == StateSpace::kGeneric && have == StateSpace::kLocal) window = kLocalWindow;
  if (is_shared_variable(e)) {
    base = constant(RegClass::k64, addresses_[e.index], true);
    offset = static_cast<int64_t>(static_cast<uint64_t>(offset) + window);
    return {};
  }
  offset = static_cast<int64_t>(static_cast<uint64_t>(offset) + addresses_[e.index] + window);
  return {};
}

Status OperandBinder::memory_operand(const Instruction& in, const Operand& o, Op& op) {
  const StateSpace space = space_of(in.opcode);
  op.space = static_cast<uint8_t>(space);
  bool wide = false;
  LSSAR_RETURN_IF_ERROR(address(o, space, op.a, op.imm, wide));
  if (wide) op.flags |= kOpWide;
  return {};
}

Status OperandBinder::bind_load(const Instruction& in, const Row&, Op& op) {
  std::vector<uint32_t> list;
  LSSAR_RETURN_IF_ERROR(write_all(operand(in, 0), list));
  op.count = static_cast<uint8_t>(list.size());
  op.list = keep(std::move(list));
  return memory_operand(in, operand(in, 1), op);
}

Status OperandBinder::bind_load_param(const Instruction& in, const Row&, Op& op) {
  std::vector<uint32_t> list;
  LSSAR_RETURN_IF_ERROR(write_all(operand(in, 0), list));
  op.count = static_cast<uint8_t>(list.size());
  op.list = keep(std::move(list));
  const Operand& base = element(operand(in, 1), 0);
  const Variable& param = kernel_.params[base.index];
  const auto offset = static_cast<uint64_t>(operand(in, 1).value);
  const uint64_t bytes = uint64_t{op.count} * row_type_bytes(in.opcode);
  if (offset > param.bytes || param.bytes - offset < bytes) {
    return device_error(fmt::format("{} bytes at offset {} of parameter {}, which has {} bytes",
                                    bytes, static_cast<int64_t>(offset), param.name, param.bytes));
  }
  op.imm = static_cast<int64_t>(param.address + offset);
  return {};
}

Status OperandBinder::bind_store(const Instruction& in, const Row& row, Op& op) {
  std::vector<uint32_t> list;
  LSSAR_RETURN_IF_ERROR(read_all(operand(in, 1), row.operands[0], list));
  op.count = static_cast<uint8_t>(list.size());
  op.list = keep(std::move(list));
  op.flags |= kOpWrites;
  return memory_operand(in, operand(in, 0), op);
}

Status OperandBinder::bind_atomic(const Instruction& in, const Row& row, Op& op) {
  op.flags |= kOpWrites;
  LSSAR_RETURN_IF_ERROR(memory_operand(in, operand(in, 1), op));
  if (operand(in, 2).kind == OperandKind::kVector) {
    std::vector<uint32_t> list;
    LSSAR_RETURN_IF_ERROR(read_all(operand(in, 2), row.operands[1], list));
    op.count = static_cast<uint8_t>(list.size());
    LSSAR_RETURN_IF_ERROR(write_all(operand(in, 0), list));
    op.list = keep(std::move(list));
    return {};
  }
  LSSAR_RETURN_IF_ERROR(write(operand(in, 0), op.dst));
  LSSAR_RETURN_IF_ERROR(read(operand(in, 2), row.operands[1], op.b));
  if (in.num_operands == 4) LSSAR_RETURN_IF_ERROR(read(operand(in, 3), row.operands[2], op.c));
  return {};
}

Status OperandBinder::bind_copy_async(const Instruction& in, Op& op) {
  const int64_t bytes = operand(in, 2).value;
  const bool global_only = has_modifier(in.opcode, ".cg");
  if (bytes != 16 && (global_only || (bytes != 4 && bytes != 8))) {
    return device_error(fmt::format("a copy of {} bytes: allowed are {}", bytes,
                                    global_only ? "16" : "4, 8 and 16"));
  }
  op.count = static_cast<uint8_t>(bytes);
  bool wide = false;
  LSSAR_RETURN_IF_ERROR(address(operand(in, 0), StateSpace::kShared, op.a, op.imm, wide));
  if (wide) op.flags |= kOpWide;
  int64_t offset = 0;
  LSSAR_RETURN_IF_ERROR(address(operand(in, 1), StateSpace::kGlobal, op.b, offset, wide));
  const auto bits = static_cast<uint64_t>(offset);
  op.list = keep({static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)});
  if (in.num_operands == 3) return {};
  const Operand& last = operand(in, 3);
  if (last.kind == OperandKind::kRegister && register_class(last) == RegClass::kPred) {
    op.flags |= 1;
    if (last.negated) op.flags |= kOpNegated;
    return read(last, 'p', op.c);
  }
  if (!fits_value(last, 'w', false)) return device_error("the source size must be a 32-bit value");
  return read(last, 'w', op.c);
}

Status OperandBinder::bind_matrix(const Instruction& in, const Row& row, Op& op) {
  const bool load = row.bind == Bind::kMatrixLoad;
  std::vector<uint32_t> list;
  if (load) {
    LSSAR_RETURN_IF_ERROR(write_all(operand(in, 0), list));
  } else {
    LSSAR_RETURN_IF_ERROR(read_all(operand(in, 1), 'w', list));
    op.flags |= kOpWrites;
  }
  op.count = static_cast<uint8_t>(list.size());
  op.list = keep(std::move(list));
  return memory_operand(in, operand(in, load ? 1 : 0), op);
}

}  // namespace lssar::vdev
