// setp and set: comparisons, whose result may be combined with another predicate.
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// Ordered comparisons are false if an operand is NaN; those named Unordered are true.
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

// p = the comparison combined with c. q, if there is one, is the complement combined with c.
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

// What set gives a lane that compares true, by bits 3 to 5 of op.flags.
enum class Truth : uint8_t { kOnes32, kFloat, kOnes16, kHalf, kBfloat };
constexpr uint8_t truth(Truth t) { return static_cast<uint8_t>(static_cast<uint8_t>(t) << 3); }

template <class D>
inline void store_truth(Warp& w, const Op& op, u32 result, D value) {
  if (op.dst == kNoRegister) return;
  D all[kLanes];
  LSSAR_LANES all[i] = static_cast<D>((result >> i) & 1 ? value : 0);
  store_lanes(w, op.dst, all);
}
inline u32 combined(const Warp& w, const Op& op, u32 result) {
  const Combine how = static_cast<Combine>(op.flags & 7);
  if (how == Combine::kNone) return result;
  return combine(result, mask_of(w, op.c) ^ (op.flags & kOpNegated ? kAllLanes : 0), how);
}

template <class F, class T>
void set(Warp& w, const Op& op) {
  const u32 compared = compare_lanes<F, T>(lanes<T>(w, op.a), lanes<T>(w, op.b));
  const u32 result = combined(w, op, compared);
  switch (static_cast<Truth>((op.flags >> 3) & 7)) {
    case Truth::kOnes32:
      return store_truth<u32>(w, op, result, 0xffffffffu);
    case Truth::kFloat:
      return store_truth<u32>(w, op, result, 0x3f800000u);
    case Truth::kOnes16:
      return store_truth<u16>(w, op, result, 0xffff);
    case Truth::kHalf:
      return store_truth<u16>(w, op, result, 0x3c00);
    case Truth::kBfloat:
      return store_truth<u16>(w, op, result, 0x3f80);
  }
}

// Pairs: the low and the high halves are compared separately.
struct FlushedHalf {  // .ftz.f16
  u16 bits;
};
template <>
struct As<FlushedHalf> {
  static f32 load(FlushedHalf x) {
    return to_float(f16{static_cast<u16>((x.bits & 0x7c00) == 0 ? x.bits & 0x8000 : x.bits)});
  }
};
template <class F, class T>
inline void compare_pairs(const Warp& w, const Op& op, u32& low, u32& high) {
  const u32* a = lanes<u32>(w, op.a);
  const u32* b = lanes<u32>(w, op.b);
  T x[kLanes], y[kLanes];
  LSSAR_LANES x[i] = {static_cast<u16>(a[i])};
  LSSAR_LANES y[i] = {static_cast<u16>(b[i])};
  low = compare_lanes<F, T>(x, y);
  LSSAR_LANES x[i] = {static_cast<u16>(a[i] >> 16)};
  LSSAR_LANES y[i] = {static_cast<u16>(b[i] >> 16)};
  high = compare_lanes<F, T>(x, y);
}
template <class F, class T>
void setp_pair(Warp& w, const Op& op) {
  u32 low = 0, high = 0;
  compare_pairs<F, T>(w, op, low, high);
  low = combined(w, op, low);
  high = combined(w, op, high);
  const u32 second = static_cast<u32>(op.imm);
  if (second != kNoRegister) store_mask(w, second, high);
  if (op.dst != kNoRegister) store_mask(w, op.dst, low);
}
template <class F, class T>
void set_pair(Warp& w, const Op& op) {
  u32 low = 0, high = 0;
  compare_pairs<F, T>(w, op, low, high);
  low = combined(w, op, low);
  high = combined(w, op, high);
  const Truth t = static_cast<Truth>((op.flags >> 3) & 7);
  const u32 value = t == Truth::kHalf ? 0x3c00 : t == Truth::kBfloat ? 0x3f80 : 0xffff;
  if (op.dst == kNoRegister) return;
  u32 all[kLanes];
  LSSAR_LANES all[i] = ((low >> i) & 1 ? value : 0) | ((high >> i) & 1 ? value << 16 : 0);
  store_lanes(w, op.dst, all);
}

#define BOOL "[.and|.or|.xor]"
#define COMPARE(name, F, types, shape, T) \
  { "setp." name BOOL types, Bind::kSetp, shape, setp<F, T> }
