// Integer arithmetic of one value per register.
#include "virtual/ops/rows.h"
#include "virtual/state/binary_functions.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

using functions::Max;
using functions::Min;

// Results wrap: they are computed unsigned in 64 bits, then truncated.
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
// Division by zero: the quotient has every bit set, the remainder is the dividend.
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

inline s32 saturate_s32(s64 x) {
  return static_cast<s32>(x > 0x7fffffff ? 0x7fffffff : x < -0x80000000ll ? -0x80000000ll : x);
}
struct AddSat {
  static s32 apply(s32 a, s32 b) { return saturate_s32(static_cast<s64>(a) + b); }
};
struct SubSat {
  static s32 apply(s32 a, s32 b) { return saturate_s32(static_cast<s64>(a) - b); }
};
// Multiplies the low 24 bits of each factor, with the sign of Wide. 32 of the product's 48 bits are
// kept.
template <class Wide>
inline Wide low24(u32 x) {
  return static_cast<Wide>(static_cast<u64>(x) << 40) >> 40;
}
template <class Wide, int kShift>
struct Mul24 {
  static u32 apply(u32 a, u32 b) {
    return static_cast<u32>((low24<Wide>(a) * low24<Wide>(b)) >> kShift);
  }
};
template <class Wide, int kShift>
struct Mad24 {
  static u32 apply(u32 a, u32 b, u32 c) { return Mul24<Wide, kShift>::apply(a, b) + c; }
};
template <int kBits>
struct MadHiSat {
  static s32 apply(s32 a, s32 b, s32 c) {
    const s32 high =
        kBits == 24
            ? static_cast<s32>(Mul24<s64, 16>::apply(static_cast<u32>(a), static_cast<u32>(b)))
            : static_cast<s32>((static_cast<s64>(a) * b) >> 32);
    return saturate_s32(static_cast<s64>(high) + c);
  }
};
template <class F>
struct Relu {
  static s32 apply(s32 a, s32 b) {
    const s32 r = F::apply(a, b);
    return r > 0 ? r : 0;
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
    {"add.sat.s32", Bind::kAlu, "www", binary_of<AddSat, s32>},
    {"sub.sat.s32", Bind::kAlu, "www", binary_of<SubSat, s32>},
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
    {"mad.hi.u16", Bind::kAlu, "hhhh", ternary_of<MadHi<u32, 16>, u16>},
    {"mad.hi.s16", Bind::kAlu, "hhhh", ternary_of<MadHi<s32, 16>, s16>},
    {"mad.hi.u64", Bind::kAlu, "llll", ternary_of<MadHi<unsigned __int128, 64>, u64>},
    {"mad.hi.s64", Bind::kAlu, "llll", ternary_of<MadHi<i128, 64>, s64>},
    {"mad.hi.sat.s32", Bind::kAlu, "wwww", ternary_of<MadHiSat<32>, s32>},
    {"mul24.lo.u32", Bind::kAlu, "www", binary_of<Mul24<u64, 0>, u32>},
    {"mul24.lo.s32", Bind::kAlu, "www", binary_of<Mul24<s64, 0>, u32>},
    {"mul24.hi.u32", Bind::kAlu, "www", binary_of<Mul24<u64, 16>, u32>},
    {"mul24.hi.s32", Bind::kAlu, "www", binary_of<Mul24<s64, 16>, u32>},
    {"mad24.lo.u32", Bind::kAlu, "wwww", ternary_of<Mad24<u64, 0>, u32>},
    {"mad24.lo.s32", Bind::kAlu, "wwww", ternary_of<Mad24<s64, 0>, u32>},
    {"mad24.hi.u32", Bind::kAlu, "wwww", ternary_of<Mad24<u64, 16>, u32>},
    {"mad24.hi.s32", Bind::kAlu, "wwww", ternary_of<Mad24<s64, 16>, u32>},
    {"mad24.hi.sat.s32", Bind::kAlu, "wwww", ternary_of<MadHiSat<24>, s32>},
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
    {"min.relu.s32", Bind::kAlu, "www", binary_of<Relu<Min>, s32>},
    {"max.relu.s32", Bind::kAlu, "www", binary_of<Relu<Max>, s32>},
    {"min.s32.relu", Bind::kAlu, "www", binary_of<Relu<Min>, s32>},
    {"max.s32.relu", Bind::kAlu, "www", binary_of<Relu<Max>, s32>},
    {"abs.s16", Bind::kAlu, "hh", unary_of<Abs, s16>},
    {"abs.s32", Bind::kAlu, "ww", unary_of<Abs, s32>},
    {"abs.s64", Bind::kAlu, "ll", unary_of<Abs, s64>},
    {"neg.s16", Bind::kAlu, "hh", unary_of<Neg, s16>},
    {"neg.s32", Bind::kAlu, "ww", unary_of<Neg, s32>},
    {"neg.s64", Bind::kAlu, "ll", unary_of<Neg, s64>},
    {"sad.u16", Bind::kAlu, "hhhh", ternary_of<Sad, u16>},
    {"sad.s16", Bind::kAlu, "hhhh", ternary<Sad, u16, s16, s16, u16>},
    {"sad.u64", Bind::kAlu, "llll", ternary_of<Sad, u64>},
    {"sad.s64", Bind::kAlu, "llll", ternary<Sad, u64, s64, s64, u64>},
    {"sad.u32", Bind::kAlu, "wwww", ternary_of<Sad, u32>},
    {"sad.s32", Bind::kAlu, "wwww", ternary<Sad, u32, s32, s32, u32>},
};

}  // namespace

LSSAR_ROWS(kIntegerRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
