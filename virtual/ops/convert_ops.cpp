// cvt: fast loops for the common pairs of types, and one exact general conversion for the rest.
// narrow_ops.cpp has those to 16, 19 and 8 bits.
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// (-1)^negative * mantissa * 2^exponent, or an infinity, or NaN.
struct Exact {
  bool nan;
  bool infinite;
  bool negative;
  u64 mantissa;
  s32 exponent;
};

// A binary format: bits of the fraction, and the exponent's bias.
struct Format {
  s32 fraction;
  s32 exponent_bits;
};
inline Format format_of(NumberType type) {
  switch (type) {
    case NumberType::kF16:
      return {10, 5};
    case NumberType::kBf16:
      return {7, 8};
    case NumberType::kF32:
      return {23, 8};
    default:
      return {52, 11};
  }
}
inline bool is_float(NumberType type) { return type >= NumberType::kF16; }
inline bool is_signed(NumberType type) { return (static_cast<u32>(type) & 1) != 0; }
inline u32 integer_bits(NumberType type) { return 8u << (static_cast<u32>(type) / 2); }

inline Exact decompose(u64 bits, NumberType type, bool ftz) {
  Exact x = {false, false, false, 0, 0};
  if (!is_float(type)) {
    const u32 unused = 64 - integer_bits(type);
    if (is_signed(type)) {
      const s64 value = static_cast<s64>(bits << unused) >> unused;
      x.negative = value < 0;
      x.mantissa = x.negative ? 0 - static_cast<u64>(value) : static_cast<u64>(value);
    } else {
      x.mantissa = bits << unused >> unused;
    }
    return x;
  }
  const Format f = format_of(type);
  const u64 fraction = bits & ((u64{1} << f.fraction) - 1);
  const u32 top = (1u << f.exponent_bits) - 1;
  const u32 exponent = static_cast<u32>(bits >> f.fraction) & top;
  const s32 bias = static_cast<s32>(top >> 1);
  x.negative = (bits >> (f.fraction + f.exponent_bits)) & 1;
  x.nan = exponent == top && fraction != 0;
  x.infinite = exponent == top && fraction == 0;
  x.mantissa = exponent == 0 ? fraction : fraction | u64{1} << f.fraction;
  x.exponent = static_cast<s32>(exponent == 0 ? 1 : exponent) - bias - f.fraction;
  if (ftz && type == NumberType::kF32 && exponent == 0) x.mantissa = 0;
  return x;
}

// mantissa / 2^shift to an integer.
inline u64 shift_right(u64 mantissa, s32 shift, Rounding rounding, bool negative) {
  if (shift <= 0) return mantissa << -shift;
  const u64 whole = shift < 64 ? mantissa >> shift : 0;
  const u64 rest = shift < 64 ? mantissa & ((u64{1} << shift) - 1) : mantissa;
  if (rest == 0) return whole;
  switch (rounding) {
    case Rounding::kZero:
      return whole;
    case Rounding::kDown:
      return whole + negative;
    case Rounding::kUp:
      return whole + !negative;
    case Rounding::kNearestEven:
      break;
  }
  if (shift > 64) return whole;  // less than a half
  const u64 half = u64{1} << (shift - 1);
  return whole + (rest > half || (rest == half && (whole & 1)));
}

// NaN gives 0 only if both types have at most 32 bits.
inline u64 to_integer(const Exact& x, NumberType from, NumberType type, Rounding rounding) {
  const u32 bits = integer_bits(type);
  const u64 largest =
      is_signed(type) ? (u64{1} << (bits - 1)) - 1 : (bits == 64 ? ~u64{0} : (u64{1} << bits) - 1);
  const u64 lowest = is_signed(type) ? largest + 1 : 0;  // its magnitude
  if (x.nan) return bits == 64 || from == NumberType::kF64 ? u64{1} << (bits - 1) : 0;
  u64 magnitude = 0;
  bool beyond = x.infinite;
  if (!beyond && x.mantissa != 0) {
    const s32 length = 64 - __builtin_clzll(x.mantissa);
    beyond = length + x.exponent > 64;
    if (!beyond) magnitude = shift_right(x.mantissa, -x.exponent, rounding, x.negative);
  }
  const u64 limit = x.negative ? lowest : largest;
  if (beyond || magnitude > limit) magnitude = limit;
  return x.negative ? 0 - magnitude : magnitude;
}

inline u64 to_floating(const Exact& x, NumberType type, Rounding rounding) {
  const Format f = format_of(type);
  const u64 sign = static_cast<u64>(x.negative) << (f.fraction + f.exponent_bits);
  const u64 top = (u64{1} << f.exponent_bits) - 1;
  const u64 infinity = top << f.fraction;
  if (x.nan) return infinity | ((u64{1} << f.fraction) - 1);
  if (x.infinite) return sign | infinity;
  if (x.mantissa == 0) return sign;
  const s32 bias = static_cast<s32>(top >> 1);
  const s32 length = 64 - __builtin_clzll(x.mantissa);
  // The exponent of the last place: that of the format's precision, but at least a subnormal's.
  s32 last = x.exponent + length - 1 - f.fraction;
  const s32 least = 1 - bias - f.fraction;
  if (last < least) last = least;
  const u64 digits = shift_right(x.mantissa, last - x.exponent, rounding, x.negative);
  // A carry out of the fraction goes into the exponent without further work.
  const u64 result = (static_cast<u64>(last - least) << f.fraction) + digits;
  if (result < infinity) return sign | result;
  const bool to_largest = rounding == Rounding::kZero ||
                          (rounding == Rounding::kDown && !x.negative) ||
                          (rounding == Rounding::kUp && x.negative);
  return sign | (to_largest ? infinity - 1 : infinity);
}

