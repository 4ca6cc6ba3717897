// cvt against exact arithmetic: integers in 128 bits, floats in double with the machine's rounding.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>

#include <fmt/format.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

class ConvertTest : public testing::TestWithParam<LaneCase> {};
TEST_P(ConvertTest, EqualsExact) { check_lanes(GetParam()); }

struct WithRounding {
  explicit WithRounding(int mode) : saved(std::fegetround()) { std::fesetround(mode); }
  ~WithRounding() { std::fesetround(saved); }
  int saved;
};

// In one direction of rounding, at run time: volatile keeps the compiler from folding.
float double_to_float(double value, int mode) {
  const WithRounding rounding(mode);
  volatile double v = value;
  volatile float f = static_cast<float>(v);
  return f;
}
float integer_to_float(long double value, int mode) {  // exact in 64 bits of mantissa
  const WithRounding rounding(mode);
  volatile long double v = value;
  volatile float f = static_cast<float>(v);
  return f;
}
double to_integral(double value, int mode) {
  const WithRounding rounding(mode);
  volatile double v = value;
  return std::nearbyint(v);
}
__int128 clamp(double value, __int128 low, __int128 high) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(low)) return low;
  if (value >= static_cast<double>(high)) return high;
  return static_cast<__int128>(value);
}

#define CASE(text, letters, in, out, expression)                \
  LaneCase {                                                    \
    text, letters, in, out, [](const uint64_t* v) -> uint64_t { \
      [[maybe_unused]] const uint64_t a = v[0], b = v[1];       \
      return static_cast<uint64_t>(expression);                 \
    }                                                           \
  }
constexpr Kind kI = Kind::kInteger, kF = Kind::kFloat, kD = Kind::kDouble, kH = Kind::kHalf,
               kB = Kind::kBfloat;
uint16_t half(uint64_t a) { return static_cast<uint16_t>(a); }
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// The 16-bit formats towards zero: the nearest below in magnitude.
uint16_t toward_zero(uint16_t (*nearest)(long double), double (*value)(uint16_t), float x) {
  uint16_t bits = nearest(x);
  if (!std::isnan(x) && std::fabs(value(bits)) > std::fabs(x)) --bits;
  return bits;
}
uint16_t half_rz(float x) { return toward_zero(half_bits, half_value, x); }
uint16_t bfloat_rz(float x) { return toward_zero(bfloat_bits, bfloat_value, x); }
uint16_t finite_half(uint16_t bits) {
  return (bits & 0x7fff) == 0x7c00 ? (bits & 0x8000) | 0x7bff : bits;
}
uint16_t finite_bfloat(uint16_t bits) {
  return (bits & 0x7fff) == 0x7f80 ? (bits & 0x8000) | 0x7f7f : bits;
}
uint16_t rectified(uint16_t bits) { return bits != 0x7fff && bits & 0x8000 ? 0 : bits; }

