// Logic, shifts, bit fields, byte permutations and selections.
#include "virtual/ops/rows.h"
#include "virtual/state/binary_functions.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

using functions::And;
using functions::Or;
using functions::Xor;

template <class T>
constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);

struct Not {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(~a);
  }
};
struct Cnot {
  template <class T>
  static T apply(T a) {
    return a == 0 ? 1 : 0;
  }
};

// Shift counts are 32-bit and clamp at the width.
template <class T>
constexpr u32 kBits = sizeof(T) * 8;
struct Shl {
  template <class T>
  static T apply(T a, u32 n) {
    return static_cast<T>(n < kBits<T> ? a << (n & (kBits<T> - 1)) : 0);
  }
};
struct Shr {
  template <class T>
  static T apply(T a, u32 n) {
    if constexpr (kSigned<T>) return static_cast<T>(a >> (n < kBits<T> ? n : kBits<T> - 1));
    return static_cast<T>(n < kBits<T> ? a >> (n & (kBits<T> - 1)) : 0);
  }
};
template <bool kWrap>
inline u32 funnel_count(u32 n) {
  return kWrap ? n & 31 : (n < 32 ? n : 32);
}
template <bool kWrap>
struct ShfLeft {
  static u32 apply(u32 a, u32 b, u32 n) {
    const u64 pair = static_cast<u64>(b) << 32 | a;
    return static_cast<u32>((pair << funnel_count<kWrap>(n)) >> 32);
  }
};
template <bool kWrap>
struct ShfRight {
  static u32 apply(u32 a, u32 b, u32 n) {
    const u64 pair = static_cast<u64>(b) << 32 | a;
    return static_cast<u32>(pair >> funnel_count<kWrap>(n));
  }
};

// The fields' position and length are taken modulo 256.
struct Bfe {
  template <class T>
  static T apply(T a, u32 pos, u32 len) {
    pos &= 0xff;
    len &= 0xff;
    if (len == 0) return 0;
    const u32 top = pos + len - 1 < kBits<T> - 1 ? pos + len - 1 : kBits<T> - 1;
    const bool sign = kSigned<T> && ((static_cast<u64>(a) >> top) & 1);
    const u64 ones = ~u64{0};
    u64 field = pos < kBits<T> ? static_cast<u64>(a) >> pos : (sign ? ones : 0);
    if (sizeof(T) == 4 && pos < 32) field = static_cast<u64>(static_cast<u32>(a)) >> pos;
    if (len < 64) field &= ~(ones << len);
    const u32 have = pos < kBits<T> ? kBits<T> - pos : 0;
    const u32 width = len < have ? len : have;
    if (sign && width < 64) field |= ones << width;
    return static_cast<T>(field);
  }
};
template <class T>
inline T insert_field(T a, T b, u32 pos, u32 len) {
  pos &= 0xff;
  len &= 0xff;
  if (pos >= kBits<T> || len == 0) return b;
  const T ones = len >= kBits<T> ? static_cast<T>(-1) : static_cast<T>((T{1} << len) - 1);
  const T field = static_cast<T>(ones << pos);
  return static_cast<T>((b & ~field) | ((a << pos) & field));
}
template <class T>
void bfi(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.dst);
  const T* a = lanes<T>(w, op.a);
  const T* b = lanes<T>(w, op.b);
  const u32* pos = lanes<u32>(w, op.c);
  const u32* len = lanes<u32>(w, static_cast<u32>(op.imm));
  LSSAR_LANES d[i] = insert_field<T>(a[i], b[i], pos[i], len[i]);
}
struct Brev {
  template <class T>
  static T apply(T a) {
    u64 x = a;
    x = ((x >> 1) & 0x5555555555555555u) | ((x & 0x5555555555555555u) << 1);
    x = ((x >> 2) & 0x3333333333333333u) | ((x & 0x3333333333333333u) << 2);
    x = ((x >> 4) & 0x0f0f0f0f0f0f0f0fu) | ((x & 0x0f0f0f0f0f0f0f0fu) << 4);
    return static_cast<T>(__builtin_bswap64(x) >> (64 - kBits<T>));
  }
};
struct Popc {
  template <class T>
  static u32 apply(T a) {
    return static_cast<u32>(__builtin_popcountll(a));
  }
};
struct Clz {
  template <class T>
  static u32 apply(T a) {
    return a == 0 ? kBits<T> : static_cast<u32>(__builtin_clzll(a)) - (64 - kBits<T>);
  }
};
// The highest bit that differs from the sign; -1 if there is none.
template <bool kShiftAmount>
struct Bfind {
  template <class T>
  static u32 apply(T a) {
    const u64 x = kSigned<T> && a < 0 ? ~static_cast<u64>(a) : static_cast<u64>(a);
    if (x == 0) return ~0u;
    const u32 top = 63 - static_cast<u32>(__builtin_clzll(x));
    return kShiftAmount ? kBits<T> - 1 - top : top;
  }
};
struct Prmt {
  static u32 apply(u32 a, u32 b, u32 selector) {
    const u64 bytes = static_cast<u64>(b) << 32 | a;
    u32 d = 0;
    for (u32 k = 0; k < 4; ++k) {
      const u32 pick = selector >> (4 * k);
      const u32 byte = static_cast<u32>(bytes >> (8 * (pick & 7))) & 0xff;
      const u32 sign = (byte & 0x80) ? 0xff : 0;
      d |= ((pick & 8) ? sign : byte) << (8 * k);
    }
    return d;
  }
};
// The named modes: one selector for each of the four values of the low two bits.
template <u64 kSelectors>
struct PrmtMode {
  static u32 apply(u32 a, u32 b, u32 mode) {
    return Prmt::apply(a, b, static_cast<u32>(kSelectors >> (16 * (mode & 3))) & 0xffff);
  }
};

