// The .approx functions: within the error bounds of the PTX ISA, and exact if it gives the result
// of a special value.
#include <gtest/gtest.h>

#include <cmath>

#include <fmt/format.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

std::shared_ptr<Device> open_approximating(SimdLevel level, ApproxMode mode) {
  VirtualOptions options;
  options.simd = level;
  options.num_threads = 1;
  options.target.major = 9;
  options.target.shared_bytes_per_block = 227 << 10;
  options.approx = mode;
  return make_virtual_device(options);
}

// Runs an instruction on every value, and on b if it has a second source. T: 16 or 32 bits.
template <class T>
std::vector<T> apply_bits(SimdLevel level, ApproxMode mode, const std::string& instruction,
                          const std::vector<T>& values, const std::vector<T>& second = {}) {
  const auto device = open_approximating(level, mode);
  const bool two = !second.empty();
  const size_t size = (values.size() + 127) / 128 * 128;
  std::vector<T> padded = values;
  std::vector<T> padded_b = two ? second : values;
  padded.resize(size);
  padded_b.resize(size);
  Buffer<T> in(*device, padded), in_b(*device, padded_b), out(*device, std::vector<T>(size));
  const int bytes = sizeof(T);
  const Status status = run(
      *device,
      kernel_text(".param .u64 p0, .param .u64 p1, .param .u64 p2",
                  fmt::format(".reg .b64 %p, %q, %r, %o; .reg .b32 %t, %c; .reg .b{0} %a, %b, %d;\n"
                              "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1];\n"
                              "ld.param.u64 %r, [p2]; mov.u32 %t, %tid.x;\n"
                              "mov.u32 %c, %ctaid.x; mad.lo.s32 %t, %c, 128, %t;\n"
                              "mul.wide.u32 %o, %t, {1}; add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n"
                              "add.s64 %r, %r, %o; ld.global.b{0} %a, [%p];\n"
                              "ld.global.b{0} %b, [%r];\n{2} %d, %a{3};\n"
                              "st.global.b{0} [%q], %d; ret;",
                              8 * bytes, bytes, instruction, two ? ", %b" : "")),
      {static_cast<uint32_t>(size / 128), 128}, {in.address(), out.address(), in_b.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  return {out.values().begin(), out.values().begin() + static_cast<ptrdiff_t>(values.size())};
}
std::vector<float> apply(SimdLevel level, const std::string& instruction,
                         const std::vector<float>& values) {
  return apply_bits<float>(level, ApproxMode::kNearest, instruction, values);
}

std::vector<float> spread(float low, float high, int count) {
  std::vector<float> values;
  for (int i = 0; i <= count; ++i) {
    values.push_back(low + (high - low) * static_cast<float>(i) / static_cast<float>(count));
  }
  return values;
}
// Positive floats over the whole range of exponents.
std::vector<float> all_exponents() {
  std::vector<float> values;
  for (int e = -126; e < 127; ++e) {
    for (const float m : {1.0f, 1.1f, 1.37f, 1.4142135f, 1.4142137f, 1.75f, 1.9999999f}) {
      values.push_back(std::ldexp(m, e));
    }
  }
  return values;
}

// Every |result - exact| is at most relative * |exact| + absolute.
void expect_close(const std::string& instruction, const std::vector<float>& values,
                  double (*exact)(double), double relative, double absolute) {
  for (const SimdLevel level : levels()) {
    const std::vector<float> results = apply(level, instruction, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = exact(static_cast<double>(values[i]));
      const double error = std::fabs(static_cast<double>(results[i]) - want);
      ASSERT_TRUE(error <= relative * std::fabs(want) + absolute)
          << instruction << "(" << values[i] << ") = " << results[i] << ", exact " << want << " on "
          << simd_level_name(level);
    }
  }
}

void expect_exactly(const std::string& instruction, const std::vector<float>& values,
                    const std::vector<float>& wanted) {
  for (const SimdLevel level : levels()) {
    const std::vector<float> results = apply(level, instruction, values);
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(wanted[i])) {
        EXPECT_TRUE(std::isnan(results[i])) << instruction << "(" << values[i] << ")";
      } else {
        EXPECT_EQ(bits_of(results[i]), bits_of(wanted[i]))
            << instruction << "(" << values[i] << ")";
      }
    }
  }
}

constexpr double kUlp22 = 0x1p-22;
double reciprocal(double x) { return 1 / x; }
double reciprocal_root(double x) { return 1 / std::sqrt(x); }

