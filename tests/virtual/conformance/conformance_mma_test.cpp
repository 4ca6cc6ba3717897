// Every row of mma.sync on every level, compared with sums over matrices that are laid out by the
// PTX ISA's fragment tables. Numbers are small integers, so that sums are exact in every type,
// except integer sums that wrap or saturate. matrix_test.cpp has rounding and special values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "tests/virtual/conformance/conformance_forms.h"
#include "tests/virtual/conformance/conformance_number.h"
#include "tests/virtual/conformance/conformance_rows.h"
#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

int bits_of_type(const std::string& type) {
  if (type == "f64") return 64;
  if (type == "tf32" || type == "f32" || type == "s32") return 32;
  if (type == "s4" || type == "u4") return 4;
  if (type == "b1") return 1;
  return type == "f16" || type == "bf16" ? 16 : 8;
}
// A register that holds numbers of the type.
int register_bits(const std::string& type) { return std::max(32, bits_of_type(type)); }

// A small integer in a type, as its bits.
uint64_t code(const std::string& type, int value) {
  if (type == "u8" || type == "s8") return static_cast<uint8_t>(value);
  if (type == "u4" || type == "s4") return static_cast<uint8_t>(value) & 15;
  if (type == "b1") return static_cast<uint8_t>(value);
  if (type == "s32") return static_cast<uint32_t>(value);
  const Real x = from_integer(value);
  if (type == "f64") return encode(x, kF64, Round::kNearest);
  if (type == "f16") return encode(x, kF16, Round::kNearest);
  if (type == "bf16") return encode(x, kBf16, Round::kNearest);
  if (type == "e5m2") return encode(x, kF16, Round::kNearest) >> 8;
  if (type != "e4m3") return encode(x, kF32, Round::kNearest);
  // Three digits, encoded with 8 bits of exponent; the bias is 7 instead of 127.
  const uint64_t wide = encode(magnitude(x), {12, 3, 8}, Round::kNearest);
  return (value < 0 ? 0x80 : 0) | (value == 0 ? 0 : wide - (120 << 3));
}

struct Shape {
  int m, k;
  std::string d, a, b;
  bool saturates, exclusive;  // exclusive: b1, xor
  int blocks() const { return m / 8; }
};
Shape parse(const std::string& opcode) {
  auto words = words_of(opcode);
  const bool exclusive = opcode.find(".xor.popc") != opcode.npos;
  if (words.back() == "popc") words.resize(words.size() - 2);
  const size_t n = words.size();
  Shape s = {0,
             0,
             words[n - 4],
             words[n - 3],
             words[n - 2],
             opcode.find("satfinite") != opcode.npos,
             exclusive};
  for (const std::string& word : words) {
    const size_t k = word.find("n8k");
    if (word[0] != 'm' || k == word.npos) continue;
    s.m = std::stoi(word.substr(1));
    s.k = std::stoi(word.substr(k + 3));
  }
  return s;
}

struct Operands {
  std::vector<int> a, b;   // m x k, k x 8
  std::vector<int64_t> c;  // m x 8
};
Operands make_operands(const Shape& s) {
  std::mt19937 random(static_cast<unsigned>(s.k));
  Operands o;
  const auto draw = [&](const std::string& type) {
    const int bits = bits_of_type(type);
    const bool integer = type[0] == 'u' || type[0] == 's' || type[0] == 'b';
    const int range = integer && type != "bf16" ? 1 << bits : 9;
    const int value = static_cast<int>(random() % static_cast<unsigned>(range));
    return type[0] == 'u' || type == "b1" ? value : value - range / 2;
  };
  for (int i = 0; i < s.m * s.k; ++i) o.a.push_back(draw(s.a));
  for (int i = 0; i < s.k * 8; ++i) o.b.push_back(draw(s.b));
  for (int i = 0; i < s.m * 8; ++i) {
    const int64_t near = i % 3 == 0 ? INT32_MAX - 5000 : i % 3 == 1 ? INT32_MIN + 5000 : 0;
    o.c.push_back((s.d == "s32" ? near : 0) + i - 60);
  }
  return o;
}

