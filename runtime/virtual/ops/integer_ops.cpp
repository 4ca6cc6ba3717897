// Integer arithmetic, logic, shifts and bit fields.
#include "runtime/virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// Results wrap: computed without sign in 64 bits, then cut.
struct Add {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b));
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<u64>(a) - static_cast<u64>(b));
  }
};
template <class Wide>
struct MulWide {
  template <class T>
  static Wide apply(T a, T b) {
    return static_cast<Wide>(a) * static_cast<Wide>(b);
  }
};
struct MulLo {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b));
  }
};
template <class Wide, int kShift>
struct MulHi {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> kShift);
  }
};
struct MadLo {
  template <class T>
  static T apply(T a, T b, T c) {
    return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b) + static_cast<u64>(c));
  }
};
template <class Wide>
struct MadWide {
  template <class T>
  static Wide apply(T a, T b, Wide c) {
    return Add::apply(static_cast<Wide>(a) * static_cast<Wide>(b), c);
  }
};
template <class Wide, int kShift>
struct MadHi {
  template <class T>
  static T apply(T a, T b, T c) {
    return Add::apply(MulHi<Wide, kShift>::apply(a, b), c);
  }
};
// By zero: the quotient has every bit set, the remainder is the dividend.
template <class T>
constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
struct Div {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if (kSigned<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - static_cast<u64>(a));
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T apply(T a, T b) {
    if (b == 0) return a;
    if (kSigned<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b ? a : b;
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(a < 0 ? 0 - static_cast<u64>(a) : a);
  }
};
struct Neg {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(0 - static_cast<u64>(a));
  }
};
struct Sad {
  template <class T, class C>
  static C apply(T a, T b, C c) {
    const C x = static_cast<C>(a), y = static_cast<C>(b);
    return static_cast<C>(c + (a < b ? y - x : x - y));
  }
};

struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
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
// The highest bit that is not a copy of the sign; -1 where there is none.
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

// Predicates are masks: one word stands for all lanes.
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

using i128 = __int128;

