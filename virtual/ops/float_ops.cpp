// Single and double precision arithmetic, rounded to nearest even.
#include "virtual/ops/float_arithmetic.h"
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

using arithmetic::Add, arithmetic::Sub, arithmetic::Mul, arithmetic::Div, arithmetic::Fma;
using arithmetic::Sqrt, arithmetic::Rcp, arithmetic::Ftz, arithmetic::Sat;

struct Neg {
  static f32 apply(f32 a) { return bits_to<f32>(bits_to<u32>(a) ^ 0x80000000u); }
  static f64 apply(f64 a) { return bits_to<f64>(bits_to<u64>(a) ^ u64{1} << 63); }
};
struct Abs {
  static f32 apply(f32 a) { return bits_to<f32>(bits_to<u32>(a) & 0x7fffffffu); }
  static f64 apply(f64 a) { return bits_to<f64>(bits_to<u64>(a) & ~(u64{1} << 63)); }
};
struct CopySign {  // the sign of a, the magnitude of b
  static f32 apply(f32 a, f32 b) {
    return bits_to<f32>((bits_to<u32>(a) & 0x80000000u) | (bits_to<u32>(b) & 0x7fffffffu));
  }
  static f64 apply(f64 a, f64 b) {
    const u64 sign = u64{1} << 63;
    return bits_to<f64>((bits_to<u64>(a) & sign) | (bits_to<u64>(b) & ~sign));
  }
};

// If one of the two is NaN, the result is the other. -0 is less than +0.
struct Max {
  static f32 apply(f32 a, f32 b) {
    const u32 x = bits_to<u32>(a), y = bits_to<u32>(b);
    u32 r = a > b ? x : y;
    r = a == b ? x & y : r;
    r = b != b ? x : r;
    return bits_to<f32>((a != a) & (b != b) ? kFloatNan : r);
  }
  static f64 apply(f64 a, f64 b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return bits_to<f64>(bits_to<u64>(a) & bits_to<u64>(b));
    return a > b ? a : b;
  }
};
struct Min {
  static f32 apply(f32 a, f32 b) {
    const u32 x = bits_to<u32>(a), y = bits_to<u32>(b);
    u32 r = a < b ? x : y;
    r = a == b ? x | y : r;
    r = b != b ? x : r;
    return bits_to<f32>((a != a) & (b != b) ? kFloatNan : r);
  }
  static f64 apply(f64 a, f64 b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return bits_to<f64>(bits_to<u64>(a) | bits_to<u64>(b));
    return a < b ? a : b;
  }
};
// .NaN: any NaN gives NaN.
template <class F>
struct Nan {
  static f32 apply(f32 a, f32 b) {
    const f32 r = F::apply(a, b);
    return (a != a) | (b != b) ? bits_to<f32>(kFloatNan) : r;
  }
};
// .xorsign.abs: the max or min of the magnitudes, with the product of the signs.
template <class F>
struct XorSign {
  static f32 apply(f32 a, f32 b) {
    const u32 x = bits_to<u32>(a), y = bits_to<u32>(b);
    const f32 r = F::apply(bits_to<f32>(x & 0x7fffffffu), bits_to<f32>(y & 0x7fffffffu));
    const u32 sign = r != r ? 0 : (x ^ y) & 0x80000000u;
    return bits_to<f32>(bits_to<u32>(r) | sign);
  }
};
template <class F>
struct Three {
  static f32 apply(f32 a, f32 b, f32 c) { return F::apply(F::apply(a, b), c); }
};

// testp
enum class Property { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
template <Property kProperty, class T, int kFraction>
void testp(Warp& w, const Op& op) {
  constexpr T kMagnitude = static_cast<T>(~T{0}) >> 1;
  constexpr T kInfinity = kMagnitude >> kFraction << kFraction;
  constexpr T kLeastNormal = T{1} << kFraction;
  const T* a = lanes<T>(w, op.a);
  u32 result = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    const T magnitude = a[i] & kMagnitude;
    bool r = false;
    switch (kProperty) {
      case Property::kFinite:
        r = magnitude < kInfinity;
        break;
      case Property::kInfinite:
        r = magnitude == kInfinity;
        break;
      case Property::kNumber:
        r = magnitude <= kInfinity;
        break;
      case Property::kNotANumber:
        r = magnitude > kInfinity;
        break;
      case Property::kNormal:
        r = magnitude >= kLeastNormal && magnitude < kInfinity;
        break;
      case Property::kSubnormal:
        r = magnitude != 0 && magnitude < kLeastNormal;
        break;
    }
    result |= static_cast<u32>(r) << i;
  }
  mask_of(w, op.dst) = result;
}

