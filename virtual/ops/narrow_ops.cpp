// cvt to and from f16, bf16, tf32 and the 8-bit floats, with .rz, .relu and .satfinite: forms that
// the general cvt does not have. Everything is lane-wise and without branches on values.
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// What happens to a value on its way, as bits of a template argument.
constexpr u32 kRz = 1, kRelu = 2, kFinite = 4;

template <class T>
constexpr u16 kLargest = 0;
template <>
constexpr u16 kLargest<f16> = 0x7bff;
template <>
constexpr u16 kLargest<bf16> = 0x7f7f;

template <class T, u32 kHow>
inline u32 narrow(f32 x) {
  u32 r = round_to<T>(x).bits;
  const bool nan = x != x;
  if (kHow & kRz) {
    // Rounding to nearest went away from zero (perhaps to infinity), so this goes one step back.
    const f32 rounded = to_float(T{static_cast<u16>(r)});
    r -= __builtin_fabsf(rounded) > __builtin_fabsf(x) ? 1 : 0;
  }
  if (kHow & kFinite) r = !nan && (r & 0x7fff) > kLargest<T> ? (r & 0x8000) | kLargest<T> : r;
  if (kHow & kRelu) r = !nan && (r & 0x8000) ? 0 : r;
  return r;
}
template <class T, u32 kHow>
struct Narrow {
  static T apply(f32 a) { return {static_cast<u16>(narrow<T, kHow>(a))}; }
};
template <class T, u32 kHow>
struct NarrowPair {  // a to the high half
  static u32 apply(f32 a, f32 b) { return narrow<T, kHow>(a) << 16 | narrow<T, kHow>(b); }
};

// tf32: 10 bits of fraction in a float's register.
enum class Tie { kEven, kAway, kZero };
template <Tie kTie, u32 kHow>
struct ToTf32 {
  static u32 apply(f32 a) {
    const u32 bits = bits_to<u32>(a);
    const u32 up = kTie == Tie::kZero   ? 0
                   : kTie == Tie::kAway ? 0x1000u
                                        : 0xfffu + ((bits >> 13) & 1);
    const bool special = (bits & 0x7f800000u) == 0x7f800000u;
    u32 r = special ? bits : (bits + up) & ~0x1fffu;
    if (kHow & kFinite) r = (r & 0x7fffffffu) > 0x7f7fe000u ? (r & 0x80000000u) | 0x7f7fe000u : r;
    if (kHow & kRelu) r = r & 0x80000000u ? 0 : r;
    return a != a ? kFloatNan : r;
  }
};

// The 8-bit formats. e4m3 has no infinity: 0x7f is NaN and 0x7e, 448, the largest value.
struct E4m3 {
  static constexpr int kFraction = 3;
  static constexpr u32 kBias = 7;
  static constexpr u32 kLargestBits = 0x7e;
};
struct E5m2 {
  static constexpr int kFraction = 2;
  static constexpr u32 kBias = 15;
  static constexpr u32 kLargestBits = 0x7b;
};

// To nearest even, clamped to the largest finite value.
template <class F, bool kRectify>
inline u32 to_byte(f32 x) {
  constexpr int kDropped = 23 - F::kFraction;
  const u32 bits = bits_to<u32>(x);
  const u32 magnitude = bits & 0x7fffffffu;
  const u32 rebias = (127 - F::kBias) << 23;
  const u32 normal =
      (magnitude - rebias + (1u << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1)) >> kDropped;
  // A result below the least normal is added to a number whose last place is a subnormal's.
  constexpr u32 kMagic = (127 - F::kBias + 1 + kDropped) << 23;
  const u32 tiny = bits_to<u32>(bits_to<f32>(magnitude) + bits_to<f32>(kMagic)) - kMagic;
  u32 r = magnitude < rebias + (1u << 23) ? tiny : normal;
  r = r > F::kLargestBits ? F::kLargestBits : r;
  const bool negative = (bits >> 31) != 0;
  r = kRectify && negative ? 0 : r | (bits >> 31) << 7;
  return x != x ? 0x7f : r;
}
template <class F, bool kRectify>
struct FloatsToBytes {  // a to the high byte
  static u16 apply(f32 a, f32 b) {
    return static_cast<u16>(to_byte<F, kRectify>(a) << 8 | to_byte<F, kRectify>(b));
  }
};
template <class F, bool kRectify>
struct HalvesToBytes {
  static u16 apply(u32 a) {
    const f32 low = to_float(f16{static_cast<u16>(a)});
    const f32 high = to_float(f16{static_cast<u16>(a >> 16)});
    return static_cast<u16>(to_byte<F, kRectify>(high) << 8 | to_byte<F, kRectify>(low));
  }
};

// Every value of an 8-bit format is one of f16.
inline u32 to_half_bits(u32 byte, E5m2) { return (byte & 0x7f) > 0x7c ? kHalfNan : byte << 8; }
inline u32 to_half_bits(u32 byte, E4m3) {
  const u32 magnitude = byte & 0x7f;
  // As a float with the exponent 120 too low; a multiplication by 2^120 makes subnormals normal.
  const f32 value = bits_to<f32>(magnitude << 20) * 0x1p120f;
  const u32 half = to_f16(value).bits | (byte & 0x80) << 8;
  return magnitude == 0x7f ? kHalfNan : half;
}
template <class F, bool kRectify>
struct BytesToHalves {
  static u32 half(u32 byte) {
    const u32 h = to_half_bits(byte, F());
    return kRectify && (h & 0x8000) ? 0 : h;
  }
  static u32 apply(u16 a) { return half(a >> 8) << 16 | half(a & 0xff); }
};

