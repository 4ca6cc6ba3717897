// How operands of the bulk instructions are matched and bound.
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "virtual/program/bulk_operands.h"
#include "virtual/program/opcode_table.h"
#include "virtual/program/operand_binder.h"

namespace lssar::vdev {
namespace {

constexpr int64_t kBulkMultiple = 16;  // of every size in bytes

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct ReduceName {
  std::string_view name;
  BulkReduceOp op;
};
constexpr ReduceName kReduceNames[] = {
    {".add", BulkReduceOp::kAdd}, {".min", BulkReduceOp::kMin}, {".max", BulkReduceOp::kMax},
    {".inc", BulkReduceOp::kInc}, {".dec", BulkReduceOp::kDec}, {".and", BulkReduceOp::kAnd},
    {".or", BulkReduceOp::kOr},   {".xor", BulkReduceOp::kXor},
};

struct NumberTypeName {
  std::string_view name;
  NumberType type;
};
constexpr NumberTypeName kNumberTypeNames[] = {
    {".u32", NumberType::kU32}, {".s32", NumberType::kS32},   {".b32", NumberType::kU32},
    {".u64", NumberType::kU64}, {".s64", NumberType::kS64},   {".b64", NumberType::kU64},
    {".f16", NumberType::kF16}, {".bf16", NumberType::kBf16}, {".f32", NumberType::kF32},
    {".f64", NumberType::kF64},
};

BulkForm form_of(std::string_view opcode) {
  BulkForm form = {};
  const bool reduces = opcode.starts_with("cp.reduce");
  if (has_modifier(opcode, ".prefetch")) {
    form.kind = BulkKind::kPrefetch;
  } else if (contains(opcode, ".global.shared::cta")) {
    form.kind = reduces ? BulkKind::kReduce : BulkKind::kStore;
  } else if (contains(opcode, ".shared::cluster.shared::cta")) {
    form.kind = reduces ? BulkKind::kReduceShared : BulkKind::kCopy;
  } else {
    form.kind = BulkKind::kLoad;
  }
  if (const size_t at = opcode.find(".tensor."); at != std::string_view::npos) {
    form.rank = static_cast<uint8_t>(opcode[at + std::strlen(".tensor.")] - '0');
  }
  form.multicast = has_modifier(opcode, ".multicast::cluster");
  if (!reduces) return form;
  for (const ReduceName& r : kReduceNames) {
    if (has_modifier(opcode, r.name)) form.reduce = r.op;
  }
  for (const NumberTypeName& t : kNumberTypeNames) {
    if (opcode.ends_with(t.name)) form.type = t.type;
  }
  return form;
}

// One letter per operand: d, s, b are addresses of destination, source and barrier; D, S those of a
// tensor map with coordinates; w size, h mask of blocks, l cache policy.
std::string shape_of(std::string_view opcode, const BulkForm& form) {
  const bool tensor = form.rank > 0;
  std::string shape;
  switch (form.kind) {
    case BulkKind::kLoad:
      shape = tensor ? "dSb" : "dswb";
      break;
    case BulkKind::kCopy:
    case BulkKind::kReduceShared:
      shape = "dswb";
      break;
    case BulkKind::kStore:
    case BulkKind::kReduce:
      shape = tensor ? "Ds" : "dsw";
      break;
    case BulkKind::kPrefetch:
      shape = tensor ? "S" : "sw";
      break;
  }
  if (form.multicast) shape += 'h';
  if (has_modifier(opcode, ".L2::cache_hint")) shape += 'l';
  return shape;
}

// The state space of an address. Tensor maps may lie in any space with generic addresses.
StateSpace space_of(char letter, BulkKind kind) {
  switch (letter) {
    case 'd':
      return kind == BulkKind::kStore || kind == BulkKind::kReduce ? StateSpace::kGlobal
                                                                   : StateSpace::kShared;
    case 's':
      return kind == BulkKind::kLoad || kind == BulkKind::kPrefetch ? StateSpace::kGlobal
                                                                    : StateSpace::kShared;
    case 'b':
      return StateSpace::kShared;
    default:
      return StateSpace::kGeneric;
  }
}

}  // namespace

bool OperandBinder::fits_bulk(const Instruction& in) const {
  const BulkForm form = form_of(in.opcode);
  const std::string shape = shape_of(in.opcode, form);
  if (in.num_operands != shape.size()) return false;
  for (uint32_t i = 0; i < in.num_operands; ++i) {
    const Operand& o = operand(in, i);
    switch (shape[i]) {
      case 'w':
      case 'h':
      case 'l':
        if (!fits_value(o, shape[i], false)) return false;
        break;
      case 'D':
      case 'S': {
        if (o.kind != OperandKind::kAddress || o.count != 2) return false;
        const Operand& coordinates = element(o, 1);
        if (coordinates.kind != OperandKind::kVector) return false;
        if (!fits_vector(coordinates, 'w', form.rank, false)) return false;
        break;
      }
      default:
        if (o.kind != OperandKind::kAddress || o.count > 1) return false;
    }
  }
  return true;
}

Status OperandBinder::bulk_address(const Operand& o, StateSpace space, BulkAddress& bound) {
  Operand plain = o;
  plain.count = o.count > 0 ? 1 : 0;  // without coordinates
  if (plain.count == 1 && element(plain, 0).kind == OperandKind::kParam) {
    const Operand& param = element(plain, 0);
    bound.base = kNoRegister;
    bound.wide = 1;
    bound.offset = static_cast<int64_t>(kParamWindow + kernel_.params[param.index].address +
                                        static_cast<uint64_t>(o.value));
    return space == StateSpace::kGeneric ? Status() : device_error("the address of a parameter");
  }
  bool wide = false;
  LSSAR_RETURN_IF_ERROR(address(plain, space, bound.base, bound.offset, wide));
  bound.wide = wide;
  return {};
}

Status OperandBinder::bind_bulk(const Instruction& in, Op& op) {
  const BulkForm form = form_of(in.opcode);
  const std::string shape = shape_of(in.opcode, form);
  BulkOperands bound = {};
  bound.destination.base = bound.source.base = bound.barrier.base = kNoRegister;
  bound.bytes = bound.block_mask = bound.cache_policy = kNoRegister;
  for (uint32_t& coordinate : bound.coordinates) coordinate = kNoRegister;
  for (uint32_t i = 0; i < in.num_operands; ++i) {
    const Operand& o = operand(in, i);
    const char letter = shape[i];
    if (letter == 'w' || letter == 'h' || letter == 'l') {
      uint32_t& field = letter == 'w'   ? bound.bytes
                        : letter == 'h' ? bound.block_mask
                                        : bound.cache_policy;
      LSSAR_RETURN_IF_ERROR(read(o, letter, field));
      if (letter == 'w' && o.kind == OperandKind::kInteger && o.value % kBulkMultiple != 0) {
        return device_error(
            fmt::format("a size of {} bytes: allowed are multiples of {}", o.value, kBulkMultiple));
      }
      continue;
    }
    BulkAddress& field = letter == 'b'                    ? bound.barrier
                         : letter == 'd' || letter == 'D' ? bound.destination
                                                          : bound.source;
    LSSAR_RETURN_IF_ERROR(bulk_address(o, space_of(letter, form.kind), field));
    if (letter != 'D' && letter != 'S') continue;
    for (uint32_t c = 0; c < form.rank; ++c) {
      LSSAR_RETURN_IF_ERROR(read(element(element(o, 1), c), 'w', bound.coordinates[c]));
    }
  }
  std::vector<uint32_t> list(sizeof(bound) / sizeof(uint32_t));
  std::memcpy(list.data(), &bound, sizeof(bound));
  op.list = keep(std::move(list));
  std::memcpy(&op.imm, &form, sizeof(form));
  return {};
}

}  // namespace lssar::vdev