#define SET_TO(name, to, types, shape, handler, t) \
  { "set." name BOOL to types, Bind::kSetp, shape, handler, truth(Truth::t) }
// `types` begins with a dot; `in` has the letters of the sources; `f` is the .ftz of a float
// source.
#define SET(name, F, f, types, in, T)                                 \
  SET_TO(name, f "(.u32|.s32)", types, "w" in, (set<F, T>), kOnes32), \
      SET_TO(name, f ".f32", types, "w" in, (set<F, T>), kFloat),     \
      SET_TO(name, f ".f16", types, "h" in, (set<F, T>), kHalf),      \
      SET_TO(name, f ".bf16", types, "h" in, (set<F, T>), kBfloat)
#define SET_HALF(name, F, f, types, T)                                   \
  SET_TO(name, f "(.u16|.s16)", types, "hhh", (set<F, T>), kOnes16),     \
      SET_TO(name, f "(.u32|.s32)", types, "whh", (set<F, T>), kOnes32), \
      SET_TO(name, f ".f16", types, "hhh", (set<F, T>), kHalf),          \
      SET_TO(name, f ".bf16", types, "hhh", (set<F, T>), kBfloat)
#define PAIR(name, F, f, type, T, t)                               \
  {"setp." name BOOL f type, Bind::kSetp, "pww", setp_pair<F, T>}, \
      SET_TO(name, f type, type, "www", (set_pair<F, T>), t),      \
      SET_TO(name, f "(.u32|.s32)", type, "www", (set_pair<F, T>), kOnes32)
#define ORDERED_INTEGER(name, F)                                                  \
  COMPARE(name, F, ".s16", "phh", s16), COMPARE(name, F, ".s32", "pww", s32),     \
      COMPARE(name, F, ".s64", "pll", s64), COMPARE(name, F, ".u16", "phh", u16), \
      COMPARE(name, F, ".u32", "pww", u32), COMPARE(name, F, ".u64", "pll", u64), \
      SET(name, F, "", ".s16", "hh", s16), SET(name, F, "", ".u16", "hh", u16),   \
      SET(name, F, "", ".s32", "ww", s32), SET(name, F, "", ".u32", "ww", u32),   \
      SET(name, F, "", ".s64", "ll", s64), SET(name, F, "", ".u64", "ll", u64)
#define UNSIGNED_ALIAS(name, F)                                                  \
  COMPARE(name, F, ".u16", "phh", u16), COMPARE(name, F, ".u32", "pww", u32),    \
      COMPARE(name, F, ".u64", "pll", u64), SET(name, F, "", ".u16", "hh", u16), \
      SET(name, F, "", ".u32", "ww", u32), SET(name, F, "", ".u64", "ll", u64)
#define EQUALITY(name, F)                               \
  COMPARE(name, F, "(.b16|.u16|.s16)", "phh", u16),     \
      COMPARE(name, F, "(.b32|.u32|.s32)", "pww", u32), \
      COMPARE(name, F, "(.b64|.u64|.s64)", "pll", u64), \
      SET(name, F, "", "(.b16|.u16|.s16)", "hh", u16),  \
      SET(name, F, "", "(.b32|.u32|.s32)", "ww", u32),  \
      SET(name, F, "", "(.b64|.u64|.s64)", "ll", u64)
#define FLOATING(name, F)                                                                       \
  COMPARE(name, F, ".f32", "pww", f32), COMPARE(name, F, ".ftz.f32", "pww", Flushed),           \
      COMPARE(name, F, ".f64", "pll", f64), COMPARE(name, F, ".f16", "phh", f16),               \
      COMPARE(name, F, ".ftz.f16", "phh", FlushedHalf), COMPARE(name, F, ".bf16", "phh", bf16), \
      SET(name, F, "", ".f32", "ww", f32), SET(name, F, ".ftz", ".f32", "ww", Flushed),         \
      SET(name, F, "", ".f64", "ll", f64), SET_HALF(name, F, "", ".f16", f16),                  \
      SET_HALF(name, F, ".ftz", ".f16", FlushedHalf), SET_HALF(name, F, "", ".bf16", bf16),     \
      PAIR(name, F, "", ".f16x2", f16, kHalf),                                                  \
      PAIR(name, F, ".ftz", ".f16x2", FlushedHalf, kHalf),                                      \
      PAIR(name, F, "", ".bf16x2", bf16, kBfloat)

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
