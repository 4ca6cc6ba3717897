// Every row of mma.sync on every level, against sums over matrices that are laid out by the PTX
// ISA's fragment tables. Numbers are small integers, so that sums are exact in every type, but for
// integer sums that wrap or saturate. matrix_test.cpp has rounding and special values.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "tests/virtual/conformance/conformance_forms.h"
#include "tests/virtual/conformance/conformance_number.h"
#include "tests/virtual/conformance/conformance_rows.h"
#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

constexpr int kRegisters = 10;  // 4 of A, 2 of B, 4 of C

int bits_of_type(const std::string& type) {
  if (type == "tf32" || type == "f32" || type == "s32") return 32;
  return type == "f16" || type == "bf16" ? 16 : 8;
}

// A small integer in a type, as its bits.
uint64_t code(const std::string& type, int value) {
  if (type == "u8" || type == "s8") return static_cast<uint8_t>(value);
  if (type == "s32") return static_cast<uint32_t>(value);
  const Real x = from_integer(value);
  if (type == "f16") return encode(x, kF16, Round::kNearest);
  if (type == "bf16") return encode(x, kBf16, Round::kNearest);
  if (type == "e5m2") return encode(x, kF16, Round::kNearest) >> 8;
  if (type != "e4m3") return encode(x, kF32, Round::kNearest);
  // Three digits as a number with 8 bits of exponent has them; the bias is 7 instead of 127.
  const uint64_t wide = encode(magnitude(x), {12, 3, 8}, Round::kNearest);
  return (value < 0 ? 0x80 : 0) | (value == 0 ? 0 : wide - (120 << 3));
}

struct Shape {
  int k;
  std::string d, a, b;
  bool saturates;
};
Shape parse(const std::string& opcode) {
  const auto words = words_of(opcode);
  const size_t n = words.size();
  Shape s = {0, words[n - 4], words[n - 3], words[n - 2], opcode.find("satfinite") != opcode.npos};
  for (const std::string& word : words) {
    if (word.starts_with("m16n8k")) s.k = std::stoi(word.substr(6));
  }
  return s;
}

struct Operands {
  std::vector<int> a, b;   // 16 x k, k x 8
  std::vector<int64_t> c;  // 16 x 8
};
Operands make_operands(const Shape& s) {
  std::mt19937 random(static_cast<unsigned>(s.k));
  Operands o;
  const auto draw = [&](const std::string& type) {
    const int range = type == "u8" || type == "s8" ? 256 : 9;
    const int value = static_cast<int>(random() % static_cast<unsigned>(range));
    return type == "u8" ? value : value - range / 2;
  };
  for (int i = 0; i < 16 * s.k; ++i) o.a.push_back(draw(s.a));
  for (int i = 0; i < s.k * 8; ++i) o.b.push_back(draw(s.b));
  for (int i = 0; i < 16 * 8; ++i) {
    const int64_t near = i % 3 == 0 ? INT32_MAX - 5000 : i % 3 == 1 ? INT32_MIN + 5000 : 0;
    o.c.push_back((s.d == "s32" ? near : 0) + i - 60);
  }
  return o;
}

// By register and lane: 4 bytes of consecutive k; A's registers alternate between rows g and g + 8.
using Fragments = std::vector<uint32_t>;
Fragments fragments(const Shape& s, const Operands& o) {
  Fragments f(kRegisters * 32);
  const int bits = bits_of_type(s.a), each = 32 / bits;
  const int of_b = s.k / (4 * each), of_a = 2 * of_b;
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int e = 0; e < each; ++e) {
      for (int j = 0; j < of_a; ++j) {
        const int row = g + 8 * (j % 2), k = j / 2 * 4 * each + t * each + e;
        f[static_cast<size_t>(j * 32 + lane)] |=
            static_cast<uint32_t>(code(s.a, o.a[static_cast<size_t>(row * s.k + k)]) << (bits * e));
      }
      for (int j = 0; j < of_b; ++j) {
        const int k = j * 4 * each + t * each + e;
        f[static_cast<size_t>((4 + j) * 32 + lane)] |=
            static_cast<uint32_t>(code(s.b, o.b[static_cast<size_t>(k * 8 + g)]) << (bits * e));
      }
    }
  }
  return f;
}

// A sum's fragments: rows g and g + 8, columns 2 t and 2 t + 1.
Fragments sums(const Shape& s, const std::vector<int64_t>& c) {
  const int bits = bits_of_type(s.d), each = 32 / bits;
  Fragments f(static_cast<size_t>(4 / each * 32));
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      const auto value = static_cast<int>(c[static_cast<size_t>(row * 8 + column)]);
      f[static_cast<size_t>(i / each * 32 + lane)] |=
          static_cast<uint32_t>(code(s.d, value) << (bits * (i % each)));
    }
  }
  return f;
}

std::vector<int64_t> multiplied(const Shape& s, const Operands& o) {
  std::vector<int64_t> d = o.c;
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      int64_t& sum = d[static_cast<size_t>(row * 8 + column)];
      for (int k = 0; k < s.k; ++k) {
        sum += int64_t{o.a[static_cast<size_t>(row * s.k + k)]} *
               o.b[static_cast<size_t>(k * 8 + column)];
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
  std::copy(c.begin(), c.end(), in.begin() + 6 * 32);
  const int d_count = counts[0] - '0';
  std::string body =
      ".reg .b64 %p, %q, %o; .reg .b32 %t, %in<10>, %out<4>;\n"
      "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1]; mov.u32 %t, %tid.x;\n"
      "mul.wide.u32 %o, %t, 4; add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n";
  for (int i = 0; i < kRegisters; ++i) {
    body += fmt::format("ld.global.u32 %in{}, [%p+{}];\n", i, i * 128);
  }
  body += fmt::format("{} {}, {}, {}, {};\n", opcode, list("out", 0, d_count),
                      list("in", 0, counts[1] - '0'), list("in", 4, counts[2] - '0'),
                      list("in", 6, counts[3] - '0'));
  for (int i = 0; i < d_count; ++i) {
    body += fmt::format("st.global.u32 [%q+{}], %out{};\n", i * 128, i);
  }
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    const Buffer<uint32_t> inputs(*device, in), out(*device, Fragments(want.size(), 77));
    const Status status = run(*device, kernel_text(".param .u64 p0, .param .u64 p1", body + "ret;"),
                              {}, {inputs.address(), out.address()});
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < want.size(); ++i) {
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
INSTANTIATE_TEST_SUITE_P(Types, ConformanceMmaTest,
                         testing::Values("f32.bf16.bf16.f32", "f32.f16.f16.f32", "f16.f16.f16.f16",
                                         "f32.tf32.tf32.f32", "e4m3.e4m3.f32", "e4m3.e4m3.f16",
                                         "e5m2.e4m3.f32", "e5m2.e4m3.f16", "e4m3.e5m2.f32",
                                         "e4m3.e5m2.f16", "e5m2.e5m2.f32", "e5m2.e5m2.f16",
                                         "u8.u8.s32", "s8.u8.s32", "u8.s8.s32", "s8.s8.s32"));

}  // namespace
}  // namespace lssar::test