// By register and lane: elements of consecutive k. A's registers alternate between rows g and g + 8
// if there are 16 rows. First for A, then for B.
using Fragments = std::vector<uint64_t>;
Fragments fragments(const Shape& s, const Operands& o) {
  const int bits = bits_of_type(s.a), each = register_bits(s.a) / bits, blocks = s.blocks();
  const int of_b = s.k / (4 * each), of_a = blocks * of_b;
  Fragments f(static_cast<size_t>((of_a + of_b) * 32));
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int e = 0; e < each; ++e) {
      for (int j = 0; j < of_a; ++j) {
        const int row = g + 8 * (j % blocks), k = j / blocks * 4 * each + t * each + e;
        f[static_cast<size_t>(j * 32 + lane)] |= code(s.a, o.a[static_cast<size_t>(row * s.k + k)])
                                                 << (bits * e);
      }
      for (int j = 0; j < of_b; ++j) {
        const int k = j * 4 * each + t * each + e;
        f[static_cast<size_t>((of_a + j) * 32 + lane)] |=
            code(s.b, o.b[static_cast<size_t>(k * 8 + g)]) << (bits * e);
      }
    }
  }
  return f;
}

// A sum's fragments: rows g and g + 8, columns 2 t and 2 t + 1.
Fragments sums(const Shape& s, const std::vector<int64_t>& c) {
  const int bits = bits_of_type(s.d), each = register_bits(s.d) / bits, count = 2 * s.blocks();
  Fragments f(static_cast<size_t>(count / each * 32));
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < count; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      const auto value = static_cast<int>(c[static_cast<size_t>(row * 8 + column)]);
      f[static_cast<size_t>(i / each * 32 + lane)] |= code(s.d, value) << (bits * (i % each));
    }
  }
  return f;
}

std::vector<int64_t> multiplied(const Shape& s, const Operands& o) {
  std::vector<int64_t> d = o.c;
  for (int row = 0; row < s.m; ++row) {
    for (int column = 0; column < 8; ++column) {
      int64_t& sum = d[static_cast<size_t>(row * 8 + column)];
      for (int k = 0; k < s.k; ++k) {
        const int a = o.a[static_cast<size_t>(row * s.k + k)];
        const int b = o.b[static_cast<size_t>(k * 8 + column)];
        sum += s.exclusive ? a ^ b : int64_t{a} * b;
      }
      if (s.saturates) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
      if (s.d == "s32") sum = static_cast<int32_t>(static_cast<uint64_t>(sum));
    }
  }
  return d;
}

std::string list(const char* name, int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}%{}{}", i == 0 ? "{" : ", ", name, first + i);
  }
  return text + "}";
}

void check(const std::string& opcode, const char* counts) {
  const Shape s = parse(opcode);
  const Operands o = make_operands(s);
  Fragments in = fragments(s, o);
  const Fragments c = sums(s, o.c), want = sums(s, multiplied(s, o));
  in.insert(in.end(), c.begin(), c.end());
  const int of_d = counts[0] - '0', of_a = counts[1] - '0', of_b = counts[2] - '0';
  const int registers = of_a + of_b + counts[3] - '0';
  ASSERT_EQ(in.size(), static_cast<size_t>(registers) * 32) << opcode;
  const char* const type = register_bits(s.d) == 64 ? "b64" : "b32";
  std::string body = fmt::format(
      ".reg .b64 %p, %q, %o; .reg .b32 %t; .reg .{0} %in<{1}>, %out<4>;\n"
      "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1]; mov.u32 %t, %tid.x;\n"
      "mul.wide.u32 %o, %t, 8; add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n",
      type, registers);
  for (int i = 0; i < registers; ++i) {
    body += fmt::format("ld.global.{} %in{}, [%p+{}];\n", type, i, i * 256);
  }
  body += fmt::format("{} {}, {}, {}, {};\n", opcode, list("out", 0, of_d), list("in", 0, of_a),
                      list("in", of_a, of_b), list("in", of_a + of_b, counts[3] - '0'));
  for (int i = 0; i < of_d; ++i) {
    body += fmt::format("st.global.{} [%q+{}], %out{};\n", type, i * 256, i);
  }
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    const Buffer<uint64_t> inputs(*device, in), out(*device, Fragments(want.size(), 0));
    const Status status = run(*device, kernel_text(".param .u64 p0, .param .u64 p1", body + "ret;"),
                              {}, {inputs.address(), out.address()});
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < want.size(); ++i) {
      // When rounded down, a sum of zero is -0.
      const bool zero = s.d == "f64" && want[i] == 0 && out[i] == uint64_t{1} << 63;
      if (zero && opcode.find(".rm.") != opcode.npos) continue;
      ASSERT_EQ(out[i], want[i]) << opcode << " on " << simd_level_name(level) << ", register "
                                 << i / 32 << ", lane " << i % 32;
    }
  }
}

