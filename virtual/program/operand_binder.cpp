#include "virtual/program/operand_binder.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "virtual/program/opcode_table.h"

namespace lssar::vdev {
namespace {

struct SpecialName {
  std::string_view name;
  Special which;
};
constexpr SpecialName kSpecials[] = {
    {"%tid.x", Special::kTidX},
    {"%tid.y", Special::kTidY},
    {"%tid.z", Special::kTidZ},
    {"%ntid.x", Special::kNtidX},
    {"%ntid.y", Special::kNtidY},
    {"%ntid.z", Special::kNtidZ},
    {"%ctaid.x", Special::kCtaidX},
    {"%ctaid.y", Special::kCtaidY},
    {"%ctaid.z", Special::kCtaidZ},
    {"%nctaid.x", Special::kNctaidX},
    {"%nctaid.y", Special::kNctaidY},
    {"%nctaid.z", Special::kNctaidZ},
    {"%laneid", Special::kLaneId},
    {"%warpid", Special::kWarpId},
    {"%nwarpid", Special::kNumWarps},
    {"%smid", Special::kSmId},
    {"%nsmid", Special::kNumSms},
    {"%gridid", Special::kGridId},
    {"%lanemask_eq", Special::kLaneMaskEq},
    {"%lanemask_lt", Special::kLaneMaskLt},
    {"%lanemask_le", Special::kLaneMaskLe},
    {"%lanemask_gt", Special::kLaneMaskGt},
    {"%lanemask_ge", Special::kLaneMaskGe},
    {"%dynamic_smem_size", Special::kDynamicShared},
    {"%total_smem_size", Special::kTotalShared},
    {"%cluster_ctaid.x", Special::kClusterCtaidX},
    {"%cluster_ctaid.y", Special::kClusterCtaidY},
    {"%cluster_ctaid.z", Special::kClusterCtaidZ},
    {"%cluster_nctaid.x", Special::kClusterNctaidX},
    {"%cluster_nctaid.y", Special::kClusterNctaidY},
    {"%cluster_nctaid.z", Special::kClusterNctaidZ},
    {"%cluster_ctarank", Special::kClusterCtarank},
    {"%cluster_nctarank", Special::kClusterNctarank},
    {"%clusterid.x", Special::kClusteridX},
    {"%clusterid.y", Special::kClusteridY},
    {"%clusterid.z", Special::kClusteridZ},
    {"%nclusterid.x", Special::kNclusteridX},
    {"%nclusterid.y", Special::kNclusteridY},
    {"%nclusterid.z", Special::kNclusteridZ},
};

struct ClockName {
  std::string_view name;
  char letter;
  uint8_t code;  // as the enum Clock of ops/move_ops.cpp
};
constexpr ClockName kClocks[] = {
    {"%clock", 'w', 0},       {"%clock_hi", 'w', 1},       {"%clock64", 'l', 2},
    {"%globaltimer", 'l', 3}, {"%globaltimer_lo", 'w', 4}, {"%globaltimer_hi", 'w', 5},
};

RegClass class_for(char letter) {
  return letter == 'p'   ? RegClass::kPred
         : letter == 'h' ? RegClass::k16
         : letter == 'w' ? RegClass::k32
                         : RegClass::k64;
}

}  // namespace

bool clock_register(std::string_view name, char letter, uint8_t& code) {
  for (const ClockName& c : kClocks) {
    if (c.name == name && c.letter == letter) {
      code = c.code;
      return true;
    }
  }
  return false;
}

uint32_t OperandBinder::claim(uint32_t bytes) {
  // Constants are few. Each begins on a cache line, as handlers expect.
  const uint32_t offset = constants_end_;
  constants_end_ += (bytes + 63) / 64 * 64;
  return offset;
}

uint32_t OperandBinder::constant(RegClass reg_class, uint64_t bits, bool in_shared) {
  const auto [place, added] = constants_.try_emplace({reg_class, bits, in_shared}, 0);
  if (added) {
    place->second = claim(class_bytes(reg_class));
    program_.constants.push_back({place->second, reg_class, bits, in_shared});
  }
  return place->second;
}

bool OperandBinder::is_shared_variable(const Operand& o) {
  const Variable& variable = module_.variables[o.index];
  if (variable.space != StateSpace::kShared) return false;
  if (variable.bytes == 0) program_.uses_dynamic_shared = true;
  return true;
}

bool OperandBinder::special(std::string_view name, char letter, Special& which) const {
  for (const SpecialName& s : kSpecials) {
    if (s.name == name) {
      which = s.which;
      return letter == (which == Special::kGridId ? 'l' : 'w');
    }
  }
  return false;
}

uint32_t OperandBinder::special_register(Special which) {
  const auto [place, added] = specials_.try_emplace(which, 0);
  if (added) {
    place->second = claim(class_bytes(which == Special::kGridId ? RegClass::k64 : RegClass::k32));
    program_.specials.push_back({place->second, which});
  }
  return place->second;
}

const uint32_t* OperandBinder::keep(std::vector<uint32_t> list) {
  program_.lists.push_back(std::move(list));
  return program_.lists.back().data();
}

Status OperandBinder::literal_bits(const Operand& o, char letter, uint64_t& bits) const {
  bits = static_cast<uint64_t>(o.value);
  if (o.kind == OperandKind::kFloat32 && letter == 'l') {
    bits = std::bit_cast<uint64_t>(
        static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  } else if (o.kind == OperandKind::kFloat64 && letter == 'w') {
    bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  }
  const uint32_t width = letter == 'h' ? 16 : letter == 'w' ? 32 : 64;
  if (o.kind == OperandKind::kInteger && width < 64) {
    // Accepts a signed or an unsigned number of that width.
    const int64_t value = o.value;
    if (value >= (int64_t{1} << width) || value < -(int64_t{1} << (width - 1))) {
      return device_error(fmt::format("{} does not fit {} bits", o.text, width));
    }
    bits &= (uint64_t{1} << width) - 1;
  }
  return {};
}

Status OperandBinder::read(const Operand& o, char letter, uint32_t& field) {
  uint64_t bits = 0;
  Special which;
  switch (o.kind) {
    case OperandKind::kRegister:
      reads.push_back(o.index);
      field = register_offset(o.index);
      return {};
    case OperandKind::kSpecial:
      special(o.text, letter, which);
      field = special_register(which);
      return {};
    case OperandKind::kVariable:
      bits = addresses_[o.index] + static_cast<uint64_t>(o.value);
      if (letter == 'w' && bits > 0xffffffffu) {
        return device_error(fmt::format("the address of {} does not fit 32 bits", o.text));
      }
      field = constant(class_for(letter), bits, is_shared_variable(o));
      return {};
    case OperandKind::kParam:
      bits = kernel_.params[o.index].address + static_cast<uint64_t>(o.value);
      break;
    default:
      LSSAR_RETURN_IF_ERROR(literal_bits(o, letter, bits));
      if (letter == 'p') bits = bits != 0 ? kAllLanes : 0;
      break;
  }
  field = constant(class_for(letter), bits);
  return {};
}

Status OperandBinder::write(const Operand& o, uint32_t& field) {
  field = kNoRegister;
  if (o.kind == OperandKind::kSink) return {};
  writes.push_back(o.index);
  field = register_offset(o.index);
  return {};
}

Status OperandBinder::write_pair(const Operand& o, uint32_t& first, int64_t& second) {
  second = kNoRegister;
  if (o.kind != OperandKind::kPair) return write(o, first);
  LSSAR_RETURN_IF_ERROR(write(element(o, 0), first));
  uint32_t field = 0;
  LSSAR_RETURN_IF_ERROR(write(element(o, 1), field));
  second = field;
  return {};
}

Status OperandBinder::read_all(const Operand& o, char letter, std::vector<uint32_t>& list) {
  const bool vector = o.kind == OperandKind::kVector;
  for (uint32_t i = 0; i < (vector ? o.count : 1); ++i) {
    LSSAR_RETURN_IF_ERROR(read(vector ? element(o, i) : o, letter, list.emplace_back()));
  }
  return {};
}

Status OperandBinder::write_all(const Operand& o, std::vector<uint32_t>& list) {
  const bool vector = o.kind == OperandKind::kVector;
  for (uint32_t i = 0; i < (vector ? o.count : 1); ++i) {
    LSSAR_RETURN_IF_ERROR(write(vector ? element(o, i) : o, list.emplace_back()));
  }
  return {};
}

Status OperandBinder::bind_alu(const Instruction& in, const Row& row, Op& op) {
  op.flags = row.arg;
  LSSAR_RETURN_IF_ERROR(write(operand(in, 0), op.dst));
  if (op.dst == kNoRegister) op.dst = kScratchOffset;
  op.count = static_cast<uint8_t>(class_bytes(class_for(row.operands[0])) / 4);
  const bool is_float = in.opcode.ends_with(".f32") || in.opcode.ends_with(".f64");
  uint32_t* const fields[3] = {&op.a, &op.b, &op.c};
  for (uint32_t i = 1; i < in.num_operands; ++i) {
    const Operand& o = operand(in, i);
    if (row.operands[i] == 'i') {
      op.imm = o.value;
      continue;
    }
    if (is_float && o.kind == OperandKind::kInteger) {
      return device_error(fmt::format("the integer {} where a float is expected", o.text));
    }
    uint32_t field = 0;
    LSSAR_RETURN_IF_ERROR(read(o, row.operands[i], field));
    if (i <= 3) {
      *fields[i - 1] = field;
    } else {
      op.imm = field;
    }
  }
  return {};
}

Status OperandBinder::bind_setp(const Instruction& in, const Row& row, Op& op) {
  Combine how = Combine::kNone;
  if (has_modifier(in.opcode, ".and")) how = Combine::kAnd;
  if (has_modifier(in.opcode, ".or")) how = Combine::kOr;
  if (has_modifier(in.opcode, ".xor")) how = Combine::kXor;
  op.flags = static_cast<uint8_t>(row.arg | static_cast<uint8_t>(how));
  LSSAR_RETURN_IF_ERROR(write_pair(operand(in, 0), op.dst, op.imm));
  LSSAR_RETURN_IF_ERROR(read(operand(in, 1), row.operands[1], op.a));
  LSSAR_RETURN_IF_ERROR(read(operand(in, 2), row.operands[2], op.b));
  if (how == Combine::kNone) return {};
  if (operand(in, 3).negated) op.flags |= kOpNegated;
  return read(operand(in, 3), 'p', op.c);
}

Status OperandBinder::bind_mma(const Instruction& in, const Row& row, Op& op) {
  std::vector<uint32_t> list;
  op.flags = row.arg;
  LSSAR_RETURN_IF_ERROR(write_all(operand(in, 0), list));
  for (uint32_t& field : list) {
    if (field == kNoRegister) field = kScratchOffset;
  }
  const char letter = mma_letter(row);
  for (uint32_t i = 1; i < 4; ++i) LSSAR_RETURN_IF_ERROR(read_all(operand(in, i), letter, list));
  op.count = static_cast<uint8_t>((row.operands[1] - '0') << 4 | (row.operands[2] - '0'));
  op.list = keep(std::move(list));
  return {};
}

Status OperandBinder::bind_shuffle(const Instruction& in, Op& op) {
  LSSAR_RETURN_IF_ERROR(write_pair(operand(in, 0), op.dst, op.imm));
  LSSAR_RETURN_IF_ERROR(read(operand(in, 1), 'w', op.a));
  LSSAR_RETURN_IF_ERROR(read(operand(in, 2), 'w', op.b));
  LSSAR_RETURN_IF_ERROR(read(operand(in, 3), 'w', op.c));
  uint32_t members = 0;
  LSSAR_RETURN_IF_ERROR(read(operand(in, 4), 'w', members));
  op.list = keep({members});
  return {};
}

Status OperandBinder::bind_collective(const Instruction& in, const Row& row, Op& op) {
  if (row.bind == Bind::kCollectivePair) {
    LSSAR_RETURN_IF_ERROR(write_pair(operand(in, 0), op.dst, op.imm));
  } else {
    LSSAR_RETURN_IF_ERROR(write(operand(in, 0), op.dst));
    if (op.dst == kNoRegister) op.dst = kScratchOffset;
  }
  uint32_t* const fields[3] = {&op.a, &op.b, &op.c};
  for (uint32_t i = 1; i < in.num_operands; ++i) {
    if (operand(in, i).negated) op.flags |= kOpNegated;
    uint32_t field = 0;
    LSSAR_RETURN_IF_ERROR(read(operand(in, i), row.operands[i], field));
    if (i <= 3) {
      *fields[i - 1] = field;
    } else {
      op.imm = field;
    }
  }
  if (in.opcode == "elect.sync" && op.imm == kNoRegister) {
    return device_error("elect.sync needs a predicate destination");
  }
  return {};
}

// [d,] barrier [, count] [, predicate]
Status OperandBinder::bind_barrier(const Instruction& in, const Row& row, Op& op) {
  const bool reduces = row.operands[0] != '\0';
  op.space = row.arg & 3;
  op.flags = static_cast<uint8_t>(row.arg >> 2);
  op.count = row.operands[0] == 'w' ? 32 : 1;
  uint32_t i = 0;
  uint32_t last = in.num_operands;
  if (reduces) {
    LSSAR_RETURN_IF_ERROR(write(operand(in, i++), op.dst));
    if (op.dst == kNoRegister) op.dst = kScratchOffset;
    const Operand& predicate = operand(in, --last);
    if (predicate.negated) op.flags |= kOpNegated;
    LSSAR_RETURN_IF_ERROR(read(predicate, 'p', op.c));
  }
  LSSAR_RETURN_IF_ERROR(read(operand(in, i++), 'w', op.a));
  if (i < last) return read(operand(in, i), 'w', op.b);
  if (row.arg == static_cast<uint8_t>(BarrierKind::kArrive)) {
    return device_error("an arrive needs a thread count");
  }
  return {};
}

Status OperandBinder::bind_operands(const Instruction& in, const Row& row, Op& op) {
  std::vector<uint32_t> list;
  switch (row.bind) {
    case Bind::kAlu:
      return bind_alu(in, row, op);
    case Bind::kSetp:
      return bind_setp(in, row, op);
    case Bind::kPack:
      op.count = static_cast<uint8_t>(class_bytes(class_for(row.operands[0])) / 4);
      LSSAR_RETURN_IF_ERROR(write(operand(in, 0), op.dst));
      if (op.dst == kNoRegister) op.dst = kScratchOffset;
      LSSAR_RETURN_IF_ERROR(read_all(operand(in, 1), row.operands[1], list));
      op.list = keep(std::move(list));
      return {};
    case Bind::kUnpack:
      LSSAR_RETURN_IF_ERROR(write_all(operand(in, 0), list));
      op.list = keep(std::move(list));
      return read(operand(in, 1), row.operands[std::strlen(row.operands) - 1], op.a);
    case Bind::kClock:
      clock_register(operand(in, 1).text, row.operands[0], op.flags);
      LSSAR_RETURN_IF_ERROR(write(operand(in, 0), op.dst));
      if (op.dst == kNoRegister) op.dst = kScratchOffset;
      return {};
    case Bind::kConvert:
      return bind_conversion(in, op);
    case Bind::kLoad:
      return bind_load(in, row, op);
    case Bind::kLoadParam:
      return bind_load_param(in, row, op);
    case Bind::kStore:
    case Bind::kReduce:
      return bind_store(in, row, op);
    case Bind::kAtomic:
      return bind_atomic(in, row, op);
    case Bind::kCopyAsync:
      return bind_copy_async(in, op);
    case Bind::kBulk:
      return bind_bulk(in, op);
    case Bind::kGeneric:
      return bind_generic(in, row, op);
    case Bind::kImmediate:
      op.imm = operand(in, 0).value;
      return op.imm >= 0 ? Status() : device_error("a negative count");
    case Bind::kMatrixLoad:
    case Bind::kMatrixStore:
      return bind_matrix(in, row, op);
    case Bind::kMma:
      return bind_mma(in, row, op);
    case Bind::kWgmma:
      return bind_wgmma(in, op);
    case Bind::kShuffle:
      return bind_shuffle(in, op);
    case Bind::kCollective:
    case Bind::kCollectivePair:
      return bind_collective(in, row, op);
    case Bind::kWarpSync:
    case Bind::kTable:
      return read(operand(in, 0), 'w', op.a);
    case Bind::kBarrier:
      return bind_barrier(in, row, op);
    case Bind::kNone:
    case Bind::kBranch:
    case Bind::kExit:
      return {};
  }
  return internal_error("a row without a way to bind it");
}

Status OperandBinder::bind(const Instruction& in, const Row& row, Op& op) {
  reads.clear();
  writes.clear();
  Instruction bound = in;
  if (has_policy(in, row)) --bound.num_operands;
  LSSAR_RETURN_IF_ERROR(bind_operands(bound, row, op));
  if (in.guard >= 0) {
    const auto guard = static_cast<uint32_t>(in.guard);
    op.guard = register_offset(guard);
    op.guard_negated = in.guard_negated;
    reads.push_back(guard);
    // Lanes whose guard does not hold keep the old value, so it is read.
    reads.insert(reads.end(), writes.begin(), writes.end());
  }
  return {};
}

}  // namespace lssar::vdev