#define TESTP(name, property)                                                     \
  {"testp." name ".f32", Bind::kAlu, "pw", testp<Property::property, u32, 23>}, { \
    "testp." name ".f64", Bind::kAlu, "pl", testp<Property::property, u64, 52>    \
  }

// The four forms of an operation that may flush and saturate. `r` is its optional rounding.
#define FTZ_SAT_ROWS(name, r, operands, loop, F)                        \
  {name r ".f32", Bind::kAlu, operands, loop<F, f32>},                  \
      {name r ".ftz.f32", Bind::kAlu, operands, loop<Ftz<F>, f32>},     \
      {name r ".sat.f32", Bind::kAlu, operands, loop<Sat<F>, f32>}, {   \
    name r ".ftz.sat.f32", Bind::kAlu, operands, loop<Sat<Ftz<F>>, f32> \
  }
#define FTZ_ROWS(name, operands, loop, F)                    \
  {name ".f32", Bind::kAlu, operands, loop<F, f32>}, {       \
    name ".ftz.f32", Bind::kAlu, operands, loop<Ftz<F>, f32> \
  }

#define PLAIN_AND_FTZ(name, suffix, operands, loop, ...)                         \
  {name suffix ".f32", Bind::kAlu, operands, loop<__VA_ARGS__, f32>}, {          \
    name ".ftz" suffix ".f32", Bind::kAlu, operands, loop<Ftz<__VA_ARGS__>, f32> \
  }
// Every form of max and min. (With .xorsign before .ftz the signs would be the same.)
#define EXTREMA(name, F)                                                          \
  PLAIN_AND_FTZ(name, "", "www", binary_of, F),                                   \
      PLAIN_AND_FTZ(name, ".NaN", "www", binary_of, Nan<F>),                      \
      PLAIN_AND_FTZ(name, ".xorsign.abs", "www", binary_of, XorSign<F>),          \
      PLAIN_AND_FTZ(name, ".NaN.xorsign.abs", "www", binary_of, XorSign<Nan<F>>), \
      PLAIN_AND_FTZ(name, "", "wwww", ternary_of, Three<F>),                      \
      PLAIN_AND_FTZ(name, ".NaN", "wwww", ternary_of, Three<Nan<F>>)

const Row kRows[] = {
    FTZ_SAT_ROWS("add", "[.rn]", "www", binary_of, Add),
    FTZ_SAT_ROWS("sub", "[.rn]", "www", binary_of, Sub),
    FTZ_SAT_ROWS("mul", "[.rn]", "www", binary_of, Mul),
    FTZ_SAT_ROWS("fma", ".rn", "wwww", ternary_of, Fma),
    FTZ_SAT_ROWS("mad", ".rn", "wwww", ternary_of, Fma),
    EXTREMA("max", Max),
    EXTREMA("min", Min),
    FTZ_ROWS("neg", "ww", unary_of, Neg),
    FTZ_ROWS("abs", "ww", unary_of, Abs),
    FTZ_ROWS("div.rn", "www", binary_of, Div),
    FTZ_ROWS("sqrt.rn", "ww", unary_of, Sqrt),
    FTZ_ROWS("rcp.rn", "ww", unary_of, Rcp),
    {"copysign.f32", Bind::kAlu, "www", binary_of<CopySign, f32>},
    TESTP("finite", kFinite),
    TESTP("infinite", kInfinite),
    TESTP("number", kNumber),
    TESTP("notanumber", kNotANumber),
    TESTP("normal", kNormal),
    TESTP("subnormal", kSubnormal),
    {"add[.rn].f64", Bind::kAlu, "lll", binary_of<Add, f64>},
    {"sub[.rn].f64", Bind::kAlu, "lll", binary_of<Sub, f64>},
    {"mul[.rn].f64", Bind::kAlu, "lll", binary_of<Mul, f64>},
    {"div.rn.f64", Bind::kAlu, "lll", binary_of<Div, f64>},
    {"fma.rn.f64", Bind::kAlu, "llll", ternary_of<Fma, f64>},
    {"mad.rn.f64", Bind::kAlu, "llll", ternary_of<Fma, f64>},
    {"max.f64", Bind::kAlu, "lll", binary_of<Max, f64>},
    {"min.f64", Bind::kAlu, "lll", binary_of<Min, f64>},
    {"neg.f64", Bind::kAlu, "ll", unary_of<Neg, f64>},
    {"abs.f64", Bind::kAlu, "ll", unary_of<Abs, f64>},
    {"sqrt.rn.f64", Bind::kAlu, "ll", unary_of<Sqrt, f64>},
    {"rcp.rn.f64", Bind::kAlu, "ll", unary_of<Rcp, f64>},
    {"copysign.f64", Bind::kAlu, "lll", binary_of<CopySign, f64>},
};

}  // namespace

LSSAR_ROWS(kFloatRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
