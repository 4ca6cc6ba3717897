// Single and double precision instructions against scalar C++.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

constexpr uint64_t kNan = 0x7fffffff;

class FloatTest : public testing::TestWithParam<LaneCase> {};
TEST_P(FloatTest, EqualsScalar) { check_lanes(GetParam()); }

#define FLOAT_CASE(text, letters, expression)                                                  \
  LaneCase {                                                                                   \
    text, letters, Kind::kFloat, Kind::kFloat, [](const uint64_t* v) -> uint64_t {             \
      [[maybe_unused]] const float a = as_float(v[0]), b = as_float(v[1]), c = as_float(v[2]); \
      return bits_of(static_cast<float>(expression));                                          \
    }                                                                                          \
  }
#define DOUBLE_CASE(text, letters, expression)                                                     \
  LaneCase {                                                                                       \
    text, letters, Kind::kDouble, Kind::kDouble, [](const uint64_t* v) -> uint64_t {               \
      [[maybe_unused]] const double a = as_double(v[0]), b = as_double(v[1]), c = as_double(v[2]); \
      return bits_of(static_cast<double>(expression));                                             \
    }                                                                                              \
  }
#define BITS_CASE(text, letters, in, expression)                           \
  LaneCase {                                                               \
    text, letters, in, Kind::kInteger, [](const uint64_t* v) -> uint64_t { \
      [[maybe_unused]] const uint64_t a = v[0], b = v[1], c = v[2];        \
      return static_cast<uint64_t>(expression);                            \
    }                                                                      \
  }

