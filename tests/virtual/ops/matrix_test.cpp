// Compares mma.sync, ldmatrix, stmatrix and movmatrix with their definition. The fragment layouts
// of the PTX ISA are written out per element.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// Runs an instruction with `num_in` 32-bit inputs $1.. and `num_out` outputs. Inputs and outputs
// are [register][lane].
using Registers = std::vector<std::vector<uint32_t>>;
Registers execute(SimdLevel level, const std::string& instruction, const Registers& in, int num_out,
                  const std::string& set_up = "") {
  const auto device = open_device(level);
  std::vector<uint32_t> flat;
  for (const auto& r : in) flat.insert(flat.end(), r.begin(), r.end());
  Buffer<uint32_t> source(*device, flat);
  Buffer<uint32_t> target(*device, std::vector<uint32_t>(static_cast<size_t>(num_out) * 32));
  std::string body = fmt::format(
      ".reg .b64 %p, %q, %o; .reg .b32 %t, %a, %in<{}>, %out<{}>;\n"
      "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4;\n"
      "add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n",
      in.size() + 1, num_out + 1);
  for (size_t i = 0; i < in.size(); ++i) {
    body += fmt::format("ld.global.u32 %in{}, [%p+{}];\n", i, i * 128);
  }
  body += set_up + instruction + "\n";
  for (int i = 0; i < num_out; ++i) {
    body += fmt::format("st.global.u32 [%q+{}], %out{};\n", i * 128, i);
  }
  const Status status = run(*device,
                            kernel_text(".param .u64 p0, .param .u64 p1", body + "ret;",
                                        ".shared .align 16 .b8 tile[1024];\n"),
                            {}, {source.address(), target.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  Registers out(static_cast<size_t>(num_out));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].assign(target.values().begin() + static_cast<ptrdiff_t>(32 * i),
                  target.values().begin() + static_cast<ptrdiff_t>(32 * i + 32));
  }
  return out;
}

using Matrix = std::vector<std::vector<double>>;
Matrix random_matrix(int rows, int columns, unsigned seed) {
  std::mt19937 random(seed);
  Matrix m(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(columns)));
  for (auto& row : m) {
    // Few bits: products and sums are exact in float, so the order of summation does not matter.
    for (double& x : row) x = (static_cast<int>(random() % 65) - 32) / 8.0;
  }
  return m;
}

struct ElementFormat {
  uint16_t (*bits)(long double);
};