// The low b bits of a, extended by their sign or by zeros.
template <bool kClamp, class T>
struct Szext {
  static u32 apply(u32 a, u32 b) {
    if (kClamp && b >= 32) return a;
    const u32 count = b & 31;
    const u32 low = a & ~(~0u << count);
    const bool sign = kSigned<T> && count != 0 && ((a >> ((count - 1) & 31)) & 1);
    return sign ? low | ~0u << count : low;
  }
};
// b bits set from position a on.
template <bool kClamp>
struct Bmsk {
  static u32 apply(u32 a, u32 b) {
    if (kClamp && a >= 32) return 0;
    const u32 position = a & 31;
    const u32 count = kClamp && b >= 32 ? 32 : b & 31;
    const u64 ones = (u64{1} << count) - 1;
    return static_cast<u32>(ones << position);
  }
};
// The place of the offset-th set bit of the mask, counted up (or down, if negative) from base.
struct Fns {
  static u32 apply(u32 mask, u32 base, u32 offset) {
    const s32 step = static_cast<s32>(offset) < 0 ? -1 : 1;
    s64 left = static_cast<s64>(static_cast<s32>(offset)) * step;
    if (left == 0) return base < 32 && ((mask >> base) & 1) ? base : ~0u;
    for (s64 at = static_cast<s32>(base); at >= 0 && at < 32; at += step) {
      if ((mask >> at) & 1 && --left == 0) return static_cast<u32>(at);
    }
    return ~0u;
  }
};

void lop3(Warp& w, const Op& op) {
  u32* d = lanes<u32>(w, op.dst);
  const u32* a = lanes<u32>(w, op.a);
  const u32* b = lanes<u32>(w, op.b);
  const u32* c = lanes<u32>(w, op.c);
  u32 terms[8];
  for (u32 k = 0; k < 8; ++k) terms[k] = (op.imm >> k) & 1 ? ~0u : 0;
  LSSAR_LANES {
    const u32 x = a[i], y = b[i], z = c[i];
    d[i] = (~x & ~y & ~z & terms[0]) | (~x & ~y & z & terms[1]) | (~x & y & ~z & terms[2]) |
           (~x & y & z & terms[3]) | (x & ~y & ~z & terms[4]) | (x & ~y & z & terms[5]) |
           (x & y & ~z & terms[6]) | (x & y & z & terms[7]);
  }
}

// Predicates are masks, so one word has all lanes.
template <class F>
void binary_mask(Warp& w, const Op& op) {
  mask_of(w, op.dst) = F::apply(mask_of(w, op.a), mask_of(w, op.b));
}
void not_mask(Warp& w, const Op& op) { mask_of(w, op.dst) = ~mask_of(w, op.a); }

template <class T>
void selp(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.dst);
  const T* a = lanes<T>(w, op.a);
  const T* b = lanes<T>(w, op.b);
  const u32 p = mask_of(w, op.c) ^ (op.flags & kOpNegated ? kAllLanes : 0);
  LSSAR_LANES d[i] = (p >> i) & 1 ? a[i] : b[i];
}
struct Slct {
  template <class T, class C>
  static T apply(T a, T b, C c) {
    return c >= 0 ? a : b;
  }
};
struct SlctFtz {
  template <class T>
  static T apply(T a, T b, f32 c) {
    return flush(c) >= 0 ? a : b;
  }
};

