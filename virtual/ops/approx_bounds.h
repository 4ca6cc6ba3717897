// The worst that an .approx function may return: the largest and the smallest value within the
// error bound of the PTX ISA. approx_ops.cpp uses it where a test asks for it; speed does not
// matter here.
#pragma once

#include "virtual/state/registers.h"

namespace lssar::vdev::LSSAR_SIMD {

// The results that are allowed. Empty (low > high): the result is exact, or has no documented
// bound.
struct Interval {
  f64 low;
  f64 high;
};
inline constexpr Interval kExact = {1, 0};

// `exact` may be off by a double's last place. The bounds are so much wider that this does not
// matter.
inline Interval within_absolute(f64 exact, f64 error) { return {exact - error, exact + error}; }
inline Interval within_relative(f64 exact, f64 error) {
  return within_absolute(exact, __builtin_fabs(exact) * error);
}

inline f64 value_of(f32 x) { return x; }
inline f64 value_of(f16 x) { return to_float(x); }
inline f64 value_of(bf16 x) { return to_float(x); }
inline u32 bits_of(f32 x) { return bits_to<u32>(x); }
inline u32 bits_of(f16 x) { return x.bits; }
inline u32 bits_of(bf16 x) { return x.bits; }
template <class T>
inline T nearest_to(f64 x) {
  return round_to<T>(static_cast<f32>(x));
}
template <>
inline f32 nearest_to<f32>(f64 x) {
  return static_cast<f32>(x);
}
template <class T>
inline T from_bits(u32 bits) {
  return {static_cast<u16>(bits)};
}
template <>
inline f32 from_bits<f32>(u32 bits) {
  return bits_to<f32>(bits);
}

template <class T>
inline constexpr u32 kSignBit = 0x8000u;
template <>
inline constexpr u32 kSignBit<f32> = 0x80000000u;
template <class T>
inline constexpr u32 kInfinityBits = 0x7c00u;
template <>
inline constexpr u32 kInfinityBits<bf16> = 0x7f80u;
template <>
inline constexpr u32 kInfinityBits<f32> = 0x7f800000u;
template <class T>
inline constexpr u32 kLeastNormalBits = 0x0400u;
template <>
inline constexpr u32 kLeastNormalBits<bf16> = 0x0080u;
template <>
inline constexpr u32 kLeastNormalBits<f32> = 0x00800000u;

// The next number above or below a finite one.
template <class T>
inline T neighbour(T x, bool above) {
  const u32 bits = bits_of(x);
  const bool negative = (bits & kSignBit<T>) != 0;
  if ((bits & ~kSignBit<T>) == 0) return from_bits<T>(above ? 1 : kSignBit<T> | 1);
  return from_bits<T>(negative != above ? bits + 1 : bits - 1);
}
template <class T>
inline bool is_finite(T x) {
  return (bits_of(x) & ~kSignBit<T>) < kInfinityBits<T>;
}

// Numbers up to `count` units in the last place from the correctly rounded result.
inline Interval within_ulps(f32 rounded, int count) {
  if (!is_finite(rounded) || rounded == 0) return kExact;
  f32 low = rounded, high = rounded;
  for (int i = 0; i < count; ++i) {
    low = neighbour(low, false);
    if (is_finite(neighbour(high, true))) high = neighbour(high, true);
    if (!is_finite(low)) low = neighbour(low, true);
  }
  return {low, high};
}

// The largest or the smallest number of the format within the interval. `nearest` if there is none,
// or if it would be flushed.
template <class T>
inline T extreme(Interval in, T nearest, bool highest, bool ftz) {
  if (!(in.low <= in.high)) return nearest;
  const f64 limit = highest ? in.high : in.low;
  T x = nearest_to<T>(limit);
  if (!is_finite(x)) x = from_bits<T>((bits_of(x) & kSignBit<T>) | (kInfinityBits<T> - 1));
  while (highest ? value_of(x) > limit : value_of(x) < limit) x = neighbour(x, !highest);
  if (value_of(x) < in.low || value_of(x) > in.high) return nearest;
  const bool subnormal = (bits_of(x) & ~kSignBit<T>) < kLeastNormalBits<T>;
  return ftz && subnormal ? nearest : x;
}

// Whether the mode takes the highest value for an argument with these bits.
inline bool takes_highest(ApproxMode mode, u32 bits) {
  if (mode != ApproxMode::kRandom) return mode == ApproxMode::kHighest;
  bits = (bits ^ (bits >> 16)) * 0x85ebca6bu;
  bits = (bits ^ (bits >> 13)) * 0xc2b2ae35u;
  return (bits >> 16) & 1;
}

// Bounds, one class per function: of(arguments).
inline bool positive_finite(f32 x) { return x > 0 && x < __builtin_inff(); }
inline f32 flush_if(bool ftz, f32 x) { return ftz ? flush(x) : x; }

template <bool kFlush>
struct Ex2Bound {
  static constexpr bool kFtz = kFlush;
  static Interval of(f32 x) {
    x = flush_if(kFlush, x);
    if (x == 0) return kExact;
    return within_ulps(static_cast<f32>(__builtin_exp2(x)), 2);
  }
};
template <bool kFlush>
struct Lg2Bound {
  static constexpr bool kFtz = kFlush;
  static Interval of(f32 x) {
    x = flush_if(kFlush, x);
    if (!positive_finite(x)) return kExact;
    const f64 exact = __builtin_log2(x);
    return x > 0.5f && x < 2.0f ? within_absolute(exact, 0x1p-22) : within_relative(exact, 0x1p-22);
  }
};
template <bool kFlush>
struct RcpBound {
  static constexpr bool kFtz = kFlush;
  static Interval of(f32 x) { return within_ulps(1.0f / flush_if(kFlush, x), 1); }
};
template <bool kFlush>
struct SqrtBound {
  static constexpr bool kFtz = kFlush;
  static Interval of(f32 x) {
    x = flush_if(kFlush, x);
    return positive_finite(x) ? within_relative(__builtin_sqrt(x), 0x1p-23) : kExact;
  }
};
template <bool kFlush>
struct RsqrtBound {
  static constexpr bool kFtz = kFlush;
  static Interval of(f32 x) {
    x = flush_if(kFlush, x);
    if (!positive_finite(x)) return kExact;
    return within_relative(1.0 / __builtin_sqrt(x), 1.0717734625362931 * 0x1p-23);  // 2^-22.9
  }
};
template <bool kFlush, bool kSine>
struct CircularBound {
  static constexpr bool kFtz = kFlush;
  static Interval of(f32 x) {
    x = flush_if(kFlush, x);
    const f64 pi = 3.14159265358979323846;
    const f64 magnitude = __builtin_fabs(static_cast<f64>(x));
    if (x == 0 || !(magnitude <= 100 * pi)) return kExact;
    const f64 near = 1.4142135623730951 * 0x1p-21;  // 2^-20.5
    const f64 far = 1.2311444133449163 * 0x1p-15;   // 2^-14.7
    return within_absolute(kSine ? __builtin_sin(x) : __builtin_cos(x),
                           magnitude <= 2 * pi ? near : far);
  }
};
struct TanhBound {  // subnormal arguments are their own result
  static constexpr bool kFtz = false;
  static Interval of(f32 x) {
    if (flush(x) == 0 || !is_finite(x)) return kExact;
    return within_relative(__builtin_tanh(x), 0x1p-11);
  }
};
// of: 2^-10.987 in f16, 2^-8 in bf16.
template <class T>
struct TanhHalfBound {
  static constexpr bool kFtz = false;
  static Interval of(f32 x) {
    if (x == 0 || !is_finite(x)) return kExact;
    const bool half = kInfinityBits<T> == kInfinityBits<f16>;
    return within_absolute(__builtin_tanh(x), half ? 1.0090516338446813 * 0x1p-11 : 0x1p-8);
  }
};
// of: 2^-9.9 in f16, 2^-7 in bf16, which is flushed.
template <class T>
struct Ex2HalfBound {
  static constexpr bool kFtz = kInfinityBits<T> == kInfinityBits<bf16>;
  static Interval of(f32 x) {
    x = flush_if(kFtz, x);
    const f64 exact = __builtin_exp2(x);
    if (x == 0 || !is_finite(x) || !is_finite(nearest_to<T>(exact))) return kExact;
    return within_relative(exact, kFtz ? 0x1p-7 : 1.0717734625362931 * 0x1p-10);
  }
};
template <bool kFlush, bool kFullRange>
struct DivBound {
  static constexpr bool kFtz = kFlush;
  static Interval of(f32 a, f32 b) {
    a = flush_if(kFlush, a);
    b = flush_if(kFlush, b);
    const f32 magnitude = __builtin_fabsf(b);
    if (!kFullRange && !(magnitude >= 0x1p-126f && magnitude <= 0x1p126f)) return kExact;
    return within_ulps(a / b, 2);
  }
};

}  // namespace lssar::vdev::LSSAR_SIMD
