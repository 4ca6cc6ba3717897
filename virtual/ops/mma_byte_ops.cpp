// mma.sync of 8-bit floats and integers: m16n8k32 and m16n8k16.
//
// Layouts (lane = 4 g + t): a 32-bit register, read over the 32 lanes, is an 8x16 matrix of bytes:
// row g, columns 4t to 4t + 3. a0, a1 are rows 0-7 and 8-15 of k 0-15, a2, a3 of k 16-31; b0, b1
// the columns of b as rows, k 0-15 and 16-31. Accumulators are as in matrix_ops.cpp.
#include "virtual/ops/collective.h"
#include "virtual/ops/rows.h"
#include "virtual/state/units.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

struct E4m3 {
  static constexpr int kFraction = 3;
  static constexpr u32 kBias = 7;
  static constexpr bool is_nan(u32 magnitude) { return magnitude == 0x7f; }
  static constexpr bool is_infinite(u32) { return false; }
};
struct E5m2 {
  static constexpr int kFraction = 2;
  static constexpr u32 kBias = 15;
  static constexpr bool is_nan(u32 magnitude) { return magnitude > 0x7c; }
  static constexpr bool is_infinite(u32 magnitude) { return magnitude == 0x7c; }
};
struct ByteValues {
  f32 of[256];
};
template <class F>
constexpr ByteValues byte_values() {
  ByteValues v = {};
  for (u32 byte = 0; byte < 256; ++byte) {
    const u32 magnitude = byte & 0x7f;
    const u32 exponent = magnitude >> F::kFraction;
    const u32 fraction = magnitude & ((1u << F::kFraction) - 1);
    // A subnormal's value is its fraction times the last place of the least normal.
    u32 bits = (exponent + 127 - F::kBias) << 23 | fraction << (23 - F::kFraction);
    if (exponent == 0) {
      const u32 last_place = (127 + 1 - F::kBias - F::kFraction) << 23;
      bits =
          __builtin_bit_cast(u32, static_cast<f32>(fraction) * __builtin_bit_cast(f32, last_place));
    }
    if (F::is_infinite(magnitude)) bits = 0x7f800000u;
    if (F::is_nan(magnitude)) bits = kFloatNan;
    v.of[byte] = __builtin_bit_cast(f32, bits | (byte & 0x80) << 24);
  }
  return v;
}
constexpr ByteValues kByteValues[2] = {byte_values<E4m3>(), byte_values<E5m2>()};

// Row::arg, and so Op::flags: the formats of a and b; whether integer sums saturate.
constexpr u8 kSecondFormatA = 1, kSecondFormatB = 2, kSaturate = 4;

template <class T, u32 kDepth>
struct alignas(64) Operands {
  T a[16][kDepth];
  T b[kDepth][8];
  T c[16][8];
};

template <class T, u32 kDepth, class Value>
inline void read_bytes(const Warp& w, const u32* a, const u32* b, Operands<T, kDepth>& m,
                       Value value) {
  for (u32 r = 0; r < kDepth / 8; ++r) {
    const u8* x = lanes<u8>(w, a[r]);
    for (u32 i = 0; i < 8 * kMatrixRowBytes; ++i) {
      m.a[8 * (r & 1) + i / kMatrixRowBytes][kMatrixRowBytes * (r >> 1) + i % kMatrixRowBytes] =
          value(x[i], false);
    }
  }
  for (u32 r = 0; r < kDepth / 16; ++r) {
    const u8* x = lanes<u8>(w, b[r]);
    for (u32 i = 0; i < 8 * kMatrixRowBytes; ++i) {
      m.b[kMatrixRowBytes * r + i % kMatrixRowBytes][i / kMatrixRowBytes] = value(x[i], true);
    }
  }
}
template <class T, u32 kDepth>
inline void multiply(Operands<T, kDepth>& m) {
  for (u32 row = 0; row < 16; ++row) {
    for (u32 k = 0; k < kDepth; ++k) {
      const T x = m.a[row][k];
      for (u32 n = 0; n < 8; ++n) m.c[row][n] += x * m.b[k][n];
    }
  }
}
// f32 and s32 accumulators: register r holds row g + 8 (r / 2), column 2t + r % 2.
template <class T, u32 kDepth>
inline void read_sums(const Warp& w, const u32* c, Operands<T, kDepth>& m) {
  for (u32 r = 0; r < 4; ++r) {
    const T* x = lanes<T>(w, c[r]);
    for (u32 i = 0; i < kLanes; ++i) m.c[8 * (r >> 1) + i / 4][2 * (i % 4) + (r & 1)] = x[i];
  }
}
template <class T, u32 kDepth>
inline void write_sums(const Warp& w, const u32* d, const Operands<T, kDepth>& m) {
  for (u32 r = 0; r < 4; ++r) {
    T* x = lanes<T>(w, d[r]);
    for (u32 i = 0; i < kLanes; ++i) x[i] = m.c[8 * (r >> 1) + i / 4][2 * (i % 4) + (r & 1)];
  }
}