const Row kRows[] = {
    {"add.(u16|s16)", Bind::kAlu, "hhh", binary_of<Add, u16>},
    {"add.(u32|s32)", Bind::kAlu, "www", binary_of<Add, u32>},
    {"add.(u64|s64)", Bind::kAlu, "lll", binary_of<Add, u64>},
    {"sub.(u16|s16)", Bind::kAlu, "hhh", binary_of<Sub, u16>},
    {"sub.(u32|s32)", Bind::kAlu, "www", binary_of<Sub, u32>},
    {"sub.(u64|s64)", Bind::kAlu, "lll", binary_of<Sub, u64>},
    {"mul.lo.(u16|s16)", Bind::kAlu, "hhh", binary_of<MulLo, u16>},
    {"mul.lo.(u32|s32)", Bind::kAlu, "www", binary_of<MulLo, u32>},
    {"mul.lo.(u64|s64)", Bind::kAlu, "lll", binary_of<MulLo, u64>},
    {"mul.hi.u16", Bind::kAlu, "hhh", binary_of<MulHi<u32, 16>, u16>},
    {"mul.hi.s16", Bind::kAlu, "hhh", binary_of<MulHi<s32, 16>, s16>},
    {"mul.hi.u32", Bind::kAlu, "www", binary_of<MulHi<u64, 32>, u32>},
    {"mul.hi.s32", Bind::kAlu, "www", binary_of<MulHi<s64, 32>, s32>},
    {"mul.hi.u64", Bind::kAlu, "lll", binary_of<MulHi<unsigned __int128, 64>, u64>},
    {"mul.hi.s64", Bind::kAlu, "lll", binary_of<MulHi<i128, 64>, s64>},
    {"mul.wide.u16", Bind::kAlu, "whh", binary<MulWide<u32>, u32, u16, u16>},
    {"mul.wide.s16", Bind::kAlu, "whh", binary<MulWide<s32>, s32, s16, s16>},
    {"mul.wide.u32", Bind::kAlu, "lww", binary<MulWide<u64>, u64, u32, u32>},
    {"mul.wide.s32", Bind::kAlu, "lww", binary<MulWide<s64>, s64, s32, s32>},
    {"mad.lo.(u16|s16)", Bind::kAlu, "hhhh", ternary_of<MadLo, u16>},
    {"mad.lo.(u32|s32)", Bind::kAlu, "wwww", ternary_of<MadLo, u32>},
    {"mad.lo.(u64|s64)", Bind::kAlu, "llll", ternary_of<MadLo, u64>},
    {"mad.hi.u32", Bind::kAlu, "wwww", ternary_of<MadHi<u64, 32>, u32>},
    {"mad.hi.s32", Bind::kAlu, "wwww", ternary_of<MadHi<s64, 32>, s32>},
    {"mad.wide.u16", Bind::kAlu, "whhw", ternary<MadWide<u32>, u32, u16, u16, u32>},
    {"mad.wide.s16", Bind::kAlu, "whhw", ternary<MadWide<s32>, s32, s16, s16, s32>},
    {"mad.wide.u32", Bind::kAlu, "lwwl", ternary<MadWide<u64>, u64, u32, u32, u64>},
    {"mad.wide.s32", Bind::kAlu, "lwwl", ternary<MadWide<s64>, s64, s32, s32, s64>},
    {"div.u16", Bind::kAlu, "hhh", binary_of<Div, u16>},
    {"div.s16", Bind::kAlu, "hhh", binary_of<Div, s16>},
    {"div.u32", Bind::kAlu, "www", binary_of<Div, u32>},
    {"div.s32", Bind::kAlu, "www", binary_of<Div, s32>},
    {"div.u64", Bind::kAlu, "lll", binary_of<Div, u64>},
    {"div.s64", Bind::kAlu, "lll", binary_of<Div, s64>},
    {"rem.u16", Bind::kAlu, "hhh", binary_of<Rem, u16>},
    {"rem.s16", Bind::kAlu, "hhh", binary_of<Rem, s16>},
    {"rem.u32", Bind::kAlu, "www", binary_of<Rem, u32>},
    {"rem.s32", Bind::kAlu, "www", binary_of<Rem, s32>},
    {"rem.u64", Bind::kAlu, "lll", binary_of<Rem, u64>},
    {"rem.s64", Bind::kAlu, "lll", binary_of<Rem, s64>},
    {"min.u16", Bind::kAlu, "hhh", binary_of<Min, u16>},
    {"min.s16", Bind::kAlu, "hhh", binary_of<Min, s16>},
    {"min.u32", Bind::kAlu, "www", binary_of<Min, u32>},
    {"min.s32", Bind::kAlu, "www", binary_of<Min, s32>},
    {"min.u64", Bind::kAlu, "lll", binary_of<Min, u64>},
    {"min.s64", Bind::kAlu, "lll", binary_of<Min, s64>},
    {"max.u16", Bind::kAlu, "hhh", binary_of<Max, u16>},
    {"max.s16", Bind::kAlu, "hhh", binary_of<Max, s16>},
    {"max.u32", Bind::kAlu, "www", binary_of<Max, u32>},
    {"max.s32", Bind::kAlu, "www", binary_of<Max, s32>},
    {"max.u64", Bind::kAlu, "lll", binary_of<Max, u64>},
    {"max.s64", Bind::kAlu, "lll", binary_of<Max, s64>},
    {"abs.s16", Bind::kAlu, "hh", unary_of<Abs, s16>},
    {"abs.s32", Bind::kAlu, "ww", unary_of<Abs, s32>},
    {"abs.s64", Bind::kAlu, "ll", unary_of<Abs, s64>},
    {"neg.s16", Bind::kAlu, "hh", unary_of<Neg, s16>},
    {"neg.s32", Bind::kAlu, "ww", unary_of<Neg, s32>},
    {"neg.s64", Bind::kAlu, "ll", unary_of<Neg, s64>},
    {"sad.u32", Bind::kAlu, "wwww", ternary_of<Sad, u32>},
    {"sad.s32", Bind::kAlu, "wwww", ternary<Sad, u32, s32, s32, u32>},
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
    {"prmt.b32", Bind::kAlu, "wwww", ternary_of<Prmt, u32>},
    {"lop3.b32", Bind::kAlu, "wwwwi", lop3},
    {"selp.(b16|u16|s16|f16|bf16)", Bind::kAlu, "hhhp", selp<u16>},
    {"selp.(b32|u32|s32|f32)", Bind::kAlu, "wwwp", selp<u32>},
    {"selp.(b64|u64|s64|f64)", Bind::kAlu, "lllp", selp<u64>},
    {"slct.(b32|u32|s32|f32).s32", Bind::kAlu, "wwww", ternary<Slct, u32, u32, u32, s32>},
    {"slct[.ftz].(b32|u32|s32|f32).f32", Bind::kAlu, "wwww", ternary<Slct, u32, u32, u32, f32>},
    {"slct.(b64|u64|s64|f64).s32", Bind::kAlu, "lllw", ternary<Slct, u64, u64, u64, s32>},
};

}  // namespace

LSSAR_ROWS(kIntegerRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
