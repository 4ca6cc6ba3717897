// Functions that PTX defines as approximations. Each stays within the error bound of the PTX ISA.
// The bits differ from a GPU's and may differ between instruction sets. Warp::approx may ask for
// the worst result within the bound instead.
//
// Polynomials: Chebyshev interpolation of (2^t - 1) / t on [-0.5, 0.5] (relative error of ex2 below
// 2^-23) and of log2(1 + t) / t on [sqrt(0.5) - 1, sqrt(2) - 1].
#include "virtual/ops/approx_bounds.h"
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// One rounding less if the machine has fma. The plain build would call a function for it.
inline f32 madd(f32 a, f32 b, f32 c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

inline f32 power_of_two(s32 exponent) {  // -126 to 127
  return bits_to<f32>(static_cast<u32>(exponent + 127) << 23);
}

template <bool kFtz>
struct Ex2 {
  static f32 apply(f32 x) {
    // Beyond these limits the result is 0 or infinity. A NaN passes through the last line.
    const f32 low = kFtz ? -126.5f : -151.0f;
    const f32 clamped = x < low ? low : (x > 129.0f ? 129.0f : x);
    const f32 shifted = clamped + 0x1.8p23f;
    const f32 t = clamped - (shifted - 0x1.8p23f);
    const s32 n = static_cast<s32>(bits_to<u32>(shifted) - 0x4b400000u);
    f32 p = 0.0001545316292871727f;
    p = madd(p, t, 0.0013390863364672136f);
    p = madd(p, t, 0.009618082557324806f);
    p = madd(p, t, 0.05550357114218999f);
    p = madd(p, t, 0.24022650760567898f);
    p = madd(p, t, 0.693147188026229f);
    p = madd(p, t, 1.0f);
    // Two factors, so that neither is out of range. The second one rounds subnormal results.
    const s32 half = n >> 1;
    f32 r = p * power_of_two(half) * power_of_two(n - half);
    if (kFtz) r = x < -126.0f ? 0.0f : r;
    return x != x ? bits_to<f32>(kFloatNan) : r;
  }
};

template <bool kFtz>
struct Lg2 {
  static f32 apply(f32 x) {
    const bool tiny = x < 0x1p-126f;
    const f32 scaled = !kFtz && tiny ? x * 0x1p24f : x;
    const u32 bits = bits_to<u32>(scaled);
    // The exponent that leaves a mantissa in [sqrt(0.5), sqrt(2)).
    const s32 e = static_cast<s32>(bits - 0x3f3504f3u) >> 23;
    const f32 t = bits_to<f32>(bits - (static_cast<u32>(e) << 23)) - 1.0f;
    f32 p = 0.12310968532821982f;
    p = madd(p, t, -0.2058618807282278f);
    p = madd(p, t, 0.21607822539217278f);
    p = madd(p, t, -0.23916988136803918f);
    p = madd(p, t, 0.28790326093359514f);
    p = madd(p, t, -0.36069326813662617f);
    p = madd(p, t, 0.48091075345917855f);
    p = madd(p, t, -0.7213474682495548f);
    p = madd(p, t, 1.4426950035679837f);
    const f32 exponent = static_cast<f32>(e) - (!kFtz && tiny ? 24.0f : 0.0f);
    f32 r = madd(p, t, exponent);
    const bool zero = kFtz ? (bits_to<u32>(x) & 0x7f800000u) == 0 : x == 0.0f;
    r = x == __builtin_inff() ? x : r;
    r = x < 0.0f || x != x ? bits_to<f32>(kFloatNan) : r;
    return zero ? -__builtin_inff() : r;
  }
};

struct Rcp {
  static f32 apply(f32 x) { return 1.0f / x; }
};
struct Sqrt {
  static f32 apply(f32 x) { return __builtin_sqrtf(x); }
};
struct Rsqrt {
  static f32 apply(f32 x) { return 1.0f / __builtin_sqrtf(x); }
};
struct RsqrtDouble {
  static f64 apply(f64 x) { return 1.0 / __builtin_sqrt(x); }
};
// From the upper half of a double to the upper half of a double. Subnormals count as zeros.
template <bool kRoot>
struct GrossDouble {
  static f64 apply(f64 x) {
    const u64 upper = 0xffffffff00000000u;
    u64 bits = bits_to<u64>(x) & upper;
    if ((bits & 0x7ff0000000000000u) == 0) bits &= u64{1} << 63;
    const f64 a = bits_to<f64>(bits);
    const f64 r = 1.0 / (kRoot ? __builtin_sqrt(a) : a);
    if (x != x || r != r) return bits_to<f64>(u64{0x7fffffff00000000u});
    bits = bits_to<u64>(r) & upper;
    if ((bits & 0x7ff0000000000000u) == 0) bits &= u64{1} << 63;
    return bits_to<f64>(bits);
  }
};
struct Sin {
  static f32 apply(f32 x) { return sinf(x); }
};
struct Cos {
  static f32 apply(f32 x) { return cosf(x); }
};
struct Div {
  static f32 apply(f32 a, f32 b) { return a / b; }
};
// |b| above 2^126 makes the approximate reciprocal 0.
struct DivApprox {
  static f32 apply(f32 a, f32 b) {
    const f32 magnitude = __builtin_fabsf(b);
    const bool huge = magnitude > 0x1p126f && magnitude < __builtin_inff();
    return huge ? a * (b > 0 ? 0.0f : -0.0f) : a / b;
  }
};
template <class F>
struct Flushed {
  static f32 apply(f32 x) { return flush(F::apply(flush(x))); }
  static f32 apply(f32 a, f32 b) { return flush(F::apply(flush(a), flush(b))); }
};

struct Tanh {
  static f32 apply(f32 x) {
    const f32 magnitude = __builtin_fabsf(x);
    const f32 square = x * x;
    // A series for small arguments, because the quotient would cancel.
    f32 series = -17.0f / 315.0f;
    series = madd(series, square, 2.0f / 15.0f);
    series = madd(series, square, -1.0f / 3.0f);
    series = madd(series, square, 1.0f) * magnitude;
    const f32 clamped = magnitude > 20.0f ? 20.0f : magnitude;
    const f32 e = Ex2<true>::apply(clamped * 2.8853900817779268f);  // 2 / ln 2
    const f32 quotient = 1.0f - 2.0f / (e + 1.0f);
    const f32 r = magnitude < 0.4f ? series : quotient;
    const u32 sign = bits_to<u32>(x) & 0x80000000u;
    return x != x ? bits_to<f32>(kFloatNan) : bits_to<f32>(bits_to<u32>(r) | sign);
  }
};

// f16 and bf16 forms go through float.
template <class F, class T>
struct Half {
  static T apply(T x) { return round_to<T>(F::apply(to_float(x))); }
};
template <class F, class T>
struct Pair {
  static u32 apply(u32 x) {
    const T low = Half<F, T>::apply(T{static_cast<u16>(x)});
    const T high = Half<F, T>::apply(T{static_cast<u16>(x >> 16)});
    return static_cast<u32>(high.bits) << 16 | low.bits;
  }
};

inline f32 argument(f32 x) { return x; }
template <class T>
inline f32 argument(T x) {
  return to_float(x);
}

template <class F, class Bound, class T>
inline T worst_of(const Warp& w, T x) {
  return extreme<T>(Bound::of(argument(x)), F::apply(x), takes_highest(w.approx, bits_of(x)),
                    Bound::kFtz);
}
template <class F, class Bound, class T>
__attribute__((noinline)) void worst(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.dst);
  const T* a = lanes<T>(w, op.a);
  for (u32 i = 0; i < kLanes; ++i) d[i] = worst_of<F, Bound, T>(w, a[i]);
}
template <class F, class Bound, class T>
__attribute__((noinline)) void worst_pair(Warp& w, const Op& op) {
  u32* d = lanes<u32>(w, op.dst);
  const u32* a = lanes<u32>(w, op.a);
  for (u32 i = 0; i < kLanes; ++i) {
    const T low = worst_of<Half<F, T>, Bound, T>(w, T{static_cast<u16>(a[i])});
    const T high = worst_of<Half<F, T>, Bound, T>(w, T{static_cast<u16>(a[i] >> 16)});
    d[i] = static_cast<u32>(high.bits) << 16 | low.bits;
  }
}
template <class F, class Bound>
__attribute__((noinline)) void worst_quotient(Warp& w, const Op& op) {
  f32* d = lanes<f32>(w, op.dst);
  const f32* a = lanes<f32>(w, op.a);
  const f32* b = lanes<f32>(w, op.b);
  for (u32 i = 0; i < kLanes; ++i) {
    const bool highest = takes_highest(w.approx, bits_of(a[i]) ^ bits_of(b[i]) * 0x9e3779b9u);
    d[i] = extreme<f32>(Bound::of(a[i], b[i]), F::apply(a[i], b[i]), highest, Bound::kFtz);
  }
}

