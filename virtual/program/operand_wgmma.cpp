// How operands of wgmma.mma_async are matched and bound:
//   {d}, {a} | a-desc, b-desc, scale-d, imm-scale-a, imm-scale-b [[, imm-trans-a], imm-trans-b]
// Products of integers end with scale-d.
#include <bit>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "virtual/program/operand_binder.h"
#include "virtual/program/wgmma.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kRegistersOfA = 4;
constexpr uint32_t kFirstImmediate = 4;  // imm-scale-a

struct WgmmaTypeName {
  std::string_view name;
  WgmmaType type;
};
constexpr WgmmaTypeName kWgmmaTypeNames[] = {
    {"f16", WgmmaType::kF16},   {"bf16", WgmmaType::kBf16}, {"tf32", WgmmaType::kTf32},
    {"e4m3", WgmmaType::kE4m3}, {"e5m2", WgmmaType::kE5m2}, {"s8", WgmmaType::kS8},
    {"u8", WgmmaType::kU8},
};

// Removes the modifier after the last dot from the opcode.
std::string_view take_last(std::string_view& opcode) {
  const size_t dot = opcode.rfind('.');
  const std::string_view last = opcode.substr(dot + 1);
  opcode = opcode.substr(0, dot);
  return last;
}

WgmmaType type_of(std::string_view name) {
  for (const WgmmaTypeName& t : kWgmmaTypeNames) {
    if (t.name == name) return t.type;
  }
  return WgmmaType::kF16;
}

// Parses wgmma.mma_async.sync.aligned.m64nNkK[.satfinite].dtype.atype.btype, as a row of the table
// has it.
WgmmaForm wgmma_form_of(std::string_view opcode) {
  WgmmaForm form = {};
  form.b_type = type_of(take_last(opcode));
  form.a_type = type_of(take_last(opcode));
  form.half_sums = take_last(opcode) == "f16";
  std::string_view shape = take_last(opcode);
  form.saturate = shape == "satfinite";
  if (form.saturate) shape = take_last(opcode);
  const std::string_view n = shape.substr(shape.find('n') + 1);
  std::from_chars(n.data(), n.data() + n.size(), form.n);
  return form;
}

uint32_t num_sums(const WgmmaForm& form) { return form.n / (form.half_sums ? 4u : 2u); }

bool has_scales(const WgmmaForm& form) {
  return form.a_type != WgmmaType::kS8 && form.a_type != WgmmaType::kU8;
}

bool can_transpose(const WgmmaForm& form) {
  return form.a_type == WgmmaType::kF16 || form.a_type == WgmmaType::kBf16;
}

}  // namespace

bool OperandBinder::fits_wgmma(const Instruction& in) const {
  const WgmmaForm form = wgmma_form_of(in.opcode);
  const uint32_t scales = has_scales(form) ? 2 : 0;
  if (in.num_operands < kFirstImmediate + scales) return false;
  const auto is_fragment = [&](const Operand& o, uint32_t count) {
    if (o.kind != OperandKind::kVector || o.count != count) return false;
    for (uint32_t i = 0; i < count; ++i) {
      const Operand& e = element(o, i);
      if (e.kind != OperandKind::kRegister || register_class(e) != RegClass::k32) return false;
    }
    return true;
  };
  if (!is_fragment(operand(in, 0), num_sums(form))) return false;
  const bool a_in_registers = operand(in, 1).kind == OperandKind::kVector;
  if (a_in_registers ? !is_fragment(operand(in, 1), kRegistersOfA)
                     : !fits_value(operand(in, 1), 'l', false)) {
    return false;
  }
  if (!fits_value(operand(in, 2), 'l', false)) return false;
  Operand scale = operand(in, 3);
  scale.negated = false;
  if (!fits_value(scale, 'p', false)) return false;
  const uint32_t transposes = !can_transpose(form) ? 0 : a_in_registers ? 1 : 2;
  if (in.num_operands != kFirstImmediate + scales + transposes) return false;
  for (uint32_t i = kFirstImmediate; i < in.num_operands; ++i) {
    if (operand(in, i).kind != OperandKind::kInteger) return false;
  }
  return true;
}

Status OperandBinder::bind_wgmma(const Instruction& in, Op& op) {
  WgmmaForm form = wgmma_form_of(in.opcode);
  std::vector<uint32_t> list;
  LSSAR_RETURN_IF_ERROR(write_all(operand(in, 0), list));
  op.count = static_cast<uint8_t>(list.size());
  reads.insert(reads.end(), writes.begin(), writes.end());
  if (operand(in, 1).kind == OperandKind::kVector) {
    LSSAR_RETURN_IF_ERROR(read_all(operand(in, 1), 'w', list));
  } else {
    LSSAR_RETURN_IF_ERROR(read(operand(in, 1), 'l', op.a));
  }
  LSSAR_RETURN_IF_ERROR(read(operand(in, 2), 'l', op.b));
  LSSAR_RETURN_IF_ERROR(read(operand(in, 3), 'p', op.c));
  if (operand(in, 3).negated) op.flags |= kOpNegated;
  op.list = keep(std::move(list));

  int64_t scales = 1;
  for (uint32_t i = kFirstImmediate; i < in.num_operands; ++i) {
    const int64_t value = operand(in, i).value;
    if (i < kFirstImmediate + 2) {
      if (value != 1 && value != -1) {
        return device_error(fmt::format("a scale of {}: allowed are 1 and -1", value));
      }
      scales *= value;
      continue;
    }
    if (value != 0 && value != 1) {
      return device_error(fmt::format("a transposition of {}: allowed are 0 and 1", value));
    }
    (i + 1 == in.num_operands ? form.b_mn_major : form.a_mn_major) = value == 1;
  }
  form.negate = scales < 0;
  op.imm = std::bit_cast<int64_t>(form);
  return {};
}

}  // namespace lssar::vdev