// An 8-bit format: every value is listed, the nearest taken, ties to the even code.
struct ByteFormat {
  int fraction;
  int bias;
  int largest;  // code
};
const ByteFormat kE4m3 = {3, 7, 0x7e};
const ByteFormat kE5m2 = {2, 15, 0x7b};
double byte_value(const ByteFormat& f, int code) {
  const int exponent = (code & 0x7f) >> f.fraction;
  const int fraction = code & ((1 << f.fraction) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  if ((code & 0x7f) > f.largest) return f.fraction == 2 && fraction == 0 ? sign * INFINITY : NAN;
  const int scale = 1 - f.bias - f.fraction;
  if (exponent == 0) return sign * std::ldexp(fraction, scale);
  return sign * std::ldexp(fraction + (1 << f.fraction), exponent - 1 + scale);
}
int byte_code(const ByteFormat& f, float x) {
  if (std::isnan(x)) return 0x7f;
  const double magnitude = std::fabs(x);
  int best = 0;
  for (int code = 1; code <= f.largest; ++code) {
    const double below = byte_value(f, best), here = byte_value(f, code);
    const double middle = (below + here) / 2;
    if (magnitude > middle || (magnitude == middle && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(x) ? 0x80 : 0);
}
int rectified_byte(int code) { return code != 0x7f && code & 0x80 ? 0 : code; }
uint64_t two_bytes(int high, int low) { return static_cast<uint64_t>(high << 8 | low); }
uint16_t half_of_byte(const ByteFormat& f, uint64_t code) {
  return half_bits(byte_value(f, static_cast<int>(code & 0xff)));
}
uint64_t two(uint16_t high, uint16_t low) { return uint64_t{high} << 16 | low; }
float low_half(uint64_t v) { return static_cast<float>(half_value(half(v))); }
float high_half(uint64_t v) { return static_cast<float>(half_value(half(v >> 16))); }

// 10 bits of fraction: candidates on both sides in double, exact.
uint32_t tf32_bits(float x, bool away, bool zero) {
  if (std::isnan(x)) return 0x7fffffff;
  const auto bits = static_cast<uint32_t>(bits_of(x));
  if (std::isinf(x)) return bits;
  const uint32_t below = bits & ~0x1fffu, above = below + 0x2000;
  const double low = std::fabs(as_float(below));
  const double high =
      low + std::ldexp(1.0, std::max(1, static_cast<int>((bits >> 23) & 255)) - 137);
  const double middle = (low + high) / 2, magnitude = std::fabs(static_cast<double>(x));
  if (zero || magnitude < middle) return below;
  if (magnitude > middle || away) return above;
  return below & 0x2000 ? above : below;
}
uint32_t finite_tf32(uint32_t bits) {
  return (bits & 0x7fffffff) == 0x7f800000u ? (bits & 0x80000000u) | 0x7f7fe000u : bits;
}
uint32_t rectified_tf32(uint32_t bits) { return bits & 0x80000000u ? 0 : bits; }

const LaneCase kCases[] = {
    CASE("cvt.u64.u32 $0, $1;", "lw", kI, kI, a),
    CASE("cvt.s64.s32 $0, $1;", "lw", kI, kI, static_cast<int32_t>(a)),
    CASE("cvt.u32.u64 $0, $1;", "wl", kI, kI, a),
    CASE("cvt.s32.s64 $0, $1;", "wl", kI, kI, a),
    CASE("cvt.u32.u16 $0, $1;", "wh", kI, kI, a),
    CASE("cvt.s32.s16 $0, $1;", "wh", kI, kI, static_cast<int16_t>(a)),
    CASE("cvt.u16.u32 $0, $1;", "hw", kI, kI, a),
    CASE("cvt.u32.u8 $0, $1;", "wh", kI, kI, a & 0xff),
    CASE("cvt.s32.s8 $0, $1;", "ww", kI, kI, static_cast<int8_t>(a)),
    CASE("cvt.u16.u8 $0, $1;", "hh", kI, kI, a & 0xff),
    CASE("cvt.s16.s8 $0, $1;", "hh", kI, kI, static_cast<int8_t>(a)),
    CASE("cvt.u8.u32 $0, $1;", "hw", kI, kI, a & 0xff),
    CASE("cvt.s64.s8 $0, $1;", "lh", kI, kI, static_cast<int8_t>(a)),
    CASE("cvt.sat.u8.s32 $0, $1;", "ww", kI, kI,
         std::clamp<int64_t>(static_cast<int32_t>(a), 0, 255)),
    CASE("cvt.sat.s16.s32 $0, $1;", "hw", kI, kI,
         std::clamp<int64_t>(static_cast<int32_t>(a), -32768, 32767)),
    CASE("cvt.sat.s32.u64 $0, $1;", "wl", kI, kI, std::min<uint64_t>(a, 0x7fffffff)),
    CASE("cvt.rn.f32.s32 $0, $1;", "ww", kI, kF,
         bits_of(integer_to_float(static_cast<int32_t>(a), FE_TONEAREST))),
    CASE("cvt.rn.f32.u32 $0, $1;", "ww", kI, kF, bits_of(integer_to_float(a, FE_TONEAREST))),
    CASE("cvt.rz.f32.u32 $0, $1;", "ww", kI, kF, bits_of(integer_to_float(a, FE_TOWARDZERO))),
    CASE("cvt.rp.f32.u64 $0, $1;", "wl", kI, kF, bits_of(integer_to_float(a, FE_UPWARD))),
    CASE("cvt.rm.f32.s64 $0, $1;", "wl", kI, kF,
         bits_of(integer_to_float(static_cast<int64_t>(a), FE_DOWNWARD))),
    CASE("cvt.rn.f32.s64 $0, $1;", "wl", kI, kF,
         bits_of(integer_to_float(static_cast<int64_t>(a), FE_TONEAREST))),
    CASE("cvt.rn.f64.s32 $0, $1;", "lw", kI, kD, bits_of(double(static_cast<int32_t>(a)))),
    CASE("cvt.rn.f64.u64 $0, $1;", "ll", kI, kD, bits_of(double(a))),
    CASE("cvt.rzi.s32.f32 $0, $1;", "ww", kF, kI,
         clamp(to_integral(as_float(a), FE_TOWARDZERO), INT32_MIN, INT32_MAX)),
    CASE("cvt.rni.s32.f32 $0, $1;", "ww", kF, kI,
         clamp(to_integral(as_float(a), FE_TONEAREST), INT32_MIN, INT32_MAX)),
    CASE("cvt.rmi.s32.f32 $0, $1;", "ww", kF, kI,
         clamp(to_integral(as_float(a), FE_DOWNWARD), INT32_MIN, INT32_MAX)),
    CASE("cvt.rpi.s32.f32 $0, $1;", "ww", kF, kI,
         clamp(to_integral(as_float(a), FE_UPWARD), INT32_MIN, INT32_MAX)),
    CASE("cvt.rzi.u32.f32 $0, $1;", "ww", kF, kI,
         clamp(to_integral(as_float(a), FE_TOWARDZERO), 0, UINT32_MAX)),
    CASE("cvt.rzi.s64.f32 $0, $1;", "lw", kF, kI,
         std::isnan(as_float(a))
             ? __int128{1} << 63
             : clamp(to_integral(as_float(a), FE_TOWARDZERO), INT64_MIN, INT64_MAX)),
    CASE("cvt.rni.f32.f32 $0, $1;", "ww", kF, kF,
         bits_of(float(to_integral(as_float(a), FE_TONEAREST)))),
    CASE("cvt.rmi.f32.f32 $0, $1;", "ww", kF, kF,
         bits_of(float(to_integral(as_float(a), FE_DOWNWARD)))),
    CASE("cvt.rpi.ftz.f32.f32 $0, $1;", "ww", kF, kF,
         bits_of(float(to_integral(flushed(as_float(a)), FE_UPWARD)))),
    CASE("cvt.sat.f32.f32 $0, $1;", "ww", kF, kF,
         bits_of(!(as_float(a) > 0) ? 0.0f : std::min(as_float(a), 1.0f))),
    CASE("cvt.f64.f32 $0, $1;", "lw", kF, kD, bits_of(double(as_float(a)))),
    CASE("cvt.rn.f32.f64 $0, $1;", "wl", kD, kF,
         bits_of(double_to_float(as_double(a), FE_TONEAREST))),
    CASE("cvt.rz.f32.f64 $0, $1;", "wl", kD, kF,
         bits_of(double_to_float(as_double(a), FE_TOWARDZERO))),
    CASE("cvt.f32.f16 $0, $1;", "wh", kH, kF, bits_of(float(half_value(half(a))))),
    CASE("cvt.f32.bf16 $0, $1;", "wh", kB, kF, bits_of(float(bfloat_value(half(a))))),
    CASE("cvt.rn.f16.f32 $0, $1;", "hw", kF, kH, half_bits(as_float(a))),
    CASE("cvt.rn.bf16.f32 $0, $1;", "hw", kF, kB, bfloat_bits(as_float(a))),
    CASE("cvt.rn.f16.s32 $0, $1;", "hw", kI, kH, half_bits(static_cast<int32_t>(a))),
    CASE("cvt.rzi.s32.f16 $0, $1;", "wh", kH, kI,
         clamp(std::trunc(half_value(half(a))), INT32_MIN, INT32_MAX)),
    CASE("cvt.rn.f16x2.f32 $0, $1, $2;", "www", kF, kI,
         uint64_t{half_bits(as_float(a))} << 16 | half_bits(as_float(b))),
    CASE("cvt.rn.bf16x2.f32 $0, $1, $2;", "www", kF, kI,
         uint64_t{bfloat_bits(as_float(a))} << 16 | bfloat_bits(as_float(b))),
    CASE("cvt.rz.f16.f32 $0, $1;", "hw", kF, kH, half_rz(as_float(a))),
    CASE("cvt.rz.bf16.f32 $0, $1;", "hw", kF, kB, bfloat_rz(as_float(a))),
    CASE("cvt.rp.f16.f32 $0, $1;", "hw", kF, kH,
         std::signbit(as_float(a)) || std::isnan(as_float(a)) ? half_rz(as_float(a))
         : half_value(half_rz(as_float(a))) < as_float(a)     ? half_rz(as_float(a)) + 1
                                                              : half_rz(as_float(a))),
    CASE("cvt.rn.relu.f16.f32 $0, $1;", "hw", kF, kH, rectified(half_bits(as_float(a)))),
    CASE("cvt.rz.relu.bf16.f32 $0, $1;", "hw", kF, kB, rectified(bfloat_rz(as_float(a)))),
    CASE("cvt.rn.satfinite.f16.f32 $0, $1;", "hw", kF, kH, finite_half(half_bits(as_float(a)))),
    CASE("cvt.rn.satfinite.bf16.f32 $0, $1;", "hw", kF, kB,
         finite_bfloat(bfloat_bits(as_float(a)))),
    CASE("cvt.rz.satfinite.f16.f32 $0, $1;", "hw", kF, kH, finite_half(half_rz(as_float(a)))),
    CASE("cvt.rn.relu.satfinite.f16.f32 $0, $1;", "hw", kF, kH,
         rectified(finite_half(half_bits(as_float(a))))),
    CASE("cvt.rz.relu.satfinite.bf16.f32 $0, $1;", "hw", kF, kB,
         rectified(finite_bfloat(bfloat_rz(as_float(a))))),
    CASE("cvt.rz.f16x2.f32 $0, $1, $2;", "www", kF, kI,
         two(half_rz(as_float(a)), half_rz(as_float(b)))),
    CASE("cvt.rz.bf16x2.f32 $0, $1, $2;", "www", kF, kI,
         two(bfloat_rz(as_float(a)), bfloat_rz(as_float(b)))),
    CASE("cvt.rn.relu.f16x2.f32 $0, $1, $2;", "www", kF, kI,
         two(rectified(half_bits(as_float(a))), rectified(half_bits(as_float(b))))),
    CASE("cvt.rz.relu.f16x2.f32 $0, $1, $2;", "www", kF, kI,
         two(rectified(half_rz(as_float(a))), rectified(half_rz(as_float(b))))),
    CASE("cvt.rn.satfinite.f16x2.f32 $0, $1, $2;", "www", kF, kI,
         two(finite_half(half_bits(as_float(a))), finite_half(half_bits(as_float(b))))),
    CASE("cvt.rz.satfinite.bf16x2.f32 $0, $1, $2;", "www", kF, kI,
         two(finite_bfloat(bfloat_rz(as_float(a))), finite_bfloat(bfloat_rz(as_float(b))))),
    CASE("cvt.rn.relu.satfinite.bf16x2.f32 $0, $1, $2;", "www", kF, kI,
         two(rectified(finite_bfloat(bfloat_bits(as_float(a)))),
             rectified(finite_bfloat(bfloat_bits(as_float(b)))))),
    CASE("cvt.rna.tf32.f32 $0, $1;", "ww", kF, kI, tf32_bits(as_float(a), true, false)),
    CASE("cvt.rn.tf32.f32 $0, $1;", "ww", kF, kI, tf32_bits(as_float(a), false, false)),
    CASE("cvt.rz.tf32.f32 $0, $1;", "ww", kF, kI, tf32_bits(as_float(a), false, true)),
    CASE("cvt.rna.satfinite.tf32.f32 $0, $1;", "ww", kF, kI,
         finite_tf32(tf32_bits(as_float(a), true, false))),
    CASE("cvt.rn.satfinite.relu.tf32.f32 $0, $1;", "ww", kF, kI,
         rectified_tf32(finite_tf32(tf32_bits(as_float(a), false, false)))),
    CASE("cvt.rz.relu.tf32.f32 $0, $1;", "ww", kF, kI,
         rectified_tf32(tf32_bits(as_float(a), false, true))),
    CASE("cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", "hww", kF, kI,
         two_bytes(byte_code(kE4m3, as_float(a)), byte_code(kE4m3, as_float(b)))),
    CASE("cvt.rn.satfinite.e5m2x2.f32 $0, $1, $2;", "hww", kF, kI,
         two_bytes(byte_code(kE5m2, as_float(a)), byte_code(kE5m2, as_float(b)))),
    CASE("cvt.rn.satfinite.relu.e4m3x2.f32 $0, $1, $2;", "hww", kF, kI,
         two_bytes(rectified_byte(byte_code(kE4m3, as_float(a))),
                   rectified_byte(byte_code(kE4m3, as_float(b))))),
    CASE("cvt.rn.relu.satfinite.e5m2x2.f32 $0, $1, $2;", "hww", kF, kI,
         two_bytes(rectified_byte(byte_code(kE5m2, as_float(a))),
                   rectified_byte(byte_code(kE5m2, as_float(b))))),
    CASE("cvt.rn.satfinite.e4m3x2.f16x2 $0, $1;", "hw", kI, kI,
         two_bytes(byte_code(kE4m3, high_half(a)), byte_code(kE4m3, low_half(a)))),
    CASE("cvt.rn.satfinite.e5m2x2.f16x2 $0, $1;", "hw", kI, kI,
         two_bytes(byte_code(kE5m2, high_half(a)), byte_code(kE5m2, low_half(a)))),
    CASE("cvt.rn.satfinite.relu.e5m2x2.f16x2 $0, $1;", "hw", kI, kI,
         two_bytes(rectified_byte(byte_code(kE5m2, high_half(a))),
                   rectified_byte(byte_code(kE5m2, low_half(a))))),
    CASE("cvt.rn.f16x2.e4m3x2 $0, $1;", "wh", kI, kI,
         two(half_of_byte(kE4m3, a >> 8), half_of_byte(kE4m3, a))),
    CASE("cvt.rn.f16x2.e5m2x2 $0, $1;", "wh", kI, kI,
         two(half_of_byte(kE5m2, a >> 8), half_of_byte(kE5m2, a))),
    CASE("cvt.rn.relu.f16x2.e4m3x2 $0, $1;", "wh", kI, kI,
         two(rectified(half_of_byte(kE4m3, a >> 8)), rectified(half_of_byte(kE4m3, a)))),
    CASE("cvt.rn.relu.bf16x2.f32 $0, $1, $2;", "www", kF, kI,
         uint64_t{as_float(a) < 0 || a == 0x80000000u ? uint16_t{0} : bfloat_bits(as_float(a))}
                 << 16 |
             (as_float(b) < 0 || b == 0x80000000u ? uint16_t{0} : bfloat_bits(as_float(b)))),
};
INSTANTIATE_TEST_SUITE_P(Forms, ConvertTest, testing::ValuesIn(kCases));

// Halfway cases and the ends of the range, worked by hand.
TEST(ConvertRoundingTest, HalfTiesGoToEvenAndLargeValuesOverflow) {
  struct Hand {
    float value;
    uint16_t bits;
  };
  const Hand kHand[] = {{1.00048828125f, 0x3c00},  // 1 + 2^-11: a tie, down to even
                        {1.00146484375f, 0x3c02},  // 1 + 3 * 2^-11: a tie, up to even
                        {65519.0f, 0x7bff},
                        {65520.0f, 0x7c00},
                        {5.9604644775390625e-8f, 0x0001},   // the least subnormal
                        {2.98023223876953125e-8f, 0x0000},  // half of it: a tie, to zero
                        {-6.103515625e-5f, 0x8400}};        // the least normal
  std::vector<float> values;
  for (const Hand& h : kHand) values.push_back(h.value);
  values.resize(32);
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    Buffer<float> in(*device, values);
    Buffer<uint16_t> out(*device, std::vector<uint16_t>(32));
    const Status status =
        run(*device,
            kernel_text(".param .u64 p0, .param .u64 p1",
                        ".reg .b64 %p, %q, %o; .reg .b32 %t; .reg .f32 %f; .reg .b16 %h;\n"
                        "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1]; mov.u32 %t, %tid.x;\n"
                        "mul.wide.u32 %o, %t, 4; add.s64 %p, %p, %o; ld.global.f32 %f, [%p];\n"
                        "cvt.rn.f16.f32 %h, %f;\n"
                        "mul.wide.u32 %o, %t, 2; add.s64 %q, %q, %o; st.global.b16 [%q], %h; ret;"),
            {}, {in.address(), out.address()});
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < std::size(kHand); ++i) EXPECT_EQ(out[i], kHand[i].bits) << i;
  }
}

}  // namespace
}  // namespace lssar::test