// Fragments of a (16 x k), b (k x 8) and c (16 x 8), lane = 4 g + t.
Registers a_fragments(const Matrix& a, int k, const ElementFormat& f) {
  Registers r(static_cast<size_t>(k / 4), std::vector<uint32_t>(32));
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < k / 4; ++i) {
      const int row = g + 8 * (i % 2), column = 2 * t + 8 * (i / 2);
      r[i][lane] = f.bits(a[row][column]) | static_cast<uint32_t>(f.bits(a[row][column + 1])) << 16;
    }
  }
  return r;
}
Registers b_fragments(const Matrix& b, int k, const ElementFormat& f) {
  Registers r(static_cast<size_t>(k / 8), std::vector<uint32_t>(32));
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < k / 8; ++i) {
      const int row = 2 * t + 8 * i;
      r[i][lane] = f.bits(b[row][g]) | static_cast<uint32_t>(f.bits(b[row + 1][g])) << 16;
    }
  }
  return r;
}
Registers c_fragments(const Matrix& c) {
  Registers r(4, std::vector<uint32_t>(32));
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      r[i][lane] =
          static_cast<uint32_t>(bits_of(static_cast<float>(c[g + 8 * (i / 2)][2 * t + i % 2])));
    }
  }
  return r;
}
Matrix product(const Matrix& a, const Matrix& b, Matrix c) {
  for (size_t i = 0; i < c.size(); ++i) {
    for (size_t j = 0; j < c[i].size(); ++j) {
      for (size_t k = 0; k < b.size(); ++k) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}
std::string list(const char* name, int first, int count) {
  std::string s = "{";
  for (int i = 0; i < count; ++i) s += fmt::format("{}%{}{}", i ? ", " : "", name, first + i);
  return s + "}";
}
void append(Registers& to, const Registers& from) { to.insert(to.end(), from.begin(), from.end()); }

void check_mma(const std::string& shape, int k, const std::string& type, const ElementFormat& f) {
  const Matrix a = random_matrix(16, k, 1), b = random_matrix(k, 8, 2), c = random_matrix(16, 8, 3);
  Registers in = a_fragments(a, k, f);
  append(in, b_fragments(b, k, f));
  append(in, c_fragments(c));
  const std::string instruction =
      fmt::format("mma.sync.aligned.{}.row.col.f32.{}.{}.f32 {}, {}, {}, {};", shape, type, type,
                  list("out", 0, 4), list("in", 0, k / 4), list("in", k / 4, k / 8),
                  list("in", k / 4 + k / 8, 4));
  const Registers want = c_fragments(product(a, b, c));
  for (const SimdLevel level : levels()) {
    EXPECT_EQ(execute(level, instruction, in, 4), want) << shape << type << simd_level_name(level);
  }
}

TEST(MmaTest, ProductsOfBothHalfFormatsAndShapes) {
  check_mma("m16n8k16", 16, "bf16", {bfloat_bits});
  check_mma("m16n8k16", 16, "f16", {half_bits});
  check_mma("m16n8k8", 8, "bf16", {bfloat_bits});
  check_mma("m16n8k8", 8, "f16", {half_bits});
}

TEST(MmaTest, AccumulatesInPlace) {
  const Matrix a = random_matrix(16, 16, 4), b = random_matrix(16, 8, 5),
               c = random_matrix(16, 8, 6);
  const ElementFormat f = {bfloat_bits};
  Registers in = a_fragments(a, 16, f);
  append(in, b_fragments(b, 16, f));
  append(in, c_fragments(c));
  std::string instruction;
  for (int i = 0; i < 4; ++i) instruction += fmt::format("mov.b32 %out{}, %in{};\n", i, 6 + i);
  for (int i = 0; i < 2; ++i) {
    instruction +=
        fmt::format("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {0}, {1}, {2}, {0};\n",
                    list("out", 0, 4), list("in", 0, 4), list("in", 4, 2));
  }
  const Registers want = c_fragments(product(a, b, product(a, b, c)));
  for (const SimdLevel level : levels()) EXPECT_EQ(execute(level, instruction, in, 4), want);
}

TEST(MmaTest, AllLevelsGiveTheSameBitsOnFullPrecisionInputs) {
  std::mt19937 random(7);
  Registers in(10, std::vector<uint32_t>(32));
  for (auto& r : in) {
    for (uint32_t& x : r) {
      x = (random() & 0xbfffbfffu) | 0x30003000u;  // no infinity, no NaN
    }
  }
  for (const char* type : {"bf16", "f16"}) {
    const std::string instruction =
        fmt::format("mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32 {1}, {2}, {3}, {4};", type,
                    list("out", 0, 4), list("in", 0, 4), list("in", 4, 2), list("in", 6, 4));
    const Registers plain = execute(SimdLevel::kPlain, instruction, in, 4);
    for (const SimdLevel level : levels()) EXPECT_EQ(execute(level, instruction, in, 4), plain);
  }
}

TEST(MmaTest, InfinityAndNanGoThrough) {
  for (const SimdLevel level : levels()) {
    for (const bool bf16 : {true, false}) {
      const ElementFormat f = {bf16 ? bfloat_bits : half_bits};
      Matrix a(16, std::vector<double>(16, 1.0)), b(16, std::vector<double>(8, 1.0));
      const Matrix c(16, std::vector<double>(8, 0.0));
      a[3][5] = INFINITY;
      a[9][14] = NAN;
      Registers in = a_fragments(a, 16, f);
      append(in, b_fragments(b, 16, f));
      append(in, c_fragments(c));
      const Registers out = execute(
          level,
          fmt::format("mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32 {1}, {2}, {3}, {4};",
                      bf16 ? "bf16" : "f16", list("out", 0, 4), list("in", 0, 4), list("in", 4, 2),
                      list("in", 6, 4)),
          in, 4);
      EXPECT_EQ(as_float(out[0][3 * 4]), INFINITY);
      EXPECT_TRUE(std::isnan(as_float(out[2][1 * 4 + 2])));
      EXPECT_EQ(as_float(out[0][0]), 16.0f);
    }
  }
}

TEST(MmaTest, HalfAccumulators) {
  const Matrix a = random_matrix(16, 16, 1), b = random_matrix(16, 8, 2),
               c = random_matrix(16, 8, 3);
  const ElementFormat f = {half_bits};
  Registers in = a_fragments(a, 16, f);
  append(in, b_fragments(b, 16, f));
  const auto pack = [&](const Matrix& m) {
    Registers r(2, std::vector<uint32_t>(32));
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 2; ++i) {
        const auto& row = m[static_cast<size_t>(lane / 4 + 8 * i)];
        const auto column = static_cast<size_t>(2 * (lane % 4));
        r[i][lane] = half_bits(row[column]) | static_cast<uint32_t>(half_bits(row[column + 1]))
                                                  << 16;
      }
    }
    return r;
  };
  append(in, pack(c));
  const std::string instruction =
      fmt::format("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {}, {}, {}, {};",
                  list("out", 0, 2), list("in", 0, 4), list("in", 4, 2), list("in", 6, 2));
  for (const SimdLevel level : levels()) {
    EXPECT_EQ(execute(level, instruction, in, 2), pack(product(a, b, c)));
  }
}

