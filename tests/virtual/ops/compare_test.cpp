// setp and set against scalar C++.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

struct Comparison {
  const char* name;
  std::function<bool(double, double)> holds;  // of numbers
  bool if_nan;
};
const Comparison kFloatComparisons[] = {
    {"eq", std::equal_to<>(), false},
    {"ne", std::not_equal_to<>(), false},
    {"lt", std::less<>(), false},
    {"le", std::less_equal<>(), false},
    {"gt", std::greater<>(), false},
    {"ge", std::greater_equal<>(), false},
    {"equ", std::equal_to<>(), true},
    {"neu", std::not_equal_to<>(), true},
    {"ltu", std::less<>(), true},
    {"leu", std::less_equal<>(), true},
    {"gtu", std::greater<>(), true},
    {"geu", std::greater_equal<>(), true},
    {"num", [](double, double) { return true; }, false},
    {"nan", [](double, double) { return false; }, true},
};

class FloatCompareTest : public testing::TestWithParam<Comparison> {};

TEST_P(FloatCompareTest, SetpOfEveryFloatType) {
  const Comparison& c = GetParam();
  const auto decide = [&c](double a, double b) -> uint64_t {
    return std::isnan(a) || std::isnan(b) ? c.if_nan : c.holds(a, b);
  };
  check_lanes({fmt::format("setp.{}.f32 $0, $1, $2;", c.name), "pww", Kind::kFloat, Kind::kInteger,
               [=](const uint64_t* v) { return decide(as_float(v[0]), as_float(v[1])); }});
  check_lanes({fmt::format("setp.{}.f64 $0, $1, $2;", c.name), "pll", Kind::kDouble, Kind::kInteger,
               [=](const uint64_t* v) { return decide(as_double(v[0]), as_double(v[1])); }});
  check_lanes({fmt::format("setp.{}.f16 $0, $1, $2;", c.name), "phh", Kind::kHalf, Kind::kInteger,
               [=](const uint64_t* v) {
                 return decide(half_value(static_cast<uint16_t>(v[0])),
                               half_value(static_cast<uint16_t>(v[1])));
               }});
  check_lanes({fmt::format("set.{}.u32.f32 $0, $1, $2;", c.name), "www", Kind::kFloat,
               Kind::kInteger, [=](const uint64_t* v) {
                 return decide(as_float(v[0]), as_float(v[1])) ? 0xffffffffu : 0u;
               }});
}

// What set gives for each comparison, in each type of result, packed or not.
TEST_P(FloatCompareTest, SetOfEveryType) {
  const Comparison& c = GetParam();
  const auto decide = [&c](double a, double b) {
    return std::isnan(a) || std::isnan(b) ? c.if_nan : c.holds(a, b);
  };
  const auto halves = [=](const uint64_t* v, int shift) {
    return decide(half_value(static_cast<uint16_t>(v[0] >> shift)),
                  half_value(static_cast<uint16_t>(v[1] >> shift)));
  };
  const auto bfloats = [=](const uint64_t* v, int shift) {
    return decide(bfloat_value(static_cast<uint16_t>(v[0] >> shift)),
                  bfloat_value(static_cast<uint16_t>(v[1] >> shift)));
  };
  const auto check = [&](const char* types, const char* letters, Kind kind, auto compare,
                         uint64_t one) {
    check_lanes({fmt::format("set.{}.{} $0, $1, $2;", c.name, types), letters, kind, Kind::kInteger,
                 [=](const uint64_t* v) { return compare(v, 0) ? one : 0; }});
  };
  const auto check_pair = [&](const char* types, auto compare, uint64_t one) {
    check_lanes({fmt::format("set.{}.{} $0, $1, $2;", c.name, types), "www", Kind::kInteger,
                 Kind::kInteger, [=](const uint64_t* v) {
                   return (compare(v, 0) ? one : 0) | (compare(v, 16) ? one << 16 : 0);
                 }});
  };
  const auto floats = [=](const uint64_t* v, int) {
    return decide(as_float(v[0]), as_float(v[1]));
  };
  const auto doubles = [=](const uint64_t* v, int) {
    return decide(as_double(v[0]), as_double(v[1]));
  };
  check("f32.f32", "www", Kind::kFloat, floats, 0x3f800000u);
  check("f16.f32", "hww", Kind::kFloat, floats, 0x3c00);
  check("s32.f64", "wll", Kind::kDouble, doubles, 0xffffffffu);
  check("f16.f16", "hhh", Kind::kHalf, halves, 0x3c00);
  check("u16.f16", "hhh", Kind::kHalf, halves, 0xffff);
  check("s32.f16", "whh", Kind::kHalf, halves, 0xffffffffu);
  check("bf16.bf16", "hhh", Kind::kBfloat, bfloats, 0x3f80);
  check("u32.bf16", "whh", Kind::kBfloat, bfloats, 0xffffffffu);
  check_pair("f16x2.f16x2", halves, 0x3c00);
  check_pair("u32.f16x2", halves, 0xffff);
  check_pair("bf16x2.bf16x2", bfloats, 0x3f80);
  check_pair("s32.bf16x2", bfloats, 0xffff);
}

