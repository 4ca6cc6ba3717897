// The .approx functions: within the error bounds of the PTX ISA, and exact where it says what a
// special value gives.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// Runs a one-source f32 instruction on every value.
std::vector<float> apply(SimdLevel level, const std::string& instruction,
                         const std::vector<float>& values) {
  const auto device = open_device(level);
  std::vector<float> padded = values;
  padded.resize((values.size() + 127) / 128 * 128);
  Buffer<float> in(*device, padded);
  Buffer<float> out(*device, std::vector<float>(padded.size()));
  const Status status =
      run(*device,
          kernel_text(".param .u64 p0, .param .u64 p1",
                      ".reg .b64 %p, %q, %o; .reg .b32 %t, %c; .reg .f32 %a, %d;\n"
                      "ld.param.u64 %p, [p0]; ld.param.u64 %q, [p1]; mov.u32 %t, %tid.x;\n"
                      "mov.u32 %c, %ctaid.x; mad.lo.s32 %t, %c, 128, %t;\n"
                      "mul.wide.u32 %o, %t, 4; add.s64 %p, %p, %o; add.s64 %q, %q, %o;\n"
                      "ld.global.f32 %a, [%p];\n" +
                          instruction + " %d, %a;\nst.global.f32 [%q], %d; ret;"),
          {static_cast<uint32_t>(padded.size() / 128), 128}, {in.address(), out.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  return {out.values().begin(), out.values().begin() + static_cast<ptrdiff_t>(values.size())};
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

}  // namespace
}  // namespace lssar::test