TEST(MmaTest, Tf32IgnoresTheLowBits) {
  const Matrix a = random_matrix(16, 8, 1), b = random_matrix(8, 8, 2), c = random_matrix(16, 8, 3);
  Registers in(6, std::vector<uint32_t>(32));
  const auto bits = [](double x) {
    return static_cast<uint32_t>(bits_of(static_cast<float>(x))) | 0xfff;
  };
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) in[i][lane] = bits(a[g + 8 * (i % 2)][t + 4 * (i / 2)]);
    for (int i = 0; i < 2; ++i) in[4 + i][lane] = bits(b[t + 4 * i][g]);
  }
  append(in, c_fragments(c));
  const std::string instruction =
      fmt::format("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {}, {}, {}, {};",
                  list("out", 0, 4), list("in", 0, 4), list("in", 4, 2), list("in", 6, 4));
  for (const SimdLevel level : levels()) {
    EXPECT_EQ(execute(level, instruction, in, 4), c_fragments(product(a, b, c)));
  }
}

// 8-bit elements, lane = 4 g + t: four consecutive k per register.
struct ByteType {
  const char* name;
  double (*value)(uint8_t);
};
double e4m3_value(uint8_t code) {
  const int exponent = (code >> 3) & 15, fraction = code & 7;
  const double magnitude =
      std::ldexp(exponent ? fraction + 8 : fraction, (exponent ? exponent : 1) - 10);
  return (code & 0x7f) == 0x7f ? NAN : code & 0x80 ? -magnitude : magnitude;
}
double e5m2_value(uint8_t code) { return half_value(static_cast<uint16_t>(code << 8)); }
double u8_value(uint8_t code) { return code; }
double s8_value(uint8_t code) { return static_cast<int8_t>(code); }
const ByteType kE4m3 = {"e4m3", e4m3_value}, kE5m2 = {"e5m2", e5m2_value};
const ByteType kU8 = {"u8", u8_value}, kS8 = {"s8", s8_value};

// Codes of a (16 x k) and b (k x 8), as fragments and as numbers.
using Codes = std::vector<std::vector<uint8_t>>;
Codes random_codes(int rows, int columns, unsigned seed, uint32_t mask) {
  std::mt19937 random(seed);
  Codes m(static_cast<size_t>(rows), std::vector<uint8_t>(static_cast<size_t>(columns)));
  for (auto& row : m) {
    for (uint8_t& x : row) x = static_cast<uint8_t>(random() & mask);
  }
  return m;
}
Matrix values_of(const Codes& m, const ByteType& type) {
  Matrix v(m.size(), std::vector<double>(m[0].size()));
  for (size_t i = 0; i < m.size(); ++i) {
    for (size_t j = 0; j < m[i].size(); ++j) v[i][j] = type.value(m[i][j]);
  }
  return v;
}
Registers byte_fragments(const Codes& a, const Codes& b, int k) {
  Registers r(static_cast<size_t>(k / 8 + k / 16), std::vector<uint32_t>(32));
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int e = 0; e < 4; ++e) {
      for (int i = 0; i < k / 8; ++i) {
        const uint32_t x = a[g + 8 * (i % 2)][4 * t + e + 16 * (i / 2)];
        r[i][lane] |= x << (8 * e);
      }
      for (int i = 0; i < k / 16; ++i) {
        r[k / 8 + i][lane] |= static_cast<uint32_t>(b[4 * t + e + 16 * i][g]) << (8 * e);
      }
    }
  }
  return r;
}
Registers half_fragments(const Matrix& m) {
  Registers r(2, std::vector<uint32_t>(32));
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 2; ++i) {
      const auto& row = m[static_cast<size_t>(lane / 4 + 8 * i)];
      const auto column = static_cast<size_t>(2 * (lane % 4));
      r[i][lane] = half_bits(row[column]) | static_cast<uint32_t>(half_bits(row[column + 1])) << 16;
    }
  }
  return r;
}
Registers integer_fragments(const Matrix& m) {
  Registers r(4, std::vector<uint32_t>(32));
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const double x = m[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
      r[i][lane] = static_cast<uint32_t>(static_cast<int64_t>(x));
    }
  }
  return r;
}

