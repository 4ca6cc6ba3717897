// Integers packed in a register: pairs of 16 bits, and dot products of bytes and pairs.
#include "virtual/ops/rows.h"
#include "virtual/state/binary_functions.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

using functions::Add;
using functions::Max;
using functions::Min;

template <class F>
struct Relu {
  static s16 apply(s16 a, s16 b) {
    const s16 r = F::apply(a, b);
    return r > 0 ? r : static_cast<s16>(0);
  }
};
template <class F, class T>
struct Pair {
  static u32 apply(u32 a, u32 b) {
    const T low = F::apply(static_cast<T>(a), static_cast<T>(b));
    const T high = F::apply(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
    return static_cast<u32>(static_cast<u16>(high)) << 16 | static_cast<u16>(low);
  }
};

// Elements A of a and B of b. Products have 32 bits and wrap.
template <class T>
inline u32 element(u32 x, u32 k) {
  return static_cast<u32>(static_cast<T>(x >> (8 * sizeof(T) * k)));
}
template <class A, class B>
struct Dot4 {
  static u32 apply(u32 a, u32 b, u32 c) {
    for (u32 k = 0; k < 4; ++k) c += element<A>(a, k) * element<B>(b, k);
    return c;
  }
};
template <class A, class B, u32 kFirst>
struct Dot2 {
  static u32 apply(u32 a, u32 b, u32 c) {
    for (u32 k = 0; k < 2; ++k) c += element<A>(a, k) * element<B>(b, kFirst + k);
    return c;
  }
};

#define DOT(types, a4, a2, b)                                                    \
  {"dp4a." types, Bind::kAlu, "wwww", ternary_of<Dot4<a4, b>, u32>},             \
      {"dp2a.lo." types, Bind::kAlu, "wwww", ternary_of<Dot2<a2, b, 0>, u32>}, { \
    "dp2a.hi." types, Bind::kAlu, "wwww", ternary_of<Dot2<a2, b, 2>, u32>        \
  }

const Row kRows[] = {
    {"add.(u16x2|s16x2)", Bind::kAlu, "www", binary_of<Pair<Add, u16>, u32>},
    {"min.u16x2", Bind::kAlu, "www", binary_of<Pair<Min, u16>, u32>},
    {"max.u16x2", Bind::kAlu, "www", binary_of<Pair<Max, u16>, u32>},
    {"min.s16x2", Bind::kAlu, "www", binary_of<Pair<Min, s16>, u32>},
    {"max.s16x2", Bind::kAlu, "www", binary_of<Pair<Max, s16>, u32>},
    {"min.relu.s16x2", Bind::kAlu, "www", binary_of<Pair<Relu<Min>, s16>, u32>},
    {"max.relu.s16x2", Bind::kAlu, "www", binary_of<Pair<Relu<Max>, s16>, u32>},
    {"min.s16x2.relu", Bind::kAlu, "www", binary_of<Pair<Relu<Min>, s16>, u32>},
    {"max.s16x2.relu", Bind::kAlu, "www", binary_of<Pair<Relu<Max>, s16>, u32>},
    DOT("u32.u32", u8, u16, u8),
    DOT("u32.s32", u8, u16, s8),
    DOT("s32.u32", s8, s16, u8),
    DOT("s32.s32", s8, s16, s8),
};

}  // namespace

LSSAR_ROWS(kPackedRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
