// Single and double precision arithmetic, rounded to nearest even.
#include "runtime/virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    return a / b;
  }
};
// |b| above 2^126 makes the approximate reciprocal 0.
struct DivApprox {
  static f32 apply(f32 a, f32 b) {
    const f32 magnitude = __builtin_fabsf(b);
    const bool huge = magnitude > 0x1p126f && magnitude < __builtin_inff();
    return huge ? a * (b > 0 ? 0.0f : -0.0f) : a / b;
  }
};
struct Fma {
  static f32 apply(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
  static f64 apply(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
};
struct Sqrt {
  static f32 apply(f32 a) { return __builtin_sqrtf(a); }
  static f64 apply(f64 a) { return __builtin_sqrt(a); }
};
struct Rcp {
  template <class T>
  static T apply(T a) {
    return T{1} / a;
  }
};
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

// Of a number and a NaN, the number; -0 is less than +0.
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
template <class F>
struct Three {
  static f32 apply(f32 a, f32 b, f32 c) { return F::apply(F::apply(a, b), c); }
};

template <class F>
struct Ftz {
  static f32 apply(f32 a) { return flush(F::apply(flush(a))); }
  static f32 apply(f32 a, f32 b) { return flush(F::apply(flush(a), flush(b))); }
  static f32 apply(f32 a, f32 b, f32 c) { return flush(F::apply(flush(a), flush(b), flush(c))); }
};
template <class F>
struct Sat {
  static f32 apply(f32 a, f32 b) { return saturate(F::apply(a, b)); }
  static f32 apply(f32 a, f32 b, f32 c) { return saturate(F::apply(a, b, c)); }
};

// testp
enum class Property { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
template <Property kProperty>
void testp(Warp& w, const Op& op) {
  const u32* a = lanes<u32>(w, op.a);
  u32 result = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    const u32 magnitude = a[i] & 0x7fffffffu;
    bool r = false;
    switch (kProperty) {
      case Property::kFinite:
        r = magnitude < 0x7f800000u;
        break;
      case Property::kInfinite:
        r = magnitude == 0x7f800000u;
        break;
      case Property::kNumber:
        r = magnitude <= 0x7f800000u;
        break;
      case Property::kNotANumber:
        r = magnitude > 0x7f800000u;
        break;
      case Property::kNormal:
        r = magnitude >= 0x00800000u && magnitude < 0x7f800000u;
        break;
      case Property::kSubnormal:
        r = magnitude != 0 && magnitude < 0x00800000u;
        break;
    }
    result |= static_cast<u32>(r) << i;
  }
  mask_of(w, op.dst) = result;
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

const Row kRows[] = {
    FTZ_SAT_ROWS("add", "[.rn]", "www", binary_of, Add),
    FTZ_SAT_ROWS("sub", "[.rn]", "www", binary_of, Sub),
    FTZ_SAT_ROWS("mul", "[.rn]", "www", binary_of, Mul),
    FTZ_SAT_ROWS("fma", ".rn", "wwww", ternary_of, Fma),
    FTZ_SAT_ROWS("mad", ".rn", "wwww", ternary_of, Fma),
    FTZ_ROWS("max", "www", binary_of, Max),
    FTZ_ROWS("min", "www", binary_of, Min),
    FTZ_ROWS("max", "wwww", ternary_of, Three<Max>),
    FTZ_ROWS("min", "wwww", ternary_of, Three<Min>),
    {"max.NaN.f32", Bind::kAlu, "www", binary_of<Nan<Max>, f32>},
    {"min.NaN.f32", Bind::kAlu, "www", binary_of<Nan<Min>, f32>},
    {"max.ftz.NaN.f32", Bind::kAlu, "www", binary_of<Ftz<Nan<Max>>, f32>},
    {"min.ftz.NaN.f32", Bind::kAlu, "www", binary_of<Ftz<Nan<Min>>, f32>},
    FTZ_ROWS("neg", "ww", unary_of, Neg),
    FTZ_ROWS("abs", "ww", unary_of, Abs),
    FTZ_ROWS("div.(rn|full)", "www", binary_of, Div),
    FTZ_ROWS("div.approx", "www", binary_of, DivApprox),
    FTZ_ROWS("sqrt.(rn|approx)", "ww", unary_of, Sqrt),
    FTZ_ROWS("rcp.(rn|approx)", "ww", unary_of, Rcp),
    {"copysign.f32", Bind::kAlu, "www", binary_of<CopySign, f32>},
    {"testp.finite.f32", Bind::kAlu, "pw", testp<Property::kFinite>},
    {"testp.infinite.f32", Bind::kAlu, "pw", testp<Property::kInfinite>},
    {"testp.number.f32", Bind::kAlu, "pw", testp<Property::kNumber>},
    {"testp.notanumber.f32", Bind::kAlu, "pw", testp<Property::kNotANumber>},
    {"testp.normal.f32", Bind::kAlu, "pw", testp<Property::kNormal>},
    {"testp.subnormal.f32", Bind::kAlu, "pw", testp<Property::kSubnormal>},
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