// `mask` keeps products and sums exact.
void check_byte_mma(int k, const ByteType& a_type, const ByteType& b_type, const char* sum,
                    uint32_t mask, Registers (*fragments)(const Matrix&), double c_scale) {
  const Codes a = random_codes(16, k, 1, mask), b = random_codes(k, 8, 2, mask);
  Matrix c = random_matrix(16, 8, 3);
  for (auto& row : c) {
    for (double& x : row) x *= c_scale;
  }
  const Registers sums = fragments(c);
  const int count = static_cast<int>(sums.size());
  Registers in = byte_fragments(a, b, k);
  append(in, sums);
  const std::string instruction =
      fmt::format("mma.sync.aligned.m16n8k{0}.row.col.{1}.{2}.{3}.{1} {4}, {5}, {6}, {7};", k, sum,
                  a_type.name, b_type.name, list("out", 0, count), list("in", 0, k / 8),
                  list("in", k / 8, k / 16), list("in", k / 8 + k / 16, count));
  const Registers want = fragments(product(values_of(a, a_type), values_of(b, b_type), c));
  for (const SimdLevel level : levels()) {
    EXPECT_EQ(execute(level, instruction, in, count), want)
        << instruction << simd_level_name(level);
  }
}

TEST(ByteMmaTest, FloatsOfAllTypesInBothShapes) {
  for (const int k : {16, 32}) {
    for (const ByteType* a : {&kE4m3, &kE5m2}) {
      for (const ByteType* b : {&kE4m3, &kE5m2}) {
        // Exponents of up to 7 above the least: sums of products fit float's 24 bits.
        check_byte_mma(k, *a, *b, "f32", 0x9f, c_fragments, 0x1p-16);
        check_byte_mma(k, *a, *b, "f16", 0x87, half_fragments, 0);
      }
    }
  }
}