TEST(ApproxTest, Ex2IsWithin2ToTheMinus22) {
  expect_close("ex2.approx.ftz.f32", spread(-126, 127.9f, 20000), std::exp2, kUlp22, 0);
  expect_close("ex2.approx.f32", spread(-126, 127.9f, 20000), std::exp2, kUlp22, 0);
}

TEST(ApproxTest, Ex2OfSmallResultsIsSubnormalOrFlushed) {
  expect_close("ex2.approx.f32", spread(-149, -126, 2000), std::exp2, kUlp22, 0x1p-149);
  expect_exactly("ex2.approx.ftz.f32", {-126.5f, -130, -149, -1000}, {0, 0, 0, 0});
}

TEST(ApproxTest, Ex2SpecialValues) {
  const std::vector<float> in = {0.0f, -0.0f,  1.0f,   -INFINITY, INFINITY,
                                 NAN,  128.0f, 200.0f, 1e-40f};
  const std::vector<float> out = {1, 1, 2, 0.0f, INFINITY, NAN, INFINITY, INFINITY, 1};
  expect_exactly("ex2.approx.ftz.f32", in, out);
  expect_exactly("ex2.approx.f32", in, out);
}

TEST(ApproxTest, Lg2IsWithinItsBounds) {
  // Absolute between 0.5 and 2, relative elsewhere.
  expect_close("lg2.approx.ftz.f32", spread(0.5f, 2.0f, 20000), std::log2, 0, kUlp22);
  expect_close("lg2.approx.ftz.f32", all_exponents(), std::log2, kUlp22, kUlp22);
  expect_close("lg2.approx.f32", {1e-40f, 1e-45f, 3e-39f}, std::log2, kUlp22, 0);
}

TEST(ApproxTest, Lg2SpecialValues) {
  expect_exactly("lg2.approx.ftz.f32",
                 {1, 0.0f, -0.0f, INFINITY, -1, NAN, 1e-40f, -1e-40f, 2, 0.5f},
                 {0.0f, -INFINITY, -INFINITY, INFINITY, NAN, NAN, -INFINITY, -INFINITY, 1, -1});
}

TEST(ApproxTest, RcpIsWithinOneUlp) {
  expect_close("rcp.approx.ftz.f32", all_exponents(), reciprocal, 0x1p-23, 0x1p-126);
  expect_exactly("rcp.approx.ftz.f32", {0.0f, -0.0f, INFINITY, -INFINITY, 1e-40f, NAN},
                 {INFINITY, -INFINITY, 0.0f, -0.0f, INFINITY, NAN});
}

TEST(ApproxTest, RootsAreWithinTheirBounds) {
  expect_close("sqrt.approx.f32", all_exponents(), std::sqrt, 0x1p-23, 0);
  expect_close("rsqrt.approx.f32", all_exponents(), reciprocal_root, 0x1.2p-23, 0);
  expect_exactly("rsqrt.approx.ftz.f32", {0.0f, -0.0f, INFINITY, -1, 1e-40f},
                 {INFINITY, -INFINITY, 0.0f, NAN, INFINITY});
}

TEST(ApproxTest, TanhIsWithin2ToTheMinus11) {
  expect_close("tanh.approx.f32", spread(-12, 12, 20000), std::tanh, 0x1p-11, 0);
  expect_exactly("tanh.approx.f32", {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 100, -100},
                 {0.0f, -0.0f, 1, -1, NAN, 1, -1});
}

TEST(ApproxTest, SineAndCosineAreWithinTheirBounds) {
  expect_close("sin.approx.f32", spread(-3.14159f, 3.14159f, 5000), std::sin, 0, 0x1p-21);
  expect_close("cos.approx.f32", spread(-3.14159f, 3.14159f, 5000), std::cos, 0, 0x1p-21);
}

TEST(ApproxTest, DivisionIsWithinTwoUlpAndGivesZeroForHugeDivisors) {
  check_lanes({"div.full.f32 $0, $1, $2;", "www", Kind::kFloat, Kind::kFloat,
               [](const uint64_t* v) { return bits_of(as_float(v[0]) / as_float(v[1])); },
               0x1p-22});
  check_lanes({"div.approx.f32 $0, $1, $2;", "www", Kind::kFloat, Kind::kFloat,
               [](const uint64_t* v) {
                 const float a = as_float(v[0]), b = as_float(v[1]);
                 const bool huge = std::fabs(b) > 0x1p126f && !std::isinf(b);
                 return bits_of(huge ? a * std::copysign(0.0f, b) : a / b);
               },
               0x1p-22});
}

