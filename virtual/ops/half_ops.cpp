// f16, bf16 and their pairs in one 32-bit register.
//
// Sums and products are computed in float and rounded once more. A float has more than twice the
// bits of either format, so this equals rounding once. A fused multiply-add is computed in double,
// with the last bit set if digits were lost ("round to odd"), for the same reason.
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// Rounds d to a float so that rounding it again to 8 or 11 bits equals rounding the exact value.
inline f32 double_to_odd_float(f64 d) {
  const f32 f = static_cast<f32>(d);
  const u32 bits = bits_to<u32>(f);
  if (static_cast<f64>(f) == d || f != f || (bits & 0x7fffffffu) >= 0x7f800000u) return f;
  if (bits & 1) return f;
  // Even and inexact: takes the odd neighbour on the side of d.
  const bool away = __builtin_fabs(d) > __builtin_fabs(static_cast<f64>(f));
  return bits_to<f32>(away ? bits + 1 : bits - 1);
}
inline f64 fma_to_odd(f64 a, f64 b, f64 c) {
  const f64 product = a * b;  // exact: 22 bits
  const f64 sum = product + c;
  const f64 part = sum - product;
  const f64 lost = (product - (sum - part)) + (c - part);
  const u64 bits = bits_to<u64>(sum);
  if (!(lost != 0) || (bits & 1) || __builtin_fabs(sum) >= __builtin_inf()) return sum;
  return bits_to<f64>((lost > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return round_to<T>(to_float(a) + to_float(b));
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return round_to<T>(to_float(a) - to_float(b));
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    return round_to<T>(to_float(a) * to_float(b));
  }
};
struct Fma {
  template <class T>
  static T apply(T a, T b, T c) {
    return round_to<T>(double_to_odd_float(fma_to_odd(to_float(a), to_float(b), to_float(c))));
  }
};
template <class T>
inline bool is_nan(T x) {
  return to_float(x) != to_float(x);
}
template <class T>
inline bool less(T a, T b) {  // -0 < +0
  const f32 x = to_float(a), y = to_float(b);
  return x < y || (x == y && (a.bits & 0x8000) > (b.bits & 0x8000));
}
struct Max {
  template <class T>
  static T apply(T a, T b) {
    if (is_nan(a)) return is_nan(b) ? T{kHalfNan} : b;
    return is_nan(b) || less(b, a) ? a : b;
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    if (is_nan(a)) return is_nan(b) ? T{kHalfNan} : b;
    return is_nan(b) || less(a, b) ? a : b;
  }
};
template <class F>
struct Nan {
  template <class T>
  static T apply(T a, T b) {
    return is_nan(a) || is_nan(b) ? T{kHalfNan} : F::apply(a, b);
  }
};
// .xorsign.abs: the max or min of the magnitudes, with the product of the signs.
template <class F>
struct XorSign {
  template <class T>
  static T apply(T a, T b) {
    const T r =
        F::apply(T{static_cast<u16>(a.bits & 0x7fff)}, T{static_cast<u16>(b.bits & 0x7fff)});
    return is_nan(r) ? r : T{static_cast<u16>(r.bits | ((a.bits ^ b.bits) & 0x8000))};
  }
};
template <class F>
struct Sat {
  template <class T>
  static T apply(T a, T b) {
    return round_to<T>(saturate(to_float(F::apply(a, b))));
  }
  template <class T>
  static T apply(T a, T b, T c) {
    return round_to<T>(saturate(to_float(F::apply(a, b, c))));
  }
};
template <class F>
struct Relu {
  template <class T>
  static T apply(T a, T b, T c) {
    const T r = F::apply(a, b, c);
    return is_nan(r) ? T{kHalfNan} : (r.bits & 0x8000) ? T{0} : r;
  }
};
struct Neg {
  template <class T>
  static T apply(T a) {
    return {static_cast<u16>(a.bits ^ 0x8000)};
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    return {static_cast<u16>(a.bits & 0x7fff)};
  }
};
template <class F>
struct Ftz {
  static f16 flush_half(f16 x) {
    return {static_cast<u16>((x.bits & 0x7c00) == 0 ? x.bits & 0x8000 : x.bits)};
  }
  static f16 apply(f16 a) { return flush_half(F::apply(flush_half(a))); }
  static f16 apply(f16 a, f16 b) { return flush_half(F::apply(flush_half(a), flush_half(b))); }
  static f16 apply(f16 a, f16 b, f16 c) {
    return flush_half(F::apply(flush_half(a), flush_half(b), flush_half(c)));
  }
};

// Both halves of a register.
template <class F, class T>
struct Pair {
  template <class... Args>
  static u32 apply(Args... args) {
    const T low = F::apply(T{static_cast<u16>(args)}...);
    const T high = F::apply(T{static_cast<u16>(args >> 16)}...);
    return static_cast<u32>(high.bits) << 16 | low.bits;
  }
};

#define HALF_ROWS(name, type, h, w, loop, F, T)              \
  {name "." type, Bind::kAlu, h, loop<F, T>}, {              \
    name "." type "x2", Bind::kAlu, w, loop<Pair<F, T>, u32> \
  }
#define BOTH_ROWS(name, h, w, loop, F)                                                      \
  HALF_ROWS(name, "f16", h, w, loop, F, f16), HALF_ROWS(name, "bf16", h, w, loop, F, bf16), \
      HALF_ROWS(name ".ftz", "f16", h, w, loop, Ftz<F>, f16)

#define SAT_ROWS(name, h, w, loop, F)                     \
  HALF_ROWS(name ".sat", "f16", h, w, loop, Sat<F>, f16), \
      HALF_ROWS(name ".ftz.sat", "f16", h, w, loop, Sat<Ftz<F>>, f16)
#define EXTREMUM(name, suffix, ...)                                               \
  HALF_ROWS(name suffix, "f16", "hhh", "www", binary_of, __VA_ARGS__, f16),       \
      HALF_ROWS(name suffix, "bf16", "hhh", "www", binary_of, __VA_ARGS__, bf16), \
      HALF_ROWS(name ".ftz" suffix, "f16", "hhh", "www", binary_of, Ftz<__VA_ARGS__>, f16)
#define EXTREMA(name, F)                                 \
  EXTREMUM(name, "", F), EXTREMUM(name, ".NaN", Nan<F>), \
      EXTREMUM(name, ".xorsign.abs", XorSign<F>),        \
      EXTREMUM(name, ".NaN.xorsign.abs", XorSign<Nan<F>>)

const Row kRows[] = {
    BOTH_ROWS("add[.rn]", "hhh", "www", binary_of, Add),
    BOTH_ROWS("sub[.rn]", "hhh", "www", binary_of, Sub),
    BOTH_ROWS("mul[.rn]", "hhh", "www", binary_of, Mul),
    BOTH_ROWS("fma.rn", "hhhh", "wwww", ternary_of, Fma),
    SAT_ROWS("add[.rn]", "hhh", "www", binary_of, Add),
    SAT_ROWS("sub[.rn]", "hhh", "www", binary_of, Sub),
    SAT_ROWS("mul[.rn]", "hhh", "www", binary_of, Mul),
    SAT_ROWS("fma.rn", "hhhh", "wwww", ternary_of, Fma),
    HALF_ROWS("fma.rn.relu", "f16", "hhhh", "wwww", ternary_of, Relu<Fma>, f16),
    HALF_ROWS("fma.rn.ftz.relu", "f16", "hhhh", "wwww", ternary_of, Ftz<Relu<Fma>>, f16),
    HALF_ROWS("fma.rn.relu", "bf16", "hhhh", "wwww", ternary_of, Relu<Fma>, bf16),
    EXTREMA("max", Max),
    EXTREMA("min", Min),
    BOTH_ROWS("neg", "hh", "ww", unary_of, Neg),
    BOTH_ROWS("abs", "hh", "ww", unary_of, Abs),
};

}  // namespace

LSSAR_ROWS(kHalfRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