#define PRMT_MODE(name, s0, s1, s2, s3)                                                    \
  {                                                                                        \
    "prmt.b32." name, Bind::kAlu, "wwww",                                                  \
        ternary_of<PrmtMode<u64{s3} << 48 | u64{s2} << 32 | u64{s1} << 16 | u64{s0}>, u32> \
  }

const Row kRows[] = {
    {"and.b16", Bind::kAlu, "hhh", binary_of<And, u16>},
    {"and.b32", Bind::kAlu, "www", binary_of<And, u32>},
    {"and.b64", Bind::kAlu, "lll", binary_of<And, u64>},
    {"and.pred", Bind::kAlu, "ppp", binary_mask<And>},
    {"or.b16", Bind::kAlu, "hhh", binary_of<Or, u16>},
    {"or.b32", Bind::kAlu, "www", binary_of<Or, u32>},
    {"or.b64", Bind::kAlu, "lll", binary_of<Or, u64>},
    {"or.pred", Bind::kAlu, "ppp", binary_mask<Or>},
    {"xor.b16", Bind::kAlu, "hhh", binary_of<Xor, u16>},
    {"xor.b32", Bind::kAlu, "www", binary_of<Xor, u32>},
    {"xor.b64", Bind::kAlu, "lll", binary_of<Xor, u64>},
    {"xor.pred", Bind::kAlu, "ppp", binary_mask<Xor>},
    {"not.b16", Bind::kAlu, "hh", unary_of<Not, u16>},
    {"not.b32", Bind::kAlu, "ww", unary_of<Not, u32>},
    {"not.b64", Bind::kAlu, "ll", unary_of<Not, u64>},
    {"not.pred", Bind::kAlu, "pp", not_mask},
    {"cnot.b16", Bind::kAlu, "hh", unary_of<Cnot, u16>},
    {"cnot.b32", Bind::kAlu, "ww", unary_of<Cnot, u32>},
    {"cnot.b64", Bind::kAlu, "ll", unary_of<Cnot, u64>},
    {"shl.b16", Bind::kAlu, "hhw", binary<Shl, u16, u16, u32>},
    {"shl.b32", Bind::kAlu, "www", binary<Shl, u32, u32, u32>},
    {"shl.b64", Bind::kAlu, "llw", binary<Shl, u64, u64, u32>},
    {"shr.(b16|u16)", Bind::kAlu, "hhw", binary<Shr, u16, u16, u32>},
    {"shr.s16", Bind::kAlu, "hhw", binary<Shr, s16, s16, u32>},
    {"shr.(b32|u32)", Bind::kAlu, "www", binary<Shr, u32, u32, u32>},
    {"shr.s32", Bind::kAlu, "www", binary<Shr, s32, s32, u32>},
    {"shr.(b64|u64)", Bind::kAlu, "llw", binary<Shr, u64, u64, u32>},
    {"shr.s64", Bind::kAlu, "llw", binary<Shr, s64, s64, u32>},
    {"shf.l.wrap.b32", Bind::kAlu, "wwww", ternary_of<ShfLeft<true>, u32>},
    {"shf.l.clamp.b32", Bind::kAlu, "wwww", ternary_of<ShfLeft<false>, u32>},
    {"shf.r.wrap.b32", Bind::kAlu, "wwww", ternary_of<ShfRight<true>, u32>},
    {"shf.r.clamp.b32", Bind::kAlu, "wwww", ternary_of<ShfRight<false>, u32>},
    {"bfe.u32", Bind::kAlu, "wwww", ternary<Bfe, u32, u32, u32, u32>},
    {"bfe.s32", Bind::kAlu, "wwww", ternary<Bfe, s32, s32, u32, u32>},
    {"bfe.u64", Bind::kAlu, "llww", ternary<Bfe, u64, u64, u32, u32>},
    {"bfe.s64", Bind::kAlu, "llww", ternary<Bfe, s64, s64, u32, u32>},
    {"bfi.b32", Bind::kAlu, "wwwww", bfi<u32>},
    {"bfi.b64", Bind::kAlu, "lllww", bfi<u64>},
    {"brev.b32", Bind::kAlu, "ww", unary_of<Brev, u32>},
    {"brev.b64", Bind::kAlu, "ll", unary_of<Brev, u64>},
    {"popc.b32", Bind::kAlu, "ww", unary<Popc, u32, u32>},
    {"popc.b64", Bind::kAlu, "wl", unary<Popc, u32, u64>},
    {"clz.b32", Bind::kAlu, "ww", unary<Clz, u32, u32>},
    {"clz.b64", Bind::kAlu, "wl", unary<Clz, u32, u64>},
    {"bfind.u32", Bind::kAlu, "ww", unary<Bfind<false>, u32, u32>},
    {"bfind.s32", Bind::kAlu, "ww", unary<Bfind<false>, u32, s32>},
    {"bfind.u64", Bind::kAlu, "wl", unary<Bfind<false>, u32, u64>},
    {"bfind.s64", Bind::kAlu, "wl", unary<Bfind<false>, u32, s64>},
    {"bfind.shiftamt.u32", Bind::kAlu, "ww", unary<Bfind<true>, u32, u32>},
    {"bfind.shiftamt.s32", Bind::kAlu, "ww", unary<Bfind<true>, u32, s32>},
    {"bfind.shiftamt.u64", Bind::kAlu, "wl", unary<Bfind<true>, u32, u64>},
    {"bfind.shiftamt.s64", Bind::kAlu, "wl", unary<Bfind<true>, u32, s64>},
    {"prmt.b32", Bind::kAlu, "wwww", ternary_of<Prmt, u32>},
    PRMT_MODE("f4e", 0x3210, 0x4321, 0x5432, 0x6543),
    PRMT_MODE("b4e", 0x5670, 0x6701, 0x7012, 0x0123),
    PRMT_MODE("rc8", 0x0000, 0x1111, 0x2222, 0x3333),
    PRMT_MODE("ecl", 0x3210, 0x3211, 0x3222, 0x3333),
    PRMT_MODE("ecr", 0x0000, 0x1110, 0x2210, 0x3210),
    PRMT_MODE("rc16", 0x1010, 0x3232, 0x1010, 0x3232),
    {"szext.clamp.u32", Bind::kAlu, "www", binary_of<Szext<true, u32>, u32>},
    {"szext.wrap.u32", Bind::kAlu, "www", binary_of<Szext<false, u32>, u32>},
    {"szext.clamp.s32", Bind::kAlu, "www", binary_of<Szext<true, s32>, u32>},
    {"szext.wrap.s32", Bind::kAlu, "www", binary_of<Szext<false, s32>, u32>},
    {"bmsk.clamp.b32", Bind::kAlu, "www", binary_of<Bmsk<true>, u32>},
    {"bmsk.wrap.b32", Bind::kAlu, "www", binary_of<Bmsk<false>, u32>},
    {"fns.b32", Bind::kAlu, "wwww", ternary_of<Fns, u32>},
    {"lop3.b32", Bind::kAlu, "wwwwi", lop3},
    {"selp.(b16|u16|s16|f16|bf16)", Bind::kAlu, "hhhp", selp<u16>},
    {"selp.(b32|u32|s32|f32)", Bind::kAlu, "wwwp", selp<u32>},
    {"selp.(b64|u64|s64|f64)", Bind::kAlu, "lllp", selp<u64>},
    {"slct.(b16|u16|s16).s32", Bind::kAlu, "hhhw", ternary<Slct, u16, u16, u16, s32>},
    {"slct.(b32|u32|s32|f32).s32", Bind::kAlu, "wwww", ternary<Slct, u32, u32, u32, s32>},
    {"slct.(b64|u64|s64|f64).s32", Bind::kAlu, "lllw", ternary<Slct, u64, u64, u64, s32>},
    {"slct.(b16|u16|s16).f32", Bind::kAlu, "hhhw", ternary<Slct, u16, u16, u16, f32>},
    {"slct.(b32|u32|s32|f32).f32", Bind::kAlu, "wwww", ternary<Slct, u32, u32, u32, f32>},
    {"slct.(b64|u64|s64|f64).f32", Bind::kAlu, "lllw", ternary<Slct, u64, u64, u64, f32>},
    {"slct.ftz.(b16|u16|s16).f32", Bind::kAlu, "hhhw", ternary<SlctFtz, u16, u16, u16, f32>},
    {"slct.ftz.(b32|u32|s32|f32).f32", Bind::kAlu, "wwww", ternary<SlctFtz, u32, u32, u32, f32>},
    {"slct.ftz.(b64|u64|s64|f64).f32", Bind::kAlu, "lllw", ternary<SlctFtz, u64, u64, u64, f32>},
};

}  // namespace

LSSAR_ROWS(kBitRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