class ConformanceMmaTest : public testing::TestWithParam<const char*> {};
TEST_P(ConformanceMmaTest, EqualsSumsOfProducts) {
  int rows = 0;
  for (const vdev::Row* row : table_rows(SimdLevel::kPlain)) {
    if (row->bind != vdev::Bind::kMma) continue;
    if (!std::string_view(row->opcode).ends_with(GetParam())) continue;
    for (const std::string& opcode : opcodes_of(row->opcode)) {
      ASSERT_NO_FATAL_FAILURE(check(opcode, row->operands));
      ++rows;
    }
  }
  EXPECT_GT(rows, 0);
}
INSTANTIATE_TEST_SUITE_P(
    Types, ConformanceMmaTest,
    testing::Values("f32.bf16.bf16.f32", "f32.f16.f16.f32", "f16.f16.f16.f16", "f32.tf32.tf32.f32",
                    "e4m3.e4m3.f32", "e4m3.e4m3.f16", "e5m2.e4m3.f32", "e5m2.e4m3.f16",
                    "e4m3.e5m2.f32", "e4m3.e5m2.f16", "e5m2.e5m2.f32", "e5m2.e5m2.f16", "u8.u8.s32",
                    "s8.u8.s32", "u8.s8.s32", "s8.s8.s32", "u4.u4.s32", "s4.u4.s32", "u4.s4.s32",
                    "s4.s4.s32", "b1.b1.s32.and.popc", "b1.b1.s32.xor.popc", "f64.f64.f64.f64"));

// a is 1/3, b -1/7, c 1: the sums of four products, each rounded.
TEST(DoubleMmaTest, RoundsEveryFusedStepAsTheInstructionSays) {
  const struct {
    const char* modifier;
    int mode;
  } kRoundings[] = {{"", FE_TONEAREST},
                    {".rn", FE_TONEAREST},
                    {".rz", FE_TOWARDZERO},
                    {".rm", FE_DOWNWARD},
                    {".rp", FE_UPWARD}};
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    std::vector<double> seen;
    for (const auto& [modifier, mode] : kRoundings) {
      const Buffer<double> out(*device, std::vector<double>(32));
      const std::string body = fmt::format(
          ".reg .b64 %p, %o; .reg .b32 %t; .reg .f64 %a, %b, %c<2>;\n"
          "ld.param.u64 %p, [p0]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 8; add.s64 %p, %p, %o;\n"
          "mov.f64 %a, 0d3FD5555555555555; mov.f64 %b, 0dBFC2492492492492;\n"
          "mov.f64 %c0, 0d3FF0000000000000; mov.f64 %c1, 0d3FF0000000000000;\n"
          "mma.sync.aligned.m8n8k4.row.col{}.f64.f64.f64.f64 {{%c0, %c1}}, {{%a}}, {{%b}}, {{%c0, "
          "%c1}};\nst.global.f64 [%p], %c0; ret;",
          modifier);
      const Status status = run(*device, kernel_text(".param .u64 p0", body), {}, {out.address()});
      ASSERT_TRUE(status.ok()) << status.to_string();
      volatile double a = as_double(0x3FD5555555555555), b = as_double(0xBFC2492492492492);
      volatile double sum = 1;
      std::fesetround(mode);
      for (int k = 0; k < 4; ++k) sum = std::fma(a, b, sum);
      std::fesetround(FE_TONEAREST);
      for (size_t i = 0; i < 32; ++i) ASSERT_EQ(out[i], sum) << modifier << " lane " << i;
      seen.push_back(double{sum});
    }
    EXPECT_NE(seen[3], seen[4]);
    EXPECT_EQ(seen[0], seen[1]);
  }
}

}  // namespace
}  // namespace lssar::test
