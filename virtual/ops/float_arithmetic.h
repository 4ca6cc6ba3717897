// Float arithmetic on scalars, for loops over lanes. The machine's control word decides the
// rounding.
#pragma once

#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD::arithmetic {

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

// .ftz: subnormal operands and results become zeros.
template <class F>
struct Ftz {
  static f32 apply(f32 a) { return flush(F::apply(flush(a))); }
  static f32 apply(f32 a, f32 b) { return flush(F::apply(flush(a), flush(b))); }
  static f32 apply(f32 a, f32 b, f32 c) { return flush(F::apply(flush(a), flush(b), flush(c))); }
};
// .sat: results are clamped to [0, 1].
template <class F>
struct Sat {
  static f32 apply(f32 a, f32 b) { return saturate(F::apply(a, b)); }
  static f32 apply(f32 a, f32 b, f32 c) { return saturate(F::apply(a, b, c)); }
};

}  // namespace lssar::vdev::LSSAR_SIMD::arithmetic
