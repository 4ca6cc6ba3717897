// f16 and bf16, single and packed, against arithmetic in long double: its 64 bits hold sums and
// products of these formats, and a fused product is nudged off a tie where digits are lost.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

class HalfTest : public testing::TestWithParam<LaneCase> {};
TEST_P(HalfTest, EqualsExact) { check_lanes(GetParam()); }

struct Format {
  double (*value)(uint16_t);
  uint16_t (*bits)(long double);
};
const Format kHalf = {half_value, half_bits};
const Format kBfloat = {bfloat_value, bfloat_bits};

using Operation = long double (*)(long double, long double, long double);
long double add(long double a, long double b, long double) { return a + b; }
long double sub(long double a, long double b, long double) { return a - b; }
long double mul(long double a, long double b, long double) { return a * b; }
long double fma(long double a, long double b, long double c) {
  const long double product = a * b;
  const long double sum = product + c;
  const long double part = sum - product;
  const long double lost = (product - (sum - part)) + (c - part);
  return std::isfinite(sum) && lost != 0 ? std::nextafter(sum, lost * INFINITY) : sum;
}
long double sat_add(long double a, long double b, long double) {
  const long double sum = a + b;
  return std::isnan(sum) || sum <= 0 ? 0 : sum > 1 ? 1 : sum;
}
long double relu_fma(long double a, long double b, long double c) {
  const long double r = fma(a, b, c);
  return std::signbit(r) && !std::isnan(r) ? 0 : r;
}
// -0 is less than +0; a NaN loses against a number.
bool below(long double a, long double b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
long double greatest(long double a, long double b, long double) {
  return std::isnan(a) || (!std::isnan(b) && below(a, b)) ? b : a;
}
long double least(long double a, long double b, long double) {
  return std::isnan(a) || (!std::isnan(b) && below(b, a)) ? b : a;
}
long double greatest_nan(long double a, long double b, long double) {
  return std::isnan(a) || std::isnan(b) ? static_cast<long double>(NAN) : greatest(a, b, 0);
}

long double least_nan(long double a, long double b, long double) {
  return std::isnan(a) || std::isnan(b) ? static_cast<long double>(NAN) : least(a, b, 0);
}
long double with_sign_of_product(long double r, long double a, long double b) {
  if (std::isnan(r)) return r;
  return std::signbit(a) != std::signbit(b) ? -std::fabs(r) : std::fabs(r);
}
long double greatest_xorsign(long double a, long double b, long double) {
  return with_sign_of_product(greatest(std::fabs(a), std::fabs(b), 0), a, b);
}
long double least_xorsign(long double a, long double b, long double) {
  return with_sign_of_product(least(std::fabs(a), std::fabs(b), 0), a, b);
}
long double greatest_nan_xorsign(long double a, long double b, long double) {
  return with_sign_of_product(greatest_nan(std::fabs(a), std::fabs(b), 0), a, b);
}
long double least_nan_xorsign(long double a, long double b, long double) {
  return with_sign_of_product(least_nan(std::fabs(a), std::fabs(b), 0), a, b);
}
// Flushes f16: numbers below 2^-14 are subnormal.
long double flush(long double x) { return std::fabs(x) < 0x1p-14L ? std::copysign(0.0L, x) : x; }
// Rounded to f16 first: what rounds up to 2^-14 is not flushed.
long double flush_rounded(long double x) { return flush(half_value(half_bits(x))); }
long double ftz_add(long double a, long double b, long double) {
  return flush_rounded(flush(a) + flush(b));
}
long double ftz_sub(long double a, long double b, long double) {
  return flush_rounded(flush(a) - flush(b));
}
long double ftz_mul(long double a, long double b, long double) {
  return flush_rounded(flush(a) * flush(b));
}
long double ftz_fma(long double a, long double b, long double c) {
  return flush_rounded(fma(flush(a), flush(b), flush(c)));
}
long double saturate(long double x) { return std::isnan(x) || x <= 0 ? 0 : x > 1 ? 1 : x; }
long double sat_sub(long double a, long double b, long double) { return saturate(a - b); }
long double sat_mul(long double a, long double b, long double) { return saturate(a * b); }
long double sat_fma(long double a, long double b, long double c) { return saturate(fma(a, b, c)); }
long double ftz_sat_add(long double a, long double b, long double) {
  return saturate(ftz_add(a, b, 0));
}
long double ftz_sat_mul(long double a, long double b, long double) {
  return saturate(ftz_mul(a, b, 0));
}
long double ftz_sat_fma(long double a, long double b, long double c) {
  return saturate(ftz_fma(a, b, c));
}
long double ftz_relu_fma(long double a, long double b, long double c) {
  const long double r = ftz_fma(a, b, c);
  return std::signbit(r) && !std::isnan(r) ? 0 : r;
}
long double ftz_greatest(long double a, long double b, long double) {
  return greatest(flush(a), flush(b), 0);
}

uint16_t apply(const Format& f, Operation op, const uint64_t* v, int shift) {
  const auto part = [&](int i) { return f.value(static_cast<uint16_t>(v[i] >> shift)); };
  return f.bits(op(part(0), part(1), part(2)));
}

LaneCase single(const std::string& text, const char* letters, const Format& f, Operation op) {
  const Kind kind = &f == &kHalf ? Kind::kHalf : Kind::kBfloat;
  return {text, letters, kind, kind,
          [&f, op](const uint64_t* v) -> uint64_t { return apply(f, op, v, 0); }};
}

const LaneCase kCases[] = {
    single("add.f16 $0, $1, $2;", "hhh", kHalf, add),
    single("add.rn.f16 $0, $1, $2;", "hhh", kHalf, add),
    single("sub.f16 $0, $1, $2;", "hhh", kHalf, sub),
    single("mul.f16 $0, $1, $2;", "hhh", kHalf, mul),
    single("fma.rn.f16 $0, $1, $2, $3;", "hhhh", kHalf, fma),
    single("fma.rn.relu.f16 $0, $1, $2, $3;", "hhhh", kHalf, relu_fma),
    single("add.sat.f16 $0, $1, $2;", "hhh", kHalf, sat_add),
    single("max.NaN.f16 $0, $1, $2;", "hhh", kHalf, greatest_nan),
    single("add.ftz.f16 $0, $1, $2;", "hhh", kHalf, ftz_add),
    single("sub.ftz.f16 $0, $1, $2;", "hhh", kHalf, ftz_sub),
    single("mul.rn.ftz.f16 $0, $1, $2;", "hhh", kHalf, ftz_mul),
    single("fma.rn.ftz.f16 $0, $1, $2, $3;", "hhhh", kHalf, ftz_fma),
    single("sub.sat.f16 $0, $1, $2;", "hhh", kHalf, sat_sub),
    single("mul.rn.sat.f16 $0, $1, $2;", "hhh", kHalf, sat_mul),
    single("fma.rn.sat.f16 $0, $1, $2, $3;", "hhhh", kHalf, sat_fma),
    single("add.ftz.sat.f16 $0, $1, $2;", "hhh", kHalf, ftz_sat_add),
    single("mul.rn.ftz.sat.f16 $0, $1, $2;", "hhh", kHalf, ftz_sat_mul),
    single("fma.rn.ftz.sat.f16 $0, $1, $2, $3;", "hhhh", kHalf, ftz_sat_fma),
    single("fma.rn.ftz.relu.f16 $0, $1, $2, $3;", "hhhh", kHalf, ftz_relu_fma),
    single("fma.rn.relu.bf16 $0, $1, $2, $3;", "hhhh", kBfloat, relu_fma),
    single("max.f16 $0, $1, $2;", "hhh", kHalf, greatest),
    single("max.ftz.f16 $0, $1, $2;", "hhh", kHalf, ftz_greatest),
    single("min.NaN.bf16 $0, $1, $2;", "hhh", kBfloat, least_nan),
    single("max.xorsign.abs.f16 $0, $1, $2;", "hhh", kHalf, greatest_xorsign),
    single("min.xorsign.abs.bf16 $0, $1, $2;", "hhh", kBfloat, least_xorsign),
    single("max.NaN.xorsign.abs.bf16 $0, $1, $2;", "hhh", kBfloat, greatest_nan_xorsign),
    single("min.NaN.xorsign.abs.f16 $0, $1, $2;", "hhh", kHalf, least_nan_xorsign),
    single("add.bf16 $0, $1, $2;", "hhh", kBfloat, add),
    single("sub.bf16 $0, $1, $2;", "hhh", kBfloat, sub),
    single("mul.bf16 $0, $1, $2;", "hhh", kBfloat, mul),
    single("fma.rn.bf16 $0, $1, $2, $3;", "hhhh", kBfloat, fma),
    single("max.bf16 $0, $1, $2;", "hhh", kBfloat, greatest),
    single("min.bf16 $0, $1, $2;", "hhh", kBfloat, least),
};
INSTANTIATE_TEST_SUITE_P(Forms, HalfTest, testing::ValuesIn(kCases));

// Each half of a pair is computed like a single.
struct PairCase {
  const char* text;
  const char* letters;
  const Format* format;
  Operation operation;
};
void PrintTo(const PairCase& p, std::ostream* out) { *out << p.text; }
class HalfPairTest : public testing::TestWithParam<PairCase> {};
TEST_P(HalfPairTest, EqualsTwoSingles) {
  const PairCase& p = GetParam();
  LaneCase test;
  test.instruction = p.text;
  test.letters = p.letters;
  // As integers, so bit for bit: both sides give the canonical NaN.
  test.expect = [&p](const uint64_t* v) -> uint64_t {
    return static_cast<uint64_t>(apply(*p.format, p.operation, v, 16)) << 16 |
           apply(*p.format, p.operation, v, 0);
  };
  check_lanes(test);
}
const PairCase kPairs[] = {
    {"add.f16x2 $0, $1, $2;", "www", &kHalf, add},
    {"sub.f16x2 $0, $1, $2;", "www", &kHalf, sub},
    {"mul.f16x2 $0, $1, $2;", "www", &kHalf, mul},
    {"fma.rn.f16x2 $0, $1, $2, $3;", "wwww", &kHalf, fma},
    {"add.bf16x2 $0, $1, $2;", "www", &kBfloat, add},
    {"mul.bf16x2 $0, $1, $2;", "www", &kBfloat, mul},
    {"fma.rn.bf16x2 $0, $1, $2, $3;", "wwww", &kBfloat, fma},
    {"sub.bf16x2 $0, $1, $2;", "www", &kBfloat, sub},
    {"add.ftz.sat.f16x2 $0, $1, $2;", "www", &kHalf, ftz_sat_add},
    {"fma.rn.ftz.relu.f16x2 $0, $1, $2, $3;", "wwww", &kHalf, ftz_relu_fma},
    {"fma.rn.relu.f16x2 $0, $1, $2, $3;", "wwww", &kHalf, relu_fma},
    {"fma.rn.relu.bf16x2 $0, $1, $2, $3;", "wwww", &kBfloat, relu_fma},
    {"fma.rn.sat.f16x2 $0, $1, $2, $3;", "wwww", &kHalf, sat_fma},
    {"max.NaN.bf16x2 $0, $1, $2;", "www", &kBfloat, greatest_nan},
    {"min.NaN.f16x2 $0, $1, $2;", "www", &kHalf, least_nan},
    {"max.xorsign.abs.bf16x2 $0, $1, $2;", "www", &kBfloat, greatest_xorsign},
    {"min.NaN.xorsign.abs.f16x2 $0, $1, $2;", "www", &kHalf, least_nan_xorsign},
};
INSTANTIATE_TEST_SUITE_P(Forms, HalfPairTest, testing::ValuesIn(kPairs));

TEST(HalfSignTest, NegAndAbsTouchOnlyTheSign) {
  check_lanes({"neg.f16 $0, $1;", "hh", Kind::kHalf, Kind::kInteger,
               [](const uint64_t* v) { return v[0] ^ 0x8000; }});
  check_lanes({"abs.bf16 $0, $1;", "hh", Kind::kBfloat, Kind::kInteger,
               [](const uint64_t* v) { return v[0] & 0x7fff; }});
  check_lanes({"neg.bf16x2 $0, $1;", "ww", Kind::kInteger, Kind::kInteger,
               [](const uint64_t* v) { return v[0] ^ 0x80008000u; }});
  check_lanes({"abs.f16x2 $0, $1;", "ww", Kind::kInteger, Kind::kInteger,
               [](const uint64_t* v) { return v[0] & 0x7fff7fffu; }});
}

}  // namespace
}  // namespace lssar::test
