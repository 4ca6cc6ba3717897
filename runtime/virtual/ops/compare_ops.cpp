// setp and set: comparisons, with the boolean that may be combined in.
#include "runtime/virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// Ordered comparisons are false where an operand is NaN; those named Unordered are true.
struct Eq {
  template <class T>
  static bool apply(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <class T>
  static bool apply(T a, T b) {
    return (a < b) | (a > b);
  }
};
struct Lt {
  template <class T>
  static bool apply(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  static bool apply(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <class T>
  static bool apply(T a, T b) {
    return a >= b;
  }
};
template <class F>
struct Negated {
  template <class T>
  static bool apply(T a, T b) {
    return !F::apply(a, b);
  }
};
using EqUnordered = Negated<Ne>;
using NeUnordered = Negated<Eq>;
using LtUnordered = Negated<Ge>;
using LeUnordered = Negated<Gt>;
using GtUnordered = Negated<Le>;
using GeUnordered = Negated<Lt>;
struct Num {
  template <class T>
  static bool apply(T a, T b) {
    return (a == a) & (b == b);
  }
};
using IsNan = Negated<Num>;

template <class T>
struct As {
  static T load(T x) { return x; }
};
template <>
struct As<f16> {
  static f32 load(f16 x) { return to_float(x); }
};
template <>
struct As<bf16> {
  static f32 load(bf16 x) { return to_float(x); }
};
struct Flushed {  // .ftz.f32
  f32 value;
};
template <>
struct As<Flushed> {
  static f32 load(Flushed x) { return flush(x.value); }
};

template <class F, class T>
inline u32 compare_lanes(const T* a, const T* b) {
  u32 result = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    result |= static_cast<u32>(F::apply(As<T>::load(a[i]), As<T>::load(b[i]))) << i;
  }
  return result;
}

inline u32 combine(u32 a, u32 b, Combine how) {
  switch (how) {
    case Combine::kAnd:
      return a & b;
    case Combine::kOr:
      return a | b;
    case Combine::kXor:
      return a ^ b;
    default:
      return a;
  }
}

// p = compare combined with c; q, if there is one, the complement combined with c.
template <class F, class T>
void setp(Warp& w, const Op& op) {
  const u32 result = compare_lanes<F, T>(lanes<T>(w, op.a), lanes<T>(w, op.b));
  const Combine how = static_cast<Combine>(op.flags & kOpFlagsMask);
  u32 c = 0;
  if (how != Combine::kNone) c = mask_of(w, op.c) ^ (op.flags & kOpNegated ? kAllLanes : 0);
  const u32 second = static_cast<u32>(op.imm);
  if (second != kNoRegister) store_mask(w, second, combine(~result, c, how));
  if (op.dst != kNoRegister) store_mask(w, op.dst, combine(result, c, how));
}

// 1.0 or all ones where true.
template <class F, class T, u32 kTrue>
void set(Warp& w, const Op& op) {
  u32* d = lanes<u32>(w, op.dst);
  const T* a = lanes<T>(w, op.a);
  const T* b = lanes<T>(w, op.b);
  LSSAR_LANES d[i] = F::apply(As<T>::load(a[i]), As<T>::load(b[i])) ? kTrue : 0;
}

#define COMPARE(name, F, types, shape, T) \
  { "setp." name "[.and|.or|.xor]." types, Bind::kSetp, shape, setp<F, T> }
#define SET(name, F, types, T)                                                    \
  {"set." name ".(u32|s32)." types, Bind::kAlu, "www", set<F, T, 0xffffffffu>}, { \
    "set." name ".f32." types, Bind::kAlu, "www", set<F, T, 0x3f800000u>          \
  }
#define ORDERED_INTEGER(name, F)                                                \
  COMPARE(name, F, "s16", "phh", s16), COMPARE(name, F, "s32", "pww", s32),     \
      COMPARE(name, F, "s64", "pll", s64), COMPARE(name, F, "u16", "phh", u16), \
      COMPARE(name, F, "u32", "pww", u32), COMPARE(name, F, "u64", "pll", u64), \
      SET(name, F, "s32", s32), SET(name, F, "u32", u32)
#define UNSIGNED_ALIAS(name, F)                                             \
  COMPARE(name, F, "u16", "phh", u16), COMPARE(name, F, "u32", "pww", u32), \
      COMPARE(name, F, "u64", "pll", u64), SET(name, F, "u32", u32)
#define EQUALITY(name, F)                                                                       \
  COMPARE(name, F, "(b16|u16|s16)", "phh", u16), COMPARE(name, F, "(b32|u32|s32)", "pww", u32), \
      COMPARE(name, F, "(b64|u64|s64)", "pll", u64), SET(name, F, "(b32|u32|s32)", u32)
#define FLOATING(name, F)                                                           \
  COMPARE(name, F, "f32", "pww", f32), COMPARE(name, F, "ftz.f32", "pww", Flushed), \
      COMPARE(name, F, "f64", "pll", f64), COMPARE(name, F, "f16", "phh", f16),     \
      COMPARE(name, F, "bf16", "phh", bf16), SET(name, F, "f32", f32),              \
      SET(name, F, "ftz.f32", Flushed)

const Row kRows[] = {
    EQUALITY("eq", Eq),           EQUALITY("ne", NeUnordered),  ORDERED_INTEGER("lt", Lt),
    ORDERED_INTEGER("le", Le),    ORDERED_INTEGER("gt", Gt),    ORDERED_INTEGER("ge", Ge),
    UNSIGNED_ALIAS("lo", Lt),     UNSIGNED_ALIAS("ls", Le),     UNSIGNED_ALIAS("hi", Gt),
    UNSIGNED_ALIAS("hs", Ge),     FLOATING("eq", Eq),           FLOATING("ne", Ne),
    FLOATING("lt", Lt),           FLOATING("le", Le),           FLOATING("gt", Gt),
    FLOATING("ge", Ge),           FLOATING("equ", EqUnordered), FLOATING("neu", NeUnordered),
    FLOATING("ltu", LtUnordered), FLOATING("leu", LeUnordered), FLOATING("gtu", GtUnordered),
    FLOATING("geu", GeUnordered), FLOATING("num", Num),         FLOATING("nan", IsNan),
};

}  // namespace

LSSAR_ROWS(kCompareRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