template <class F, class Bound>
void single(Warp& w, const Op& op) {
  if (w.approx != ApproxMode::kNearest) return worst<F, Bound, f32>(w, op);
  unary<F, f32, f32>(w, op);
}
template <class F, class Bound, class T>
void half(Warp& w, const Op& op) {
  if (w.approx != ApproxMode::kNearest) return worst<Half<F, T>, Bound, T>(w, op);
  unary<Half<F, T>, T, T>(w, op);
}
template <class F, class Bound, class T>
void pair(Warp& w, const Op& op) {
  if (w.approx != ApproxMode::kNearest) return worst_pair<F, Bound, T>(w, op);
  unary<Pair<F, T>, u32, u32>(w, op);
}
template <class F, class Bound>
void quotient(Warp& w, const Op& op) {
  if (w.approx != ApproxMode::kNearest) return worst_quotient<F, Bound>(w, op);
  binary<F, f32, f32, f32>(w, op);
}

const Row kRows[] = {
    {"ex2.approx.f32", Bind::kAlu, "ww", single<Ex2<false>, Ex2Bound<false>>},
    {"ex2.approx.ftz.f32", Bind::kAlu, "ww", single<Ex2<true>, Ex2Bound<true>>},
    {"ex2.approx.f16", Bind::kAlu, "hh", half<Ex2<false>, Ex2HalfBound<f16>, f16>},
    {"ex2.approx.f16x2", Bind::kAlu, "ww", pair<Ex2<false>, Ex2HalfBound<f16>, f16>},
    {"ex2.approx.ftz.bf16", Bind::kAlu, "hh", half<Ex2<true>, Ex2HalfBound<bf16>, bf16>},
    {"ex2.approx.ftz.bf16x2", Bind::kAlu, "ww", pair<Ex2<true>, Ex2HalfBound<bf16>, bf16>},
    {"lg2.approx.f32", Bind::kAlu, "ww", single<Lg2<false>, Lg2Bound<false>>},
    {"lg2.approx.ftz.f32", Bind::kAlu, "ww", single<Lg2<true>, Lg2Bound<true>>},
    {"rcp.approx.f32", Bind::kAlu, "ww", single<Rcp, RcpBound<false>>},
    {"rcp.approx.ftz.f32", Bind::kAlu, "ww", single<Flushed<Rcp>, RcpBound<true>>},
    {"sqrt.approx.f32", Bind::kAlu, "ww", single<Sqrt, SqrtBound<false>>},
    {"sqrt.approx.ftz.f32", Bind::kAlu, "ww", single<Flushed<Sqrt>, SqrtBound<true>>},
    {"rsqrt.approx.f32", Bind::kAlu, "ww", single<Rsqrt, RsqrtBound<false>>},
    {"rsqrt.approx.ftz.f32", Bind::kAlu, "ww", single<Flushed<Rsqrt>, RsqrtBound<true>>},
    {"rsqrt.approx.f64", Bind::kAlu, "ll", unary_of<RsqrtDouble, f64>},
    {"rsqrt.approx.ftz.f64", Bind::kAlu, "ll", unary_of<GrossDouble<true>, f64>},
    {"rcp.approx.ftz.f64", Bind::kAlu, "ll", unary_of<GrossDouble<false>, f64>},
    {"sin.approx.f32", Bind::kAlu, "ww", single<Sin, CircularBound<false, true>>},
    {"sin.approx.ftz.f32", Bind::kAlu, "ww", single<Flushed<Sin>, CircularBound<true, true>>},
    {"cos.approx.f32", Bind::kAlu, "ww", single<Cos, CircularBound<false, false>>},
    {"cos.approx.ftz.f32", Bind::kAlu, "ww", single<Flushed<Cos>, CircularBound<true, false>>},
    {"tanh.approx.f32", Bind::kAlu, "ww", single<Tanh, TanhBound>},
    {"tanh.approx.f16", Bind::kAlu, "hh", half<Tanh, TanhHalfBound<f16>, f16>},
    {"tanh.approx.f16x2", Bind::kAlu, "ww", pair<Tanh, TanhHalfBound<f16>, f16>},
    {"tanh.approx.bf16", Bind::kAlu, "hh", half<Tanh, TanhHalfBound<bf16>, bf16>},
    {"tanh.approx.bf16x2", Bind::kAlu, "ww", pair<Tanh, TanhHalfBound<bf16>, bf16>},
    {"div.approx.f32", Bind::kAlu, "www", quotient<DivApprox, DivBound<false, false>>},
    {"div.approx.ftz.f32", Bind::kAlu, "www", quotient<Flushed<DivApprox>, DivBound<true, false>>},
    {"div.full.f32", Bind::kAlu, "www", quotient<Div, DivBound<false, true>>},
    {"div.full.ftz.f32", Bind::kAlu, "www", quotient<Flushed<Div>, DivBound<true, true>>},
};

}  // namespace

LSSAR_ROWS(kApproxRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