TEST_P(FloatCompareTest, SetpOfPairsGivesTheLowHalfThenTheHigh) {
  const Comparison& c = GetParam();
  for (const bool high : {false, true}) {
    for (const bool bf16 : {false, true}) {
      const int shift = high ? 16 : 0;
      check_lanes({fmt::format("setp.{}.{} {}, $1, $2;", c.name, bf16 ? "bf16x2" : "f16x2",
                               high ? "_|$0" : "$0|_"),
                   "pww", Kind::kInteger, Kind::kInteger, [&c, shift, bf16](const uint64_t* v) {
                     const auto value = bf16 ? bfloat_value : half_value;
                     const double a = value(static_cast<uint16_t>(v[0] >> shift));
                     const double b = value(static_cast<uint16_t>(v[1] >> shift));
                     return static_cast<uint64_t>(std::isnan(a) || std::isnan(b) ? c.if_nan
                                                                                 : c.holds(a, b));
                   }});
    }
  }
}

TEST_P(FloatCompareTest, FtzComparesSubnormalHalvesAsZero) {
  const Comparison& c = GetParam();
  const auto value = [](uint64_t bits) {
    const double x = half_value(static_cast<uint16_t>(bits));
    return std::fabs(x) < 0x1p-14 ? 0.0 : x;
  };
  const auto decide = [&c, value](uint64_t x, uint64_t y) {
    const double a = value(x), b = value(y);
    return std::isnan(a) || std::isnan(b) ? c.if_nan : c.holds(a, b);
  };
  check_lanes({fmt::format("setp.{}.ftz.f16 $0, $1, $2;", c.name), "phh", Kind::kHalf,
               Kind::kInteger,
               [=](const uint64_t* v) { return static_cast<uint64_t>(decide(v[0], v[1])); }});
  check_lanes({fmt::format("set.{}.ftz.f16x2.f16x2 $0, $1, $2;", c.name), "www", Kind::kInteger,
               Kind::kInteger, [=](const uint64_t* v) -> uint64_t {
                 return (decide(v[0], v[1]) ? 0x3c00 : 0) |
                        (decide(v[0] >> 16, v[1] >> 16) ? 0x3c000000 : 0);
               }});
}

TEST_P(FloatCompareTest, FtzComparesSubnormalsAsZero) {
  const Comparison& c = GetParam();
  const auto flush = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? 0.0f : x; };
  check_lanes({fmt::format("setp.{}.ftz.f32 $0, $1, $2;", c.name), "pww", Kind::kFloat,
               Kind::kInteger, [&c, flush](const uint64_t* v) -> uint64_t {
                 const float a = flush(as_float(v[0])), b = flush(as_float(v[1]));
                 return std::isnan(a) || std::isnan(b) ? c.if_nan : c.holds(a, b);
               }});
}
INSTANTIATE_TEST_SUITE_P(All, FloatCompareTest, testing::ValuesIn(kFloatComparisons),
                         [](const auto& p) { return std::string(p.param.name); });

