// Compares every form of cvt with exact arithmetic: integers in 128 bits, floats by
// conformance_number.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "tests/virtual/conformance/conformance_forms.h"
#include "tests/virtual/conformance/conformance_number.h"
#include "tests/virtual/conformance/conformance_rows.h"

namespace lssar::test {
namespace {

struct Type {
  std::string name;
  int bits = 0;
  bool is_float = false;
  bool is_signed = false;
  Format format = {};
};
const Type kTypes[] = {
    {"u8", 8, false, false, {}},     {"s8", 8, false, true, {}},    {"u16", 16, false, false, {}},
    {"s16", 16, false, true, {}},    {"u32", 32, false, false, {}}, {"s32", 32, false, true, {}},
    {"u64", 64, false, false, {}},   {"s64", 64, false, true, {}},  {"f16", 16, true, true, kF16},
    {"bf16", 16, true, true, kBf16}, {"f32", 32, true, true, kF32}, {"f64", 64, true, true, kF64},
};
char letter_of(const Type& t) { return t.bits <= 16 ? 'h' : t.bits == 32 ? 'w' : 'l'; }

struct Conversion {
  Type to, from;
  Round round = Round::kNearest;
  bool to_integral = false, ftz = false, sat = false;
};

__int128 lowest(const Type& t) {
  return t.is_signed ? -(static_cast<__int128>(1) << (t.bits - 1)) : 0;
}
__int128 largest(const Type& t) {
  return (static_cast<__int128>(1) << (t.is_signed ? t.bits - 1 : t.bits)) - 1;
}

__int128 integer(const Type& t, uint64_t bits) {
  const __int128 value = bits & static_cast<uint64_t>(largest({"", t.bits, false, false, {}}));
  return t.is_signed && value > largest(t) ? value - (static_cast<__int128>(1) << t.bits) : value;
}

// The bits in a wider register: extended by the type's own sign.
uint64_t extended(const Type& t, __int128 value) {
  return static_cast<uint64_t>(integer(t, static_cast<uint64_t>(value)));
}

// NaN becomes 0; with 64 bits on either side it becomes the lowest signed number.
uint64_t to_integer_bits(const Conversion& c, const Real& x) {
  if (x.kind == Real::kNan) {
    const bool is_64 = c.to.bits == 64 || c.from.bits == 64;
    return is_64 ? extended(c.to, static_cast<__int128>(1) << (c.to.bits - 1)) : 0;
  }
  return extended(c.to, std::clamp(to_integer(x, c.round), lowest(c.to), largest(c.to)));
}

Real integral(const Real& x, Round round) {
  if (x.kind != Real::kFinite || x.e >= 0) return x;
  Real whole = from_integer(to_integer(x, round));
  whole.negative = x.negative;
  return whole;
}

uint64_t to_float_bits(const Conversion& c, Real x) {
  const Format& f = c.to.format;
  if (c.to_integral) x = integral(x, c.round);
  if (c.sat && (x.kind == Real::kNan || x.negative)) return 0;
  uint64_t result = encode(x, f, c.round);
  if (c.sat) result = std::min(result, encode(from_integer(1), f, Round::kNearest));
  return c.ftz && c.to.name == "f32" ? flush(result, f) : result;
}

uint64_t converted(const Conversion& c, uint64_t bits) {
  if (!c.from.is_float && !c.to.is_float) {
    const __int128 value = integer(c.from, bits);
    return extended(c.to, c.sat ? std::clamp(value, lowest(c.to), largest(c.to)) : value);
  }
  if (!c.from.is_float) return to_float_bits(c, from_integer(integer(c.from, bits)));
  if (c.ftz && c.from.name == "f32") bits = flush(bits, kF32);
  const Real x = decode(bits, c.from.format);
  return c.to.is_float ? to_float_bits(c, x) : to_integer_bits(c, x);
}

struct Rounding {
  const char* name;
  Round round;
};
const Rounding kRoundings[] = {
    {"n", Round::kNearest}, {"z", Round::kZero}, {"m", Round::kDown}, {"p", Round::kUp}};

std::vector<std::string> roundings_of(const Type& to, const Type& from) {
  if (!to.is_float && !from.is_float) return {""};
  std::vector<std::string> names;
  const bool same = to.name == from.name;
  const bool to_integral = !to.is_float || same;
  const bool widens = to.is_float && from.is_float && !same && to.bits > from.bits;
  if (same || widens) names.emplace_back("");
  if (widens) return names;
  for (const Rounding& r : kRoundings) {
    names.push_back(fmt::format(".r{}{}", r.name, to_integral ? "i" : ""));
  }
  return names;
}

// Every form that PTX has for two types.
void add_pair(const Type& to, const Type& from, std::vector<Form>& forms) {
  for (const std::string& rounding : roundings_of(to, from)) {
    for (const bool ftz : {false, true}) {
      if (ftz && to.name != "f32" && from.name != "f32") continue;
      for (const bool sat : {false, true}) {
        Conversion c = {to, from};
        c.ftz = ftz, c.sat = sat;
        c.to_integral = rounding.ends_with("i");
        for (const Rounding& r : kRoundings) {
          if (rounding.starts_with(fmt::format(".r{}", r.name))) c.round = r.round;
        }
        forms.push_back({fmt::format("cvt{}{}{}.{}.{} $0, $1;", rounding, ftz ? ".ftz" : "",
                                     sat ? ".sat" : "", to.name, from.name),
                         {letter_of(to), letter_of(from)},
                         number_of(from.name),
                         number_of(to.name),
                         [c](const uint64_t* in) { return converted(c, in[0]); }});
      }
    }
  }
}

class ConformanceConvertTest : public testing::TestWithParam<Type> {};
TEST_P(ConformanceConvertTest, ToEveryOtherType) {
  std::vector<Form> forms;
  for (const Type& to : kTypes) add_pair(to, GetParam(), forms);
  check_forms(forms);
}
INSTANTIATE_TEST_SUITE_P(From, ConformanceConvertTest, testing::ValuesIn(kTypes),
                         [](const auto& p) { return p.param.name; });

// Registers may be wider than the type, for source and destination.
TEST(ConformanceWideConvertTest, IntegersInWiderRegisters) {
  std::vector<Form> forms;
  const std::string widths = "hwl";
  for (const Type& to : kTypes) {
    for (const Type& from : kTypes) {
      if (to.is_float || from.is_float) continue;
      for (const char d : widths) {
        for (const char a : widths) {
          if (widths.find(d) < widths.find(letter_of(to))) continue;
          if (widths.find(a) < widths.find(letter_of(from))) continue;
          const Conversion c = {to, from};
          forms.push_back({fmt::format("cvt.{}.{} $0, $1;", to.name, from.name),
                           {d, a},
                           Number::kBits,
                           Number::kBits,
                           [c](const uint64_t* in) { return converted(c, in[0]); }});
        }
      }
    }
  }
  check_forms(forms);
}

// The 8-bit formats. Their numbers are listed, and the nearest is taken; ties go to the even code.
struct ByteFormat {
  int fraction;
  int bias;
  uint64_t largest;  // code
};
const ByteFormat kE4m3 = {3, 7, 0x7e};
const ByteFormat kE5m2 = {2, 15, 0x7b};

Real byte_value(const ByteFormat& f, uint64_t code) {
  Real x;
  x.negative = (code & 0x80) != 0;
  const uint64_t rest = code & 0x7f;
  if (rest > f.largest) {
    x.kind = f.fraction == 2 && rest == 0x7c ? Real::kInfinite : Real::kNan;
    return x;
  }
  const uint64_t one = uint64_t{1} << f.fraction;
  const int exponent = static_cast<int>(rest >> f.fraction);
  x.kind = rest == 0 ? Real::kZero : Real::kFinite;
  x.m.low = exponent == 0 ? rest : (rest & (one - 1)) | one;
  x.e = std::max(exponent, 1) - f.bias - f.fraction;
  return x;
}

uint64_t byte_code(const ByteFormat& f, const Real& x, bool relu) {
  if (x.kind == Real::kNan) return 0x7f;
  if (relu && x.negative) return 0;
  const Real wanted = magnitude(x);
  uint64_t best = f.largest;
  for (uint64_t code = 0; code < f.largest; ++code) {
    // The middle between this number and the next.
    Real middle = sum(byte_value(f, code), byte_value(f, code + 1), Round::kNearest);
    middle.e -= 1;
    const int order = compare(wanted, middle);
    if (order > 0 || (order == 0 && code % 2 == 1)) continue;
    best = code;
    break;
  }
  return best | (x.negative ? 0x80 : 0);
}

bool has(const std::vector<std::string>& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// One element of a conversion to 16 or 19 bits.
uint64_t narrowed(const std::vector<std::string>& words, const Format& f, uint64_t bits) {
  const Round round = has(words, "rz")    ? Round::kZero
                      : has(words, "rna") ? Round::kAway
                                          : Round::kNearest;
  const Real x = decode(bits, kF32);
  uint64_t result = encode(x, f, round);
  if (x.kind == Real::kNan) return result;
  if (has(words, "satfinite")) {
    const Real inf = {Real::kInfinite, false, {}, 0};
    const uint64_t last = uint64_t{1} << (f.bits - 1 - f.exponent_bits - f.fraction);
    const uint64_t most = encode(inf, f, Round::kNearest) - last;
    result = std::min(result & ~sign_bit(f), most) | (result & sign_bit(f));
  }
  return has(words, "relu") && (result & sign_bit(f)) != 0 ? 0 : result;
}

// Forms for the rows of narrow_ops.cpp; nothing for other rows.
std::optional<Form> narrow_form(const std::string& opcode, const std::string& letters) {
  const auto words = words_of(opcode);
  const std::string& from = words.back();
  const std::string& to = words[words.size() - 2];
  const bool relu = has(words, "relu");
  Form form = {fmt::format("{} {};", opcode, operand_list(letters.size())), letters,
               number_of(from), number_of(to), nullptr};
  const auto byte = [](const std::string& name) -> const ByteFormat* {
    return name == "e4m3x2" ? &kE4m3 : name == "e5m2x2" ? &kE5m2 : nullptr;
  };
  if (const ByteFormat* f = byte(to)) {
    const bool halves = from == "f16x2";
    form.expect = [=](const uint64_t* in) {
      const Real high = halves ? decode(in[0] >> 16, kF16) : decode(in[0], kF32);
      const Real low = halves ? decode(in[0] & 0xffff, kF16) : decode(in[1], kF32);
      return byte_code(*f, high, relu) << 8 | byte_code(*f, low, relu);
    };
    return form;
  }
  if (const ByteFormat* f = byte(from)) {
    form.expect = [=](const uint64_t* in) {
      const auto part = [&](int shift) -> uint64_t {
        const Real x = byte_value(*f, in[0] >> shift & 0xff);
        if (relu && x.kind != Real::kNan && x.negative) return 0;
        return encode(x, kF16, Round::kNearest);
      };
      return part(8) << 16 | part(0);
    };
    return form;
  }
  if (from != "f32") return {};
  if (to == "f16x2" || to == "bf16x2") {
    const Format f = to == "f16x2" ? kF16 : kBf16;
    form.expect = [=](const uint64_t* in) {
      return narrowed(words, f, in[0]) << 16 | narrowed(words, f, in[1]);
    };
    return form;
  }
  if (to != "f16" && to != "bf16" && to != "tf32") return {};
  const Format f = to == "f16" ? kF16 : to == "bf16" ? kBf16 : kTf32;
  if (to == "tf32") form.out = Number::kF32;
  form.expect = [=](const uint64_t* in) { return narrowed(words, f, in[0]); };
  return form;
}

TEST(ConformanceNarrowConvertTest, EveryRowToPairsTf32AndBytes) {
  std::vector<Form> forms;
  for (const vdev::Row* row : table_rows(SimdLevel::kPlain)) {
    if (row->bind != vdev::Bind::kAlu) continue;
    for (const std::string& opcode : opcodes_of(row->opcode)) {
      if (!opcode.starts_with("cvt.")) continue;
      if (const auto form = narrow_form(opcode, row->operands)) forms.push_back(*form);
    }
  }
  check_forms(forms);
}

}  // namespace
}  // namespace lssar::test