template <u32 kDepth>
inline void read_floats(const Warp& w, const Op& op, const u32* a, const u32* b,
                        Operands<f32, kDepth>& m) {
  const f32* of_a = kByteValues[op.flags & kSecondFormatA ? 1 : 0].of;
  const f32* of_b = kByteValues[op.flags & kSecondFormatB ? 1 : 0].of;
  read_bytes(w, a, b, m, [=](u8 x, bool is_b) { return is_b ? of_b[x] : of_a[x]; });
}

template <u32 kDepth>
void mma_float(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  const u32* d = op.list;
  const u32* a = d + 4;
  const u32* b = a + kDepth / 8;
  Operands<f32, kDepth> m;
  read_floats(w, op, a, b, m);
  read_sums(w, b + kDepth / 16, m);
  multiply(m);
  write_sums(w, d, m);
}
// Accumulation in f16: sums in float, rounded once at the end.
template <u32 kDepth>
void mma_half(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  const u32* d = op.list;
  const u32* a = d + 2;
  const u32* b = a + kDepth / 8;
  const u32* c = b + kDepth / 16;
  Operands<f32, kDepth> m;
  read_floats(w, op, a, b, m);
  for (u32 r = 0; r < 2; ++r) {
    const f16* x = lanes<f16>(w, c[r]);
    for (u32 i = 0; i < 64; ++i) m.c[8 * r + i / 8][i % 8] = to_float(x[i]);
  }
  multiply(m);
  for (u32 r = 0; r < 2; ++r) {
    f16* x = lanes<f16>(w, d[r]);
    for (u32 i = 0; i < 64; ++i) x[i] = to_f16(m.c[8 * r + i / 8][i % 8]);
  }
}

// Sums wrap, or are clamped once at the end. Without c the sum of the products fits 32 bits.
template <u32 kDepth>
void mma_integer(Warp& w, const Op& op) {
  if (lacks_warp(w, op)) return;
  const u32* d = op.list;
  const u32* a = d + 4;
  const u32* b = a + kDepth / 8;
  const u32* c = b + kDepth / 16;
  const bool signed_a = op.flags & kSecondFormatA, signed_b = op.flags & kSecondFormatB;
  Operands<s32, kDepth> m, start;
  read_bytes(w, a, b, m, [=](u8 x, bool is_b) -> s32 {
    return (is_b ? signed_b : signed_a) ? static_cast<s8>(x) : x;
  });
  read_sums(w, c, start);
  memset(m.c, 0, sizeof m.c);
  multiply(m);
  for (u32 i = 0; i < 128; ++i) {
    s64 sum = static_cast<s64>(m.c[i / 8][i % 8]) + start.c[i / 8][i % 8];
    if (op.flags & kSaturate) {
      sum = sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? -0x80000000ll : sum;
    }
    m.c[i / 8][i % 8] = static_cast<s32>(sum);
  }
  write_sums(w, d, m);
}

#define MMA(shape, types) "mma.sync.aligned." shape ".row.col" types
#define FLOATS(a, b, arg)                                                                 \
  {MMA("m16n8k32", ".f32." a "." b ".f32"), Bind::kMma, "4424", mma_float<32>, arg},      \
      {MMA("m16n8k16", ".f32." a "." b ".f32"), Bind::kMma, "4214", mma_float<16>, arg},  \
      {MMA("m16n8k32", ".f16." a "." b ".f16"), Bind::kMma, "2422", mma_half<32>, arg}, { \
    MMA("m16n8k16", ".f16." a "." b ".f16"), Bind::kMma, "2212", mma_half<16>, arg        \
  }
#define INTEGERS(a, b, arg)                                                                    \
  {MMA("m16n8k32", ".s32." a "." b ".s32"), Bind::kMma, "4424", mma_integer<32>, arg},         \
      {MMA("m16n8k16", ".s32." a "." b ".s32"), Bind::kMma, "4214", mma_integer<16>, arg},     \
      {MMA("m16n8k32", ".satfinite.s32." a "." b ".s32"), Bind::kMma, "4424", mma_integer<32>, \
       (arg) | kSaturate},                                                                     \
  {                                                                                            \
    MMA("m16n8k16", ".satfinite.s32." a "." b ".s32"), Bind::kMma, "4214", mma_integer<16>,    \
        (arg) | kSaturate                                                                      \
  }

const Row kRows[] = {
    FLOATS("e4m3", "e4m3", 0),
    FLOATS("e5m2", "e4m3", kSecondFormatA),
    FLOATS("e4m3", "e5m2", kSecondFormatB),
    FLOATS("e5m2", "e5m2", kSecondFormatA | kSecondFormatB),
    INTEGERS("u8", "u8", 0),
    INTEGERS("s8", "u8", kSecondFormatA),
    INTEGERS("u8", "s8", kSecondFormatB),
    INTEGERS("s8", "s8", kSecondFormatA | kSecondFormatB),
};

}  // namespace

LSSAR_ROWS(kMmaByteRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