struct IntegerComparison {
  const char* name;
  bool (*holds)(__int128, __int128);
  bool unsigned_only;
};
const IntegerComparison kIntegerComparisons[] = {
    {"eq", [](__int128 a, __int128 b) { return a == b; }, false},
    {"ne", [](__int128 a, __int128 b) { return a != b; }, false},
    {"lt", [](__int128 a, __int128 b) { return a < b; }, false},
    {"le", [](__int128 a, __int128 b) { return a <= b; }, false},
    {"gt", [](__int128 a, __int128 b) { return a > b; }, false},
    {"ge", [](__int128 a, __int128 b) { return a >= b; }, false},
    {"lo", [](__int128 a, __int128 b) { return a < b; }, true},
    {"ls", [](__int128 a, __int128 b) { return a <= b; }, true},
    {"hi", [](__int128 a, __int128 b) { return a > b; }, true},
    {"hs", [](__int128 a, __int128 b) { return a >= b; }, true},
};
class IntegerCompareTest : public testing::TestWithParam<IntegerComparison> {};
TEST_P(IntegerCompareTest, SetpOfEveryWidth) {
  const auto [name, holds, unsigned_only] = GetParam();
  const auto check = [&, holds = holds, name = name](const char* type, const char* letters,
                                                     __int128 (*value)(uint64_t)) {
    check_lanes({fmt::format("setp.{}.{} $0, $1, $2;", name, type), letters, Kind::kInteger,
                 Kind::kInteger,
                 [=](const uint64_t* v) -> uint64_t { return holds(value(v[0]), value(v[1])); }});
  };
  check("u16", "phh", [](uint64_t x) -> __int128 { return x; });
  check("u32", "pww", [](uint64_t x) -> __int128 { return x; });
  check("u64", "pll", [](uint64_t x) -> __int128 { return x; });
  if (unsigned_only) return;
  check("s16", "phh", [](uint64_t x) -> __int128 { return static_cast<int16_t>(x); });
  check("s32", "pww", [](uint64_t x) -> __int128 { return static_cast<int32_t>(x); });
  check("s64", "pll", [](uint64_t x) -> __int128 { return static_cast<int64_t>(x); });
}
INSTANTIATE_TEST_SUITE_P(All, IntegerCompareTest, testing::ValuesIn(kIntegerComparisons),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(SetTest, OfIntegersInEveryWidthCombinedWithAPredicate) {
  check_lanes({"set.lt.u32.s64 $0, $1, $2;", "wll", Kind::kInteger, Kind::kInteger,
               [](const uint64_t* v) -> uint64_t {
                 return static_cast<int64_t>(v[0]) < static_cast<int64_t>(v[1]) ? 0xffffffffu : 0;
               }});
  check_lanes({"set.hs.f32.u16 $0, $1, $2;", "whh", Kind::kInteger, Kind::kInteger,
               [](const uint64_t* v) -> uint64_t { return v[0] >= v[1] ? 0x3f800000u : 0; }});
  check_lanes(
      {"set.eq.and.u32.b32 $0, $1, $2, $3;", "wwwp", Kind::kInteger, Kind::kInteger,
       [](const uint64_t* v) -> uint64_t { return v[0] == v[1] && v[2] ? 0xffffffffu : 0; }});
  check_lanes(
      {"set.ne.or.s32.u32 $0, $1, $2, !$3;", "wwwp", Kind::kInteger, Kind::kInteger,
       [](const uint64_t* v) -> uint64_t { return v[0] != v[1] || !v[2] ? 0xffffffffu : 0; }});
}

bool less(const uint64_t* v) { return static_cast<int32_t>(v[0]) < static_cast<int32_t>(v[1]); }

TEST(SetpTest, CombinesWithAPredicate) {
  check_lanes({"setp.lt.and.s32 $0, $1, $2, $3;", "pwwp", Kind::kInteger, Kind::kInteger,
               [](const uint64_t* v) -> uint64_t { return less(v) && v[2]; }});
  check_lanes({"setp.lt.or.s32 $0, $1, $2, $3;", "pwwp", Kind::kInteger, Kind::kInteger,
               [](const uint64_t* v) -> uint64_t { return less(v) || v[2]; }});
  check_lanes({"setp.lt.xor.s32 $0, $1, $2, !$3;", "pwwp", Kind::kInteger, Kind::kInteger,
               [](const uint64_t* v) -> uint64_t { return less(v) != !v[2]; }});
}

TEST(SetpTest, SecondDestinationIsTheComplementCombined) {
  check_lanes({"setp.lt.s32 _|$0, $1, $2;", "pww", Kind::kInteger, Kind::kInteger,
               [](const uint64_t* v) -> uint64_t { return !less(v); }});
  check_lanes({"setp.lt.and.s32 _|$0, $1, $2, $3;", "pwwp", Kind::kInteger, Kind::kInteger,
               [](const uint64_t* v) -> uint64_t { return !less(v) && v[2]; }});
}

}  // namespace
}  // namespace lssar::test