inline u64 convert_value(u64 bits, const Conversion& c) {
  const bool ftz = (c.flags & kConvertFtz) != 0;
  Exact x = decompose(bits, c.from, ftz);
  if (!is_float(c.to)) {
    if (is_float(c.from) || (c.flags & kConvertSat)) return to_integer(x, c.from, c.to, c.rounding);
    return x.negative ? 0 - x.mantissa : x.mantissa;
  }
  if (c.to_integral && !x.nan && !x.infinite && x.exponent < 0) {
    x.mantissa = shift_right(x.mantissa, -x.exponent, c.rounding, x.negative);
    x.exponent = 0;
  }
  const bool sat = (c.flags & kConvertSat) && (x.negative || x.nan);
  if (sat) x = {false, false, false, 0, 0};
  u64 result = to_floating(x, c.to, c.rounding);
  if (c.flags & kConvertSat) {
    const Format f = format_of(c.to);
    const u64 one = ((u64{1} << (f.exponent_bits - 1)) - 1) << f.fraction;
    if (result > one) result = one;
  }
  const bool subnormal = c.to == NumberType::kF32 && (result & 0x7f800000u) == 0;
  return ftz && subnormal ? result & 0x80000000u : result;
}

inline u64 load_bits(const uint8_t* lane, u32 bytes) {
  switch (bytes) {
    case 2:
      return *reinterpret_cast<const u16*>(lane);
    case 4:
      return *reinterpret_cast<const u32*>(lane);
    default:
      return *reinterpret_cast<const u64*>(lane);
  }
}

// Converts any pair of types. An integer narrower than its register is sign-extended.
void convert(Warp& w, const Op& op) {
  const Conversion c = bits_to<Conversion>(op.imm);
  uint8_t* d = w.registers + op.dst;
  const uint8_t* a = w.registers + op.a;
  for (u32 i = 0; i < kLanes; ++i) {
    u64 result = convert_value(load_bits(a + i * c.from_bytes, c.from_bytes), c);
    if (!is_float(c.to)) {
      const u32 unused = 64 - integer_bits(c.to);
      result = is_signed(c.to) ? static_cast<u64>(static_cast<s64>(result << unused) >> unused)
                               : result << unused >> unused;
    }
    memcpy(d + i * c.to_bytes, &result, c.to_bytes);
  }
}

// Fast loops.
template <class D, class S>
struct Cast {
  static D apply(S a) { return static_cast<D>(a); }
};
template <class T>
struct FromHalf {
  static f32 apply(T a) { return to_float(a); }
};
// Float to integer: out of range clamps, NaN gives 0.
struct TruncateSigned {
  static s32 apply(f32 a) {
    const f32 in_range = a >= 0x1p31f ? 0.0f : (a > -0x1p31f ? a : -0x1p31f);
    const s32 r = static_cast<s32>(in_range);
    return a != a ? 0 : (a >= 0x1p31f ? 0x7fffffff : r);
  }
};
#define ANY_TYPE "(u8|s8|u16|s16|u32|s32|u64|s64|f16|bf16|f32|f64)"

const Row kRows[] = {
    {"cvt.(u64|s64).u32", Bind::kAlu, "lw", unary<Cast<u64, u32>, u64, u32>},
    {"cvt.(u64|s64).s32", Bind::kAlu, "lw", unary<Cast<s64, s32>, s64, s32>},
    {"cvt.(u32|s32).(u64|s64)", Bind::kAlu, "wl", unary<Cast<u32, u64>, u32, u64>},
    {"cvt.(u32|s32).(u32|s32)", Bind::kAlu, "ww", unary<Cast<u32, u32>, u32, u32>},
    {"cvt.(u32|s32).u16", Bind::kAlu, "wh", unary<Cast<u32, u16>, u32, u16>},
    {"cvt.(u32|s32).s16", Bind::kAlu, "wh", unary<Cast<s32, s16>, s32, s16>},
    {"cvt.(u16|s16).(u32|s32)", Bind::kAlu, "hw", unary<Cast<u16, u32>, u16, u32>},
    {"cvt.(u64|s64).u16", Bind::kAlu, "lh", unary<Cast<u64, u16>, u64, u16>},
    {"cvt.rn.f32.s32", Bind::kAlu, "ww", unary<Cast<f32, s32>, f32, s32>},
    {"cvt.rn.f32.u32", Bind::kAlu, "ww", unary<Cast<f32, u32>, f32, u32>},
    {"cvt.rn.f64.s32", Bind::kAlu, "lw", unary<Cast<f64, s32>, f64, s32>},
    {"cvt.f64.f32", Bind::kAlu, "lw", unary<Cast<f64, f32>, f64, f32>},
    {"cvt.rn.f32.f64", Bind::kAlu, "wl", unary<Cast<f32, f64>, f32, f64>},
    {"cvt.rzi.s32.f32", Bind::kAlu, "ww", unary<TruncateSigned, s32, f32>},
    {"cvt.f32.f16", Bind::kAlu, "wh", unary<FromHalf<f16>, f32, f16>},
    {"cvt.f32.bf16", Bind::kAlu, "wh", unary<FromHalf<bf16>, f32, bf16>},
    {"cvt[.rn|.rz|.rm|.rp|.rni|.rzi|.rmi|.rpi][.ftz][.sat]." ANY_TYPE "." ANY_TYPE, Bind::kConvert,
     "", convert},
};

}  // namespace

LSSAR_ROWS(kConvertRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
