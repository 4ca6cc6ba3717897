// Integer rows that integer_test.cpp leaves out, moves, and addresses of the spaces, against scalar
// C++.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "tests/virtual/conformance/conformance_forms.h"
#include "tests/virtual/conformance/conformance_number.h"
#include "tests/virtual/conformance/conformance_rows.h"

namespace lssar::test {
namespace {

using u128 = unsigned __int128;
using i128 = __int128;
using Function = std::function<uint64_t(const uint64_t*)>;

Form bits_form(const std::string& text, const std::string& letters, Function expect) {
  return {text, letters, Number::kBits, Number::kBits, std::move(expect)};
}
int32_t s32(uint64_t x) { return static_cast<int32_t>(x); }
int64_t s64(uint64_t x) { return static_cast<int64_t>(x); }

uint64_t each_half(uint64_t a, uint64_t b, bool most, bool is_signed, bool relu) {
  uint64_t result = 0;
  for (const int shift : {0, 16}) {
    const auto part = [&](uint64_t x) {
      const auto low = static_cast<uint16_t>(x >> shift);
      return is_signed ? int{static_cast<int16_t>(low)} : int{low};
    };
    int picked = most ? std::max(part(a), part(b)) : std::min(part(a), part(b));
    if (relu) picked = std::max(picked, 0);
    result |= static_cast<uint64_t>(static_cast<uint16_t>(picked)) << shift;
  }
  return result;
}

TEST(ConformanceIntegerTest, MinimaAndMaximaWithRelu) {
  std::vector<Form> forms;
  for (const char* name : {"min", "max"}) {
    const bool most = std::string(name) == "max";
    const auto pick = [most](const uint64_t* in) -> uint64_t {
      const int32_t x = most ? std::max(s32(in[0]), s32(in[1])) : std::min(s32(in[0]), s32(in[1]));
      return static_cast<uint64_t>(std::max(x, 0));
    };
    for (const char* order : {".relu.s32", ".s32.relu"}) {
      forms.push_back(bits_form(fmt::format("{}{} $0, $1, $2;", name, order), "www", pick));
    }
    for (const char* order : {".relu.s16x2", ".s16x2.relu", ".s16x2", ".u16x2"}) {
      const std::string o = order;
      const bool relu = o.find("relu") != o.npos, is_signed = o.find("s16") != o.npos;
      forms.push_back(bits_form(
          fmt::format("{}{} $0, $1, $2;", name, order), "www",
          [=](const uint64_t* in) { return each_half(in[0], in[1], most, is_signed, relu); }));
    }
  }
  check_forms(forms);
}

// Dot products of bytes, or of two 16-bit numbers with two bytes of the second operand.
uint64_t dot(const uint64_t* in, bool signed_a, bool signed_b, int bits_a, int first) {
  const auto part = [](uint64_t x, int bits, int k, bool is_signed) -> int64_t {
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    const auto value = static_cast<int64_t>(x >> (bits * k) & mask);
    return is_signed && value >> (bits - 1) != 0 ? value - (int64_t{1} << bits) : value;
  };
  int64_t result = static_cast<int64_t>(in[2]);
  for (int k = 0; k < 32 / bits_a; ++k) {
    result += part(in[0], bits_a, k, signed_a) * part(in[1], 8, first + k, signed_b);
  }
  return static_cast<uint64_t>(result);
}
TEST(ConformanceIntegerTest, DotProducts) {
  std::vector<Form> forms;
  for (const std::string a : {"u32", "s32"}) {
    for (const std::string b : {"u32", "s32"}) {
      const auto add = [&](const char* name, int bits, int first) {
        forms.push_back(bits_form(
            fmt::format("{}.{}.{} $0, $1, $2, $3;", name, a, b), "wwww",
            [=](const uint64_t* in) { return dot(in, a == "s32", b == "s32", bits, first); }));
      };
      add("dp4a", 8, 0);
      add("dp2a.lo", 16, 0);
      add("dp2a.hi", 16, 2);
    }
  }
  check_forms(forms);
}

TEST(ConformanceIntegerTest, ProductsOf24Bits) {
  std::vector<Form> forms;
  for (const bool is_signed : {false, true}) {
    for (const bool high : {false, true}) {
      for (const bool adds : {false, true}) {
        const auto factor = [=](uint64_t x) -> int64_t {
          const auto low = static_cast<int64_t>(x & 0xffffff);
          return is_signed && low >= 1 << 23 ? low - (1 << 24) : low;
        };
        const auto expect = [=](const uint64_t* in) {
          const int64_t product = factor(in[0]) * factor(in[1]);
          return static_cast<uint64_t>(high ? product >> 16 : product) + (adds ? in[2] : 0);
        };
        forms.push_back(
            bits_form(fmt::format("{}.{}.{}32 $0, $1, $2{};", adds ? "mad24" : "mul24",
                                  high ? "hi" : "lo", is_signed ? "s" : "u", adds ? ", $3" : ""),
                      adds ? "wwww" : "www", expect));
      }
    }
  }
  check_forms(forms);
}

// d = product's half + c + carry; the carry comes from adding $1 and $2 before, and the carry out
// is read by a further addc of zeros.
TEST(ConformanceIntegerTest, ProductsWithCarry) {
  std::vector<Form> forms;
  for (const int bits : {32, 64}) {
    for (const bool is_signed : {false, true}) {
      for (const bool high : {false, true}) {
        for (const int how : {0, 1, 2, 3}) {  // madc, madc.cc, mad.cc, and the carry of madc.cc
          const char letter = bits == 32 ? 'w' : 'l';
          const std::string type = fmt::format("{}{}", is_signed ? "s" : "u", bits);
          const std::string sum = fmt::format("add.cc.u{0} %x{1}0, $1, $2; ", bits, letter);
          const std::string name = fmt::format("mad{}.{}{}.{}", how == 2 ? "" : "c",
                                               high ? "hi" : "lo", how == 0 ? "" : ".cc", type);
          std::string text = sum + name;
          text += how < 3 ? " $0, $1, $2, $3;"
                          : fmt::format(" %x{0}1, $1, $2, $3; addc.u{1} $0, 0, 0;", letter, bits);
          const auto expect = [=](const uint64_t* in) {
            const u128 modulus = static_cast<u128>(1) << bits;
            const uint64_t carry = how != 2 && static_cast<u128>(in[0]) + in[1] >= modulus ? 1 : 0;
            u128 product = static_cast<u128>(in[0]) * in[1];
            if (is_signed) {
              product = bits == 32 ? static_cast<u128>(static_cast<i128>(s32(in[0])) * s32(in[1]))
                                   : static_cast<u128>(static_cast<i128>(s64(in[0])) * s64(in[1]));
            }
            const u128 half = (high ? product >> bits : product) & (modulus - 1);
            const u128 total = half + in[2] + carry;
            return static_cast<uint64_t>(how < 3 ? total : total >> bits);
          };
          forms.push_back(bits_form(text, std::string(4, letter), expect));
        }
      }
    }
  }
  check_forms(forms);
}

TEST(ConformanceIntegerTest, SelectBySign) {
  std::vector<Form> forms;
  for (const char letter : {'h', 'w', 'l'}) {
    const std::string bits = letter == 'h' ? "16" : letter == 'w' ? "32" : "64";
    for (const std::string prefix : {"b", "u", "s"}) {
      for (const std::string by : {".s32", ".f32", "ftz"}) {
        const std::string opcode = by == "ftz" ? fmt::format("slct.ftz.{}{}.f32", prefix, bits)
                                               : fmt::format("slct.{}{}{}", prefix, bits, by);
        const std::string letters = {letter, letter, letter, 'w'};
        forms.push_back(bits_form(opcode + " $0, $1, $2, $3;", letters, [=](const uint64_t* in) {
          if (by == ".s32") return s32(in[2]) >= 0 ? in[0] : in[1];
          const uint64_t c = by == "ftz" ? flush(in[2], kF32) : in[2];
          const Real x = decode(c, kF32);
          const bool at_least_0 = x.kind == Real::kZero || (x.kind != Real::kNan && !x.negative);
          return at_least_0 ? in[0] : in[1];
        }));
      }
    }
  }
  check_forms(forms);
}

TEST(ConformanceMoveTest, PackingUnpackingAndNarrowing) {
  std::vector<Form> forms;
  for (int k = 0; k < 4; ++k) {
    std::string list = "{%xh0, %xh1, %xh2, %xh3}";
    list.replace(1 + static_cast<size_t>(k) * 6, 4, "$0");
    forms.push_back(bits_form(fmt::format("mov.b64 {}, $1;", list), "hl",
                              [k](const uint64_t* in) { return in[0] >> (16 * k); }));
  }
  for (const char* to : {"u32", "s32"}) {
    for (const char* from : {"u32", "s32"}) {
      forms.push_back(bits_form(fmt::format("cvt.{}.{} $0, $1;", to, from), "ww",
                                [](const uint64_t* in) { return in[0]; }));
    }
  }
  check_forms(forms);
}

// Two readings take the place of a number that no clock shows, and differ by little.
TEST(ConformanceMoveTest, ClocksAdvance) {
  std::vector<Form> forms;
  const auto add = [&](const char* first, const char* second, const char* letter, int bits) {
    forms.push_back(bits_form(
        fmt::format("mov.u{3} %x{2}0, -1; mov.u{3} %x{2}0, {0}; mov.u{3} %x{2}1, {1}; "
                    "setp.ne.u{3} %xp0, %x{2}0, -1; sub.u{3} %x{2}2, %x{2}1, %x{2}0; "
                    "setp.lt.and.u{3} %xp1, %x{2}2, 1000000000, %xp0; selp.b32 $0, 1, 0, %xp1;",
                    first, second, letter, bits),
        "wl", [](const uint64_t*) { return uint64_t{1}; }));
  };
  add("%clock64", "%clock64", "l", 64);
  add("%globaltimer", "%globaltimer", "l", 64);
  add("%clock", "%clock", "w", 32);
  add("%clock_hi", "%clock_hi", "w", 32);
  check_forms(forms);
}

TEST(ConformanceMoveTest, AddressesOfASpaceThereAndBack) {
  std::vector<Form> forms;
  for (const std::string space : {"shared", "shared::cta", "shared::cluster", "local", "param",
                                  "param::entry", "global", "const"}) {
    forms.push_back(bits_form(fmt::format("and.b64 %xl0, $1, 0xfff; cvta.{0}.u64 %xl1, %xl0; "
                                          "cvta.to.{0}.u64 $0, %xl1;",
                                          space),
                              "ll", [](const uint64_t* in) { return in[0] & 0xfff; }));
    for (const std::string asked :
         {"shared", "local", "param", "global", "shared::cta", "shared::cluster", "param::entry"}) {
      const auto kind = [](const std::string& s) {
        return s == "const" ? "global" : s.substr(0, s.find(':'));
      };
      const uint64_t is_in = kind(space) == kind(asked) ? 1 : 0;
      forms.push_back(bits_form(fmt::format("and.b64 %xl0, $1, 0xfff; cvta.{}.u64 %xl1, %xl0; "
                                            "isspacep.{} $0, %xl1;",
                                            space, asked),
                                "pl", [is_in](const uint64_t*) { return is_in; }));
    }
  }
  check_forms(forms);
}

}  // namespace
}  // namespace lssar::test