TEST(ByteMmaTest, LargeAndSpecialValues) {
  Codes a(16, std::vector<uint8_t>(32, 0)), b(32, std::vector<uint8_t>(8, 0x38));  // 1
  a[2][5] = 0x7e;                                                                  // 448
  a[3][6] = 0x7f;                                                                  // NaN
  a[4][31] = 0xfe;                                                                 // -448
  Registers in = byte_fragments(a, b, 32);
  append(in, c_fragments(Matrix(16, std::vector<double>(8, 1))));
  const std::string operands = fmt::format("{}, {}, {}, {};", list("out", 0, 4), list("in", 0, 4),
                                           list("in", 4, 2), list("in", 6, 4));
  for (const SimdLevel level : levels()) {
    const Registers out =
        execute(level, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 " + operands, in, 4);
    EXPECT_EQ(as_float(out[0][2 * 4]), 449.0f);
    EXPECT_TRUE(std::isnan(as_float(out[0][3 * 4])));
    EXPECT_EQ(as_float(out[1][4 * 4 + 3]), -447.0f);
    EXPECT_EQ(as_float(out[2][0]), 1.0f);
    // The same bits as e5m2: 0x7e and 0x7f are NaN, 0x38 is 0.5.
    const Registers other =
        execute(level, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 " + operands, in, 4);
    EXPECT_TRUE(std::isnan(as_float(other[0][2 * 4])));
    EXPECT_EQ(as_float(other[0][0]), 1.0f);
  }
}

TEST(ByteMmaTest, IntegersOfAllTypesInBothShapes) {
  for (const int k : {16, 32}) {
    for (const ByteType* a : {&kU8, &kS8}) {
      for (const ByteType* b : {&kU8, &kS8}) {
        check_byte_mma(k, *a, *b, "s32", 0xff, integer_fragments, 8 * 1000);
      }
    }
  }
}

TEST(ByteMmaTest, IntegerSumsWrapOrSaturate) {
  const Codes a(16, std::vector<uint8_t>(32, 2)), b(32, std::vector<uint8_t>(8, 3));
  Registers in = byte_fragments(a, b, 32);
  append(in, Registers(4, std::vector<uint32_t>(32, 0x7fffffffu)));
  const std::string operands = fmt::format("{}, {}, {}, {};", list("out", 0, 4), list("in", 0, 4),
                                           list("in", 4, 2), list("in", 6, 4));
  for (const SimdLevel level : levels()) {
    EXPECT_EQ(execute(level, "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 " + operands, in, 4),
              Registers(4, std::vector<uint32_t>(32, 0x7fffffffu + 32 * 6)));
    EXPECT_EQ(
        execute(level, "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 " + operands, in,
                4),
        Registers(4, std::vector<uint32_t>(32, 0x7fffffffu)));
  }
}

// 512 bytes at `tile`: 16-bit element e has the value e. Row r of matrix k begins at 128 k + 16 r.
const char* const kFillTile =
    "mul.lo.u32 %a, %t, 16; mov.u32 %in0, tile; add.u32 %a, %a, %in0;\n"
    "{ .reg .b32 %x<5>; mul.lo.u32 %x0, %t, 8; shl.b32 %x1, %x0, 16; or.b32 %x0, %x0, %x1;\n"
    "add.u32 %x0, %x0, 0x00010000; add.u32 %x1, %x0, 0x00020002; add.u32 %x2, %x0, 0x00040004;\n"
    "add.u32 %x3, %x0, 0x00060006; st.shared.v4.b32 [%a], {%x0, %x1, %x2, %x3}; }\n"
    "bar.sync 0;\n";

// Element (row, column) of matrix k, or of its transpose, as a lane's register holds it.
uint32_t tile_pair(int matrix, int lane, bool transposed) {
  const int g = lane / 4, t = lane % 4;
  const auto element = [&](int row, int column) {
    return static_cast<uint32_t>(64 * matrix + (transposed ? 8 * column + row : 8 * row + column));
  };
  return element(g, 2 * t) | element(g, 2 * t + 1) << 16;
}

class LdmatrixTest : public testing::TestWithParam<std::tuple<int, bool>> {};
TEST_P(LdmatrixTest, GivesLaneLTheElementsOfItsRow) {
  const auto [count, transposed] = GetParam();
  Registers want(static_cast<size_t>(count), std::vector<uint32_t>(32));
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < 32; ++lane) want[i][lane] = tile_pair(i, lane, transposed);
  }
  // Lanes whose address is not used get one that would fault.
  const std::string spoil = fmt::format(
      "{{ .reg .pred %u; setp.ge.u32 %u, %t, {}; @%u mov.u32 %a, 0xffffff01; }}\n", 8 * count);
  const std::string instruction =
      fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {}, [%a];", count,
                  transposed ? ".trans" : "", list("out", 0, count));
  for (const SimdLevel level : levels()) {
    EXPECT_EQ(execute(level, instruction, {std::vector<uint32_t>(32)}, count, kFillTile + spoil),
              want);
  }
}
INSTANTIATE_TEST_SUITE_P(Counts, LdmatrixTest,
                         testing::Combine(testing::Values(1, 2, 4), testing::Bool()));

class StmatrixTest : public testing::TestWithParam<bool> {};
TEST_P(StmatrixTest, IsTheInverseOfLdmatrix) {
  const bool transposed = GetParam();
  const std::string trans = transposed ? ".trans" : "";
  // Load all, poison the tile, store, load untransposed.
  const std::string instruction =
      "ldmatrix.sync.aligned.m8n8.x4" + trans +
      ".shared.b16 {%out0, %out1, %out2, %out3}, [%a];\n"
      "bar.sync 0; st.shared.v4.b32 [%a], {-1, -1, -1, -1}; bar.sync 0;\n"
      "stmatrix.sync.aligned.m8n8.x4" +
      trans +
      ".shared.b16 [%a], {%out0, %out1, %out2, %out3};\n"
      "bar.sync 0;\n"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%out0, %out1, %out2, %out3}, [%a];\n";
  Registers want(4, std::vector<uint32_t>(32));
  for (int i = 0; i < 4; ++i) {
    for (int lane = 0; lane < 32; ++lane) want[i][lane] = tile_pair(i, lane, false);
  }
  for (const SimdLevel level : levels()) {
    EXPECT_EQ(execute(level, instruction, {std::vector<uint32_t>(32)}, 4, kFillTile), want);
  }
}
INSTANTIATE_TEST_SUITE_P(Transposed, StmatrixTest, testing::Bool());

TEST(MovmatrixTest, Transposes) {
  Registers in(1, std::vector<uint32_t>(32)), want = in;
  for (int lane = 0; lane < 32; ++lane) {
    in[0][lane] = tile_pair(0, lane, false);
    want[0][lane] = tile_pair(0, lane, true);
  }
  for (const SimdLevel level : levels()) {
    EXPECT_EQ(execute(level, "movmatrix.sync.aligned.m8n8.trans.b16 %out0, %in0;", in, 1), want);
  }
}

}  // namespace
}  // namespace lssar::test