// The modes. `allowed` says by long double whether a result is within the bound.
struct Bounded {
  const char* instruction;
  float low;  // arguments, spread evenly
  float high;
  bool (*allowed)(long double x, float result);
};
bool within(long double result, long double exact, long double error) {
  return std::fabs(result - exact) <= error;
}
// At most `count` floats from the correctly rounded one.
bool within_ulps(float result, long double exact, int count) {
  float low = static_cast<float>(exact), high = low;
  for (int i = 0; i < count; ++i) {
    low = std::nextafter(low, -INFINITY);
    high = std::nextafter(high, INFINITY);
  }
  return result >= low && result <= high;
}
const long double kPow205 = std::exp2(-20.5L), kPow147 = std::exp2(-14.7L);
const Bounded kBounded[] = {
    {"ex2.approx.ftz.f32", -120, 120,
     [](long double x, float r) { return within_ulps(r, std::exp2(x), 2); }},
    {"ex2.approx.f32", -149, -120,
     [](long double x, float r) { return within_ulps(r, std::exp2(x), 2); }},
    {"lg2.approx.ftz.f32", 0.51f, 1.99f,
     [](long double x, float r) { return within(r, std::log2(x), 0x1p-22L); }},
    {"lg2.approx.f32", 2, 3000,
     [](long double x, float r) { return within(r, std::log2(x), std::log2(x) * 0x1p-22L); }},
    {"lg2.approx.f32", 1e-44f, 1e-40f,
     [](long double x, float r) { return within(r, std::log2(x), -std::log2(x) * 0x1p-22L); }},
    {"rcp.approx.ftz.f32", 0.001f, 1000,
     [](long double x, float r) { return within_ulps(r, 1 / x, 1); }},
    {"rcp.approx.f32", -50, -1, [](long double x, float r) { return within_ulps(r, 1 / x, 1); }},
    {"sqrt.approx.f32", 0.001f, 1000,
     [](long double x, float r) { return within(r, std::sqrt(x), std::sqrt(x) * 0x1p-23L); }},
    {"sqrt.approx.ftz.f32", 1, 4,
     [](long double x, float r) { return within(r, std::sqrt(x), std::sqrt(x) * 0x1p-23L); }},
    {"rsqrt.approx.ftz.f32", 0.001f, 1000,
     [](long double x, float r) {
       return within(r, 1 / std::sqrt(x), std::exp2(-22.9L) / std::sqrt(x));
     }},
    {"sin.approx.f32", -6.28f, 6.28f,
     [](long double x, float r) { return within(r, std::sin(x), kPow205); }},
    {"cos.approx.ftz.f32", -6.28f, 6.28f,
     [](long double x, float r) { return within(r, std::cos(x), kPow205); }},
    {"sin.approx.ftz.f32", 7, 314,
     [](long double x, float r) { return within(r, std::sin(x), kPow147); }},
    {"cos.approx.f32", -314, -7,
     [](long double x, float r) { return within(r, std::cos(x), kPow147); }},
    {"tanh.approx.f32", -6, 6,
     [](long double x, float r) {
       return within(r, std::tanh(x), std::fabs(std::tanh(x)) * 0x1p-11L);
     }},
};
void PrintTo(const Bounded& b, std::ostream* out) { *out << b.instruction; }
class ApproxModeTest : public testing::TestWithParam<Bounded> {};

TEST_P(ApproxModeTest, StaysWithinTheBoundAndReachesBothEnds) {
  const Bounded& b = GetParam();
  // An odd number of values, so that 0 is not among them, whose result may be exact.
  const std::vector<float> values = spread(b.low, b.high, 4095);
  for (const SimdLevel level : levels()) {
    const auto nearest = apply_bits<float>(level, ApproxMode::kNearest, b.instruction, values);
    const auto highest = apply_bits<float>(level, ApproxMode::kHighest, b.instruction, values);
    const auto lowest = apply_bits<float>(level, ApproxMode::kLowest, b.instruction, values);
    const auto random = apply_bits<float>(level, ApproxMode::kRandom, b.instruction, values);
    size_t apart = 0, taken_highest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      for (const float r : {nearest[i], highest[i], lowest[i]}) {
        ASSERT_TRUE(b.allowed(values[i], r)) << b.instruction << "(" << values[i] << ") = " << r;
      }
      ASSERT_FALSE(b.allowed(values[i], std::nextafter(highest[i], INFINITY))) << values[i];
      ASSERT_FALSE(b.allowed(values[i], std::nextafter(lowest[i], -INFINITY))) << values[i];
      ASSERT_LE(lowest[i], nearest[i]);
      ASSERT_GE(highest[i], nearest[i]);
      ASSERT_TRUE(random[i] == highest[i] || random[i] == lowest[i]);
      apart += lowest[i] != nearest[i] || highest[i] != nearest[i];
      taken_highest += random[i] == highest[i];
    }
    EXPECT_EQ(apart, values.size());
    EXPECT_GT(taken_highest, values.size() / 3);
    EXPECT_LT(taken_highest, values.size() * 2 / 3 + values.size() / 4);
  }
}
INSTANTIATE_TEST_SUITE_P(Functions, ApproxModeTest, testing::ValuesIn(kBounded));