#define FROM_FLOAT(how, bits)                                                                      \
  {"cvt" how ".f16.f32", Bind::kAlu, "hw", unary<Narrow<f16, bits>, f16, f32>},                    \
      {"cvt" how ".bf16.f32", Bind::kAlu, "hw", unary<Narrow<bf16, bits>, bf16, f32>},             \
      {"cvt" how ".f16x2.f32", Bind::kAlu, "www", binary<NarrowPair<f16, bits>, u32, f32, f32>}, { \
    "cvt" how ".bf16x2.f32", Bind::kAlu, "www", binary<NarrowPair<bf16, bits>, u32, f32, f32>      \
  }
#define TF32(how, tie, bits) \
  { "cvt" how ".tf32.f32", Bind::kAlu, "ww", unary<ToTf32<Tie::tie, bits>, u32, f32> }
#define BYTES(type, F)                                                                      \
  {"cvt.rn.satfinite." type ".f32", Bind::kAlu, "hww",                                      \
   binary<FloatsToBytes<F, false>, u16, f32, f32>},                                         \
      {"cvt.rn(.satfinite.relu|.relu.satfinite)." type ".f32", Bind::kAlu, "hww",           \
       binary<FloatsToBytes<F, true>, u16, f32, f32>},                                      \
      {"cvt.rn.satfinite." type ".f16x2", Bind::kAlu, "hw",                                 \
       unary<HalvesToBytes<F, false>, u16, u32>},                                           \
      {"cvt.rn(.satfinite.relu|.relu.satfinite)." type ".f16x2", Bind::kAlu, "hw",          \
       unary<HalvesToBytes<F, true>, u16, u32>},                                            \
      {"cvt.rn.f16x2." type, Bind::kAlu, "wh", unary<BytesToHalves<F, false>, u32, u16>}, { \
    "cvt.rn.relu.f16x2." type, Bind::kAlu, "wh", unary<BytesToHalves<F, true>, u32, u16>    \
  }

// cvt.pack: two integers, saturated to kBits; a goes above b, and c above both.
template <u32 kBits, bool kSigned>
struct PackSaturated {
  static constexpr s32 kLeast = kSigned ? -(1 << (kBits - 1)) : 0;
  static constexpr s32 kMost = (1 << (kBits - (kSigned ? 1 : 0))) - 1;
  static u32 part(s32 x) {
    const s32 fits = x < kLeast ? kLeast : x > kMost ? kMost : x;
    return static_cast<u32>(fits) & ((1u << kBits) - 1);
  }
  static u32 apply(s32 a, s32 b) { return part(a) << kBits | part(b); }
  static u32 apply(s32 a, s32 b, u32 c) { return c << 2 * kBits | apply(a, b); }
};
#define PACK(type, bits, is_signed)                                 \
  {                                                                 \
    "cvt.pack.sat." type ".s32.b32", Bind::kAlu, "wwww",            \
        ternary<PackSaturated<bits, is_signed>, u32, s32, s32, u32> \
  }
#define PACK_HALVES(type, is_signed)                        \
  {                                                         \
    "cvt.pack.sat." type ".s32", Bind::kAlu, "www",         \
        binary<PackSaturated<16, is_signed>, u32, s32, s32> \
  }

const Row kRows[] = {
    PACK("s8", 8, true),
    PACK("u8", 8, false),
    PACK("s4", 4, true),
    PACK("u4", 4, false),
    PACK("s2", 2, true),
    PACK("u2", 2, false),
    PACK_HALVES("s16", true),
    PACK_HALVES("u16", false),
    FROM_FLOAT(".rn", 0),
    FROM_FLOAT(".rz", kRz),
    FROM_FLOAT(".rn.relu", kRelu),
    FROM_FLOAT(".rz.relu", kRz | kRelu),
    FROM_FLOAT(".rn.satfinite", kFinite),
    FROM_FLOAT(".rz.satfinite", kRz | kFinite),
    FROM_FLOAT(".rn.relu.satfinite", kRelu | kFinite),
    FROM_FLOAT(".rz.relu.satfinite", kRz | kRelu | kFinite),
    TF32(".rna", kAway, 0),
    TF32(".rna.satfinite", kAway, kFinite),
    TF32(".rn", kEven, 0),
    TF32(".rz", kZero, 0),
    TF32(".rn.satfinite", kEven, kFinite),
    TF32(".rz.satfinite", kZero, kFinite),
    TF32(".rn.relu", kEven, kRelu),
    TF32(".rz.relu", kZero, kRelu),
    TF32(".rn.satfinite.relu", kEven, kRelu | kFinite),
    TF32(".rz.satfinite.relu", kZero, kRelu | kFinite),
    BYTES("e4m3x2", E4m3),
    BYTES("e5m2x2", E5m2),
};

}  // namespace

LSSAR_ROWS(kNarrowRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