float ftz(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float sat(float x) { return std::isnan(x) ? 0.0f : x <= 0 ? 0.0f : x > 1 ? 1.0f : x; }
bool is_nan(uint64_t x) { return std::isnan(as_float(x)); }
bool negative(uint64_t x) { return (x >> 31) & 1; }
// As a total order: -0 before +0.
bool below(uint64_t x, uint64_t y) {
  const float a = as_float(x), b = as_float(y);
  return a < b || (a == b && negative(x) && !negative(y));
}
uint64_t least(uint64_t a, uint64_t b) {
  if (is_nan(a)) return is_nan(b) ? kNan : b;
  return is_nan(b) || below(a, b) ? a : b;
}
uint64_t greatest(uint64_t a, uint64_t b) {
  if (is_nan(a)) return is_nan(b) ? kNan : b;
  return is_nan(b) || below(b, a) ? a : b;
}

// In one direction of rounding, at run time: volatile keeps the compiler from folding.
template <class T, class F>
T rounded(int mode, F f, T a, T b, T c = 0) {
  const int saved = std::fegetround();
  volatile T x = a, y = b, z = c;
  std::fesetround(mode);
  volatile T r = f(static_cast<T>(x), static_cast<T>(y), static_cast<T>(z));
  std::fesetround(saved);
  return r;
}
constexpr int kZero = FE_TOWARDZERO, kDown = FE_DOWNWARD, kUp = FE_UPWARD;
// NOTE: not lambdas; a call through a pointer is not moved across a change of the rounding mode.
template <class T>
__attribute__((noinline)) T do_add(T a, T b, T) {
  return a + b;
}
template <class T>
__attribute__((noinline)) T do_sub(T a, T b, T) {
  return a - b;
}
template <class T>
__attribute__((noinline)) T do_mul(T a, T b, T) {
  return a * b;
}
template <class T>
__attribute__((noinline)) T do_div(T a, T b, T) {
  return a / b;
}
template <class T>
__attribute__((noinline)) T do_fma(T a, T b, T c) {
  return std::fma(a, b, c);
}
template <class T>
__attribute__((noinline)) T do_sqrt(T a, T, T) {
  return std::sqrt(a);
}
uint64_t with_sign_of_product(uint64_t r, uint64_t a, uint64_t b) {
  return is_nan(r) ? r : (r & 0x7fffffffu) | ((a ^ b) & 0x80000000u);
}
uint64_t magnitude(uint64_t a) { return a & 0x7fffffffu; }
uint64_t or_nan(uint64_t a, uint64_t b, uint64_t r) { return is_nan(a) || is_nan(b) ? kNan : r; }

const LaneCase kCases[] = {
    FLOAT_CASE("add.rz.f32 $0, $1, $2;", "www", rounded(kZero, do_add<float>, a, b)),
    FLOAT_CASE("add.rm.f32 $0, $1, $2;", "www", rounded(kDown, do_add<float>, a, b)),
    FLOAT_CASE("add.rp.f32 $0, $1, $2;", "www", rounded(kUp, do_add<float>, a, b)),
    FLOAT_CASE("add.rz.ftz.f32 $0, $1, $2;", "www",
               ftz(rounded(kZero, do_add<float>, ftz(a), ftz(b)))),
    FLOAT_CASE("add.rp.sat.f32 $0, $1, $2;", "www", sat(rounded(kUp, do_add<float>, a, b))),
    FLOAT_CASE("sub.rz.f32 $0, $1, $2;", "www", rounded(kZero, do_sub<float>, a, b)),
    FLOAT_CASE("sub.rm.ftz.f32 $0, $1, $2;", "www",
               ftz(rounded(kDown, do_sub<float>, ftz(a), ftz(b)))),
    FLOAT_CASE("mul.rz.f32 $0, $1, $2;", "www", rounded(kZero, do_mul<float>, a, b)),
    FLOAT_CASE("mul.rm.f32 $0, $1, $2;", "www", rounded(kDown, do_mul<float>, a, b)),
    FLOAT_CASE("mul.rp.ftz.sat.f32 $0, $1, $2;", "www",
               sat(ftz(rounded(kUp, do_mul<float>, ftz(a), ftz(b))))),
    FLOAT_CASE("fma.rz.f32 $0, $1, $2, $3;", "wwww", rounded(kZero, do_fma<float>, a, b, c)),
    FLOAT_CASE("fma.rm.f32 $0, $1, $2, $3;", "wwww", rounded(kDown, do_fma<float>, a, b, c)),
    FLOAT_CASE("fma.rp.ftz.f32 $0, $1, $2, $3;", "wwww",
               ftz(rounded(kUp, do_fma<float>, ftz(a), ftz(b), ftz(c)))),
    FLOAT_CASE("mad.rz.f32 $0, $1, $2, $3;", "wwww", rounded(kZero, do_fma<float>, a, b, c)),
    FLOAT_CASE("div.rz.f32 $0, $1, $2;", "www", rounded(kZero, do_div<float>, a, b)),
    FLOAT_CASE("div.rm.f32 $0, $1, $2;", "www", rounded(kDown, do_div<float>, a, b)),
    FLOAT_CASE("div.rp.ftz.f32 $0, $1, $2;", "www",
               ftz(rounded(kUp, do_div<float>, ftz(a), ftz(b)))),
    FLOAT_CASE("rcp.rz.f32 $0, $1;", "ww", rounded(kZero, do_div<float>, 1.0f, a)),
    FLOAT_CASE("rcp.rp.ftz.f32 $0, $1;", "ww", ftz(rounded(kUp, do_div<float>, 1.0f, ftz(a)))),
    FLOAT_CASE("sqrt.rz.f32 $0, $1;", "ww", rounded(kZero, do_sqrt<float>, a, a)),
    FLOAT_CASE("sqrt.rm.f32 $0, $1;", "ww", rounded(kDown, do_sqrt<float>, a, a)),
    FLOAT_CASE("sqrt.rp.ftz.f32 $0, $1;", "ww", ftz(rounded(kUp, do_sqrt<float>, ftz(a), a))),
    DOUBLE_CASE("add.rz.f64 $0, $1, $2;", "lll", rounded(kZero, do_add<double>, a, b)),
    DOUBLE_CASE("add.rp.f64 $0, $1, $2;", "lll", rounded(kUp, do_add<double>, a, b)),
    DOUBLE_CASE("sub.rm.f64 $0, $1, $2;", "lll", rounded(kDown, do_sub<double>, a, b)),
    DOUBLE_CASE("mul.rp.f64 $0, $1, $2;", "lll", rounded(kUp, do_mul<double>, a, b)),
    DOUBLE_CASE("fma.rz.f64 $0, $1, $2, $3;", "llll", rounded(kZero, do_fma<double>, a, b, c)),
    DOUBLE_CASE("mad.rm.f64 $0, $1, $2, $3;", "llll", rounded(kDown, do_fma<double>, a, b, c)),
    DOUBLE_CASE("div.rm.f64 $0, $1, $2;", "lll", rounded(kDown, do_div<double>, a, b)),
    DOUBLE_CASE("rcp.rz.f64 $0, $1;", "ll", rounded(kZero, do_div<double>, 1.0, a)),
    DOUBLE_CASE("sqrt.rp.f64 $0, $1;", "ll", rounded(kUp, do_sqrt<double>, a, a)),
    BITS_CASE("max.xorsign.abs.f32 $0, $1, $2;", "www", Kind::kFloat,
              with_sign_of_product(greatest(magnitude(a), magnitude(b)), a, b)),
    BITS_CASE("min.xorsign.abs.f32 $0, $1, $2;", "www", Kind::kFloat,
              with_sign_of_product(least(magnitude(a), magnitude(b)), a, b)),
    BITS_CASE("max.NaN.xorsign.abs.f32 $0, $1, $2;", "www", Kind::kFloat,
              with_sign_of_product(or_nan(a, b, greatest(magnitude(a), magnitude(b))), a, b)),
    BITS_CASE("min.NaN.xorsign.abs.f32 $0, $1, $2;", "www", Kind::kFloat,
              with_sign_of_product(or_nan(a, b, least(magnitude(a), magnitude(b))), a, b)),
    FLOAT_CASE("max.ftz.xorsign.abs.f32 $0, $1, $2;", "www",
               as_float(with_sign_of_product(
                   greatest(magnitude(bits_of(ftz(a))), magnitude(bits_of(ftz(b)))), bits_of(a),
                   bits_of(b)))),
    FLOAT_CASE("min.ftz.NaN.f32 $0, $1, $2;", "www",
               as_float(or_nan(bits_of(a), bits_of(b), least(bits_of(ftz(a)), bits_of(ftz(b)))))),
    BITS_CASE("min.f32 $0, $1, $2, $3;", "wwww", Kind::kFloat, least(least(a, b), c)),
    BITS_CASE("max.NaN.f32 $0, $1, $2, $3;", "wwww", Kind::kFloat,
              or_nan(or_nan(a, b, a), c, greatest(greatest(a, b), c))),
    BITS_CASE("testp.finite.f64 $0, $1;", "pl", Kind::kDouble, std::isfinite(as_double(a))),
    BITS_CASE("testp.infinite.f64 $0, $1;", "pl", Kind::kDouble, std::isinf(as_double(a))),
    BITS_CASE("testp.number.f64 $0, $1;", "pl", Kind::kDouble, !std::isnan(as_double(a))),
    BITS_CASE("testp.notanumber.f64 $0, $1;", "pl", Kind::kDouble, std::isnan(as_double(a))),
    BITS_CASE("testp.normal.f64 $0, $1;", "pl", Kind::kDouble, std::isnormal(as_double(a))),
    BITS_CASE("testp.subnormal.f64 $0, $1;", "pl", Kind::kDouble,
              std::fpclassify(as_double(a)) == FP_SUBNORMAL),
    DOUBLE_CASE("copysign.f64 $0, $1, $2;", "lll", std::copysign(b, a)),
    BITS_CASE("slct.ftz.f32.f32 $0, $1, $2, $3;", "wwww", Kind::kFloat,
              ftz(as_float(c)) >= 0 ? a : b),
    BITS_CASE("slct.b64.f32 $0, $1, $2, $3;", "lllw", Kind::kFloat, as_float(c) >= 0 ? a : b),
    FLOAT_CASE("add.f32 $0, $1, $2;", "www", a + b),
    FLOAT_CASE("add.rn.f32 $0, $1, $2;", "www", a + b),
    FLOAT_CASE("add.ftz.f32 $0, $1, $2;", "www", ftz(ftz(a) + ftz(b))),
    FLOAT_CASE("add.sat.f32 $0, $1, $2;", "www", sat(a + b)),
    FLOAT_CASE("add.rn.ftz.sat.f32 $0, $1, $2;", "www", sat(ftz(ftz(a) + ftz(b)))),
    FLOAT_CASE("sub.f32 $0, $1, $2;", "www", a - b),
    FLOAT_CASE("sub.rn.ftz.f32 $0, $1, $2;", "www", ftz(ftz(a) - ftz(b))),
    FLOAT_CASE("mul.f32 $0, $1, $2;", "www", a* b),
    FLOAT_CASE("mul.rn.ftz.f32 $0, $1, $2;", "www", ftz(ftz(a) * ftz(b))),
    FLOAT_CASE("mul.sat.f32 $0, $1, $2;", "www", sat(a* b)),
    FLOAT_CASE("mul.f32 $0, $1, 0f40490FDB;", "ww", a * 3.14159274f),
    FLOAT_CASE("fma.rn.f32 $0, $1, $2, $3;", "wwww", std::fma(a, b, c)),
    FLOAT_CASE("fma.rn.ftz.f32 $0, $1, $2, $3;", "wwww", ftz(std::fma(ftz(a), ftz(b), ftz(c)))),
    FLOAT_CASE("fma.rn.sat.f32 $0, $1, $2, $3;", "wwww", sat(std::fma(a, b, c))),
    FLOAT_CASE("fma.rn.ftz.sat.f32 $0, $1, $2, $3;", "wwww",
               sat(ftz(std::fma(ftz(a), ftz(b), ftz(c))))),
    FLOAT_CASE("mad.rn.f32 $0, $1, $2, $3;", "wwww", std::fma(a, b, c)),
    FLOAT_CASE("div.rn.f32 $0, $1, $2;", "www", a / b),
    FLOAT_CASE("div.rn.ftz.f32 $0, $1, $2;", "www", ftz(ftz(a) / ftz(b))),
    FLOAT_CASE("sqrt.rn.f32 $0, $1;", "ww", std::sqrt(a)),
    FLOAT_CASE("sqrt.rn.ftz.f32 $0, $1;", "ww", ftz(std::sqrt(ftz(a)))),
    FLOAT_CASE("rcp.rn.f32 $0, $1;", "ww", 1.0f / a),
    BITS_CASE("neg.f32 $0, $1;", "ww", Kind::kFloat, a ^ 0x80000000u),
    BITS_CASE("abs.f32 $0, $1;", "ww", Kind::kFloat, a & 0x7fffffffu),
    BITS_CASE("max.f32 $0, $1, $2;", "www", Kind::kFloat, greatest(a, b)),
    BITS_CASE("min.f32 $0, $1, $2;", "www", Kind::kFloat, least(a, b)),
    BITS_CASE("max.NaN.f32 $0, $1, $2;", "www", Kind::kFloat,
              is_nan(a) || is_nan(b) ? kNan : greatest(a, b)),
    BITS_CASE("min.NaN.f32 $0, $1, $2;", "www", Kind::kFloat,
              is_nan(a) || is_nan(b) ? kNan : least(a, b)),
    BITS_CASE("max.f32 $0, $1, $2, $3;", "wwww", Kind::kFloat, greatest(greatest(a, b), c)),
    FLOAT_CASE("max.ftz.f32 $0, $1, $2;", "www",
               as_float(greatest(bits_of(ftz(a)), bits_of(ftz(b))))),
    BITS_CASE("copysign.f32 $0, $1, $2;", "www", Kind::kFloat,
              (a & 0x80000000u) | (b & 0x7fffffffu)),
    BITS_CASE("testp.finite.f32 $0, $1;", "pw", Kind::kFloat, std::isfinite(as_float(a))),
    BITS_CASE("testp.infinite.f32 $0, $1;", "pw", Kind::kFloat, std::isinf(as_float(a))),
    BITS_CASE("testp.number.f32 $0, $1;", "pw", Kind::kFloat, !is_nan(a)),
    BITS_CASE("testp.notanumber.f32 $0, $1;", "pw", Kind::kFloat, is_nan(a)),
    BITS_CASE("testp.normal.f32 $0, $1;", "pw", Kind::kFloat, std::isnormal(as_float(a))),
    BITS_CASE("testp.subnormal.f32 $0, $1;", "pw", Kind::kFloat,
              std::fpclassify(as_float(a)) == FP_SUBNORMAL),
    BITS_CASE("slct.f32.f32 $0, $1, $2, $3;", "wwww", Kind::kFloat, as_float(c) >= 0 ? a : b),
    DOUBLE_CASE("add.f64 $0, $1, $2;", "lll", a + b),
    DOUBLE_CASE("sub.rn.f64 $0, $1, $2;", "lll", a - b),
    DOUBLE_CASE("mul.f64 $0, $1, $2;", "lll", a* b),
    DOUBLE_CASE("div.rn.f64 $0, $1, $2;", "lll", a / b),
    DOUBLE_CASE("fma.rn.f64 $0, $1, $2, $3;", "llll", std::fma(a, b, c)),
    DOUBLE_CASE("max.f64 $0, $1, $2;", "lll", a == b ? std::copysign(a, a + b) : std::fmax(a, b)),
    DOUBLE_CASE("min.f64 $0, $1, $2;", "lll", a == b ? -std::copysign(a, -a - b) : std::fmin(a, b)),
    DOUBLE_CASE("neg.f64 $0, $1;", "ll", -a),
    DOUBLE_CASE("abs.f64 $0, $1;", "ll", std::fabs(a)),
    DOUBLE_CASE("sqrt.rn.f64 $0, $1;", "ll", std::sqrt(a)),
    DOUBLE_CASE("add.f64 $0, $1, 0d3FF8000000000000;", "ll", a + 1.5),
};
INSTANTIATE_TEST_SUITE_P(Forms, FloatTest, testing::ValuesIn(kCases));

// max(+0, -0) is +0 whichever comes first; fmax of C leaves it open, so not among the cases.
TEST(FloatZeroTest, MaximumOfDoublesPrefersPositiveZero) {
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    Buffer<uint64_t> out(*device, {1, 1});
    const Status status = run(*device,
                              kernel_text(".param .u64 p0",
                                          ".reg .b64 %p, %a, %b, %c;\n ld.param.u64 %p, [p0];\n"
                                          "mov.b64 %a, 0d8000000000000000;\n"
                                          "mov.b64 %b, 0d0000000000000000;\n"
                                          "max.f64 %c, %a, %b;\n st.global.b64 [%p], %c;\n"
                                          "min.f64 %c, %b, %a;\n st.global.b64 [%p+8], %c;\n"),
                              {1, 1}, {out.address()});
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(out[0], 0u);
    EXPECT_EQ(out[1], uint64_t{1} << 63);
  }
}

}  // namespace
}  // namespace lssar::test