constexpr ApproxMode kModes[] = {ApproxMode::kNearest, ApproxMode::kHighest, ApproxMode::kLowest,
                                 ApproxMode::kRandom};

// The PTX ISA's results for zeros, infinities and NaN hold in every mode.
TEST(ApproxModeTest, SpecialValuesStayExact) {
  struct Special {
    const char* instruction;
    std::vector<float> in, out;
  };
  const float inf = INFINITY;
  const Special kSpecial[] = {
      {"ex2.approx.ftz.f32",
       {0.0f, -0.0f, inf, -inf, NAN, 1e-40f, -1000, 1000},
       {1, 1, inf, 0, NAN, 1, 0, inf}},
      {"lg2.approx.f32", {0.0f, -0.0f, inf, -1, -inf, NAN}, {-inf, -inf, inf, NAN, NAN, NAN}},
      {"rcp.approx.ftz.f32",
       {0.0f, -0.0f, inf, -inf, 1e-40f, NAN, 3e38f},
       {inf, -inf, 0.0f, -0.0f, inf, NAN, 0.0f}},
      {"sqrt.approx.f32", {0.0f, -0.0f, inf, -1, NAN}, {0.0f, -0.0f, inf, NAN, NAN}},
      {"rsqrt.approx.ftz.f32", {0.0f, -0.0f, inf, -1, NAN}, {inf, -inf, 0.0f, NAN, NAN}},
      {"sin.approx.f32", {0.0f, -0.0f, inf, NAN}, {0.0f, -0.0f, NAN, NAN}},
      {"cos.approx.f32", {0.0f, -0.0f, -inf, NAN}, {1, 1, NAN, NAN}},
      {"tanh.approx.f32", {0.0f, -0.0f, inf, -inf, NAN, 1e-40f}, {0, -0.0f, 1, -1, NAN, 1e-40f}},
  };
  for (const Special& s : kSpecial) {
    for (const ApproxMode mode : kModes) {
      const auto out = apply_bits<float>(SimdLevel::kPlain, mode, s.instruction, s.in);
      for (size_t i = 0; i < s.in.size(); ++i) {
        if (std::isnan(s.out[i])) {
          EXPECT_TRUE(std::isnan(out[i])) << s.instruction << "(" << s.in[i] << ")";
        } else {
          EXPECT_EQ(bits_of(out[i]), bits_of(s.out[i])) << s.instruction << "(" << s.in[i] << ")";
        }
      }
    }
  }
}

