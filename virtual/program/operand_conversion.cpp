// How the general cvt is bound: types, rounding and widths of registers.
#include <bit>
#include <string_view>

#include "virtual/program/opcode_table.h"
#include "virtual/program/operand_binder.h"

namespace lssar::vdev {
namespace {

bool parse_number_type(std::string_view name, NumberType& type) {
  static constexpr std::string_view kNames[kNumNumberTypes] = {".u8",  ".s8",   ".u16", ".s16",
                                                               ".u32", ".s32",  ".u64", ".s64",
                                                               ".f16", ".bf16", ".f32", ".f64"};
  for (int i = 0; i < kNumNumberTypes; ++i) {
    if (name == kNames[i]) {
      type = static_cast<NumberType>(i);
      return true;
    }
  }
  return false;
}

struct RoundingName {
  std::string_view name;
  Rounding rounding;
  bool to_integral;
};
constexpr RoundingName kRoundings[] = {
    {".rn", Rounding::kNearestEven, false}, {".rz", Rounding::kZero, false},
    {".rm", Rounding::kDown, false},        {".rp", Rounding::kUp, false},
    {".rni", Rounding::kNearestEven, true}, {".rzi", Rounding::kZero, true},
    {".rmi", Rounding::kDown, true},        {".rpi", Rounding::kUp, true},
};

// Whether PTX requires a rounding for this pair of types, and which kind.
Status check_rounding(const Conversion& c, bool given) {
  const bool from_float = c.from >= NumberType::kF16;
  const bool to_float = c.to >= NumberType::kF16;
  const auto bits = [](NumberType t) {
    return t == NumberType::kF64 ? 64 : t == NumberType::kF32 ? 32 : 16;
  };
  if (!from_float && !to_float) return given ? device_error("integers are not rounded") : Status();
  if (from_float && !to_float) {
    return given && c.to_integral ? Status()
                                  : device_error("float to integer needs .rni, .rzi, .rmi or .rpi");
  }
  if (!from_float) {
    return given && !c.to_integral ? Status()
                                   : device_error("integer to float needs .rn, .rz, .rm or .rp");
  }
  if (c.from == c.to) return !given || c.to_integral ? Status() : device_error("nothing to round");
  if (bits(c.to) > bits(c.from)) return given ? device_error("nothing to round") : Status();
  return given && !c.to_integral ? Status()
                                 : device_error("a narrower float needs .rn, .rz, .rm or .rp");
}

}  // namespace

Status OperandBinder::bind_conversion(const Instruction& in, Op& op) {
  Conversion c = {};
  const size_t from_dot = in.opcode.rfind('.');
  const size_t to_dot = in.opcode.rfind('.', from_dot - 1);
  if (!parse_number_type(in.opcode.substr(from_dot), c.from) ||
      !parse_number_type(in.opcode.substr(to_dot, from_dot - to_dot), c.to)) {
    return device_error("unknown types");
  }
  bool given = false;
  for (const RoundingName& r : kRoundings) {
    if (!has_modifier(in.opcode, r.name)) continue;
    given = true;
    c.rounding = r.rounding;
    c.to_integral = r.to_integral;
  }
  LSSAR_RETURN_IF_ERROR(check_rounding(c, given));
  if (has_modifier(in.opcode, ".ftz")) c.flags |= kConvertFtz;
  if (has_modifier(in.opcode, ".sat")) c.flags |= kConvertSat;
  const RegClass to = register_class(operand(in, 0));
  LSSAR_RETURN_IF_ERROR(write(operand(in, 0), op.dst));
  const Operand& source = operand(in, 1);
  RegClass from = RegClass::k64;
  if (source.kind == OperandKind::kRegister) from = register_class(source);
  LSSAR_RETURN_IF_ERROR(read(source, 'l', op.a));
  op.count = static_cast<uint8_t>(class_bytes(to) / 4);
  c.to_bytes = static_cast<uint8_t>(class_bytes(to) / kLanes);
  c.from_bytes = static_cast<uint8_t>(class_bytes(from) / kLanes);
  op.imm = std::bit_cast<int64_t>(c);
  return {};
}

}  // namespace lssar::vdev