// Every finite f16 or bf16 argument whose result is a normal number.
TEST(ApproxModeTest, HalvesStayWithinTheirBounds) {
  struct HalfBound {
    const char* instruction;
    double (*value)(uint16_t);
    double (*exact)(double);
    double relative, absolute;
    double least;  // normal result
  };
  const HalfBound kHalves[] = {
      {"ex2.approx.f16", half_value, std::exp2, std::exp2(-9.9), 0, 0x1p-14},
      {"ex2.approx.ftz.bf16", bfloat_value, std::exp2, 0x1p-7, 0, 0x1p-126},
      {"tanh.approx.f16", half_value, std::tanh, 0, std::exp2(-10.987), 0},
      {"tanh.approx.bf16", bfloat_value, std::tanh, 0, 0x1p-8, 0},
  };
  std::vector<uint16_t> values(65536);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
  for (const HalfBound& b : kHalves) {
    const auto nearest = apply_bits(SimdLevel::kPlain, ApproxMode::kNearest, b.instruction, values);
    const auto highest = apply_bits(SimdLevel::kPlain, ApproxMode::kHighest, b.instruction, values);
    const auto lowest = apply_bits(SimdLevel::kPlain, ApproxMode::kLowest, b.instruction, values);
    size_t counted = 0, apart = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = b.value(values[i]), exact = b.exact(x);
      const double largest = b.value == half_value ? 65504 : 0x1.fep127;
      if (!std::isfinite(x) || std::fabs(exact) < b.least || exact > largest) continue;
      const double error = b.relative * std::fabs(exact) + b.absolute;
      for (const uint16_t r : {nearest[i], highest[i], lowest[i]}) {
        ASSERT_LE(std::fabs(b.value(r) - exact), error) << b.instruction << " of " << x;
      }
      ASSERT_LE(b.value(lowest[i]), b.value(nearest[i])) << b.instruction << " of " << x;
      ASSERT_GE(b.value(highest[i]), b.value(nearest[i])) << b.instruction << " of " << x;
      ++counted;
      apart += highest[i] != lowest[i];
    }
    EXPECT_GT(apart, counted / 2) << b.instruction;
    // Pairs are two of them.
    std::vector<uint32_t> pairs, want;
    for (uint32_t i = 0; i < 65536; i += 7) {
      const uint32_t other = i ^ 0x1234;
      pairs.push_back(other << 16 | i);
      want.push_back(static_cast<uint32_t>(highest[other]) << 16 | highest[i]);
    }
    const std::string pair = std::string(b.instruction) + "x2";
    EXPECT_EQ(apply_bits(SimdLevel::kPlain, ApproxMode::kHighest, pair, pairs), want) << pair;
  }
}

TEST(ApproxModeTest, QuotientsAreUpToTwoUlpsAway) {
  const std::vector<float> a = spread(-7, 9, 999), b = spread(0.3f, 40, 999);
  for (const char* form :
       {"div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "div.full.ftz.f32"}) {
    const auto highest = apply_bits(SimdLevel::kPlain, ApproxMode::kHighest, form, a, b);
    const auto lowest = apply_bits(SimdLevel::kPlain, ApproxMode::kLowest, form, a, b);
    const auto random = apply_bits(SimdLevel::kPlain, ApproxMode::kRandom, form, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const float q = a[i] / b[i];
      const float up = std::nextafter(std::nextafter(q, INFINITY), INFINITY);
      const float down = std::nextafter(std::nextafter(q, -INFINITY), -INFINITY);
      EXPECT_EQ(highest[i], up) << form;
      EXPECT_EQ(lowest[i], down) << form;
      EXPECT_TRUE(random[i] == up || random[i] == down) << form;
    }
  }
  // Beyond 2^126 the quotient is 0, below 2^-126 there is no bound; infinities and zeros are exact.
  const std::vector<float> c = {1, -1, INFINITY, 0, 1, 1, 0},
                           d = {2e38f, 2e38f, 2, 3, 0, INFINITY, 0};
  for (const ApproxMode mode : kModes) {
    const auto q = apply_bits(SimdLevel::kPlain, mode, "div.approx.f32", c, d);
    EXPECT_EQ(bits_of(q[0]), bits_of(0.0f));
    EXPECT_EQ(bits_of(q[1]), bits_of(-0.0f));
    EXPECT_EQ(q[2], INFINITY);
    EXPECT_EQ(bits_of(q[3]), bits_of(0.0f));
    EXPECT_EQ(q[4], INFINITY);
    EXPECT_EQ(bits_of(q[5]), bits_of(0.0f));
    EXPECT_TRUE(std::isnan(q[6]));
  }
}

// The instruction reads and writes only the upper half of a double.
TEST(ApproxTest, GrossReciprocalsOfDoubles) {
  const auto upper = [](double x) {
    const uint64_t bits = bits_of(x);
    return as_double((bits & (uint64_t{2047} << 52)) == 0 ? bits & (uint64_t{1} << 63)
                                                          : bits & 0xffffffff00000000u);
  };
  check_lanes({"rcp.approx.ftz.f64 $0, $1;", "ll", Kind::kDouble, Kind::kDouble,
               [=](const uint64_t* v) { return bits_of(upper(1 / upper(as_double(v[0])))); }});
  check_lanes(
      {"rsqrt.approx.ftz.f64 $0, $1;", "ll", Kind::kDouble, Kind::kDouble,
       [=](const uint64_t* v) { return bits_of(upper(1 / std::sqrt(upper(as_double(v[0]))))); }});
}

}  // namespace
}  // namespace lssar::test
