// What atomic instructions and bulk reductions make of the old value in memory and an operand, and
// the loop that does so atomically, between host threads too.
//
// Included where registers.h is, and compiled like it.
#pragma once

#include "virtual/state/binary_functions.h"
#include "virtual/state/registers.h"

namespace lssar::vdev::LSSAR_SIMD::updates {

using functions::Add;
using functions::And;
using functions::Max;
using functions::Min;
using functions::Or;
using functions::Xor;

struct Increment {  // wraps to 0 after b
  static u32 apply(u32 old, u32 b) { return old >= b ? 0 : old + 1; }
};
struct Decrement {  // wraps to b below 0, and from above b
  static u32 apply(u32 old, u32 b) { return old == 0 || old > b ? b : old - 1; }
};
// f16 and bf16. NOTE: a float has more than twice their digits, so rounding its sum is exact.
struct HalfAdd {
  template <class T>
  static T apply(T old, T b) {
    return round_to<T>(to_float(old) + to_float(b));
  }
};
template <bool kSmaller>
struct HalfExtreme {  // a NaN loses against a number, -0 lies below +0
  template <class T>
  static T apply(T old, T b) {
    const f32 x = to_float(old), y = to_float(b);
    if (x != x) return y != y ? T{kHalfNan} : b;
    if (y != y) return old;
    const bool b_smaller = y < x || (y == x && (b.bits & 0x8000u) != 0);
    return b_smaller == kSmaller ? b : old;
  }
};
using HalfMin = HalfExtreme<true>;
using HalfMax = HalfExtreme<false>;

template <u32 kBytes>
struct BitsOf;
template <>
struct BitsOf<2> {
  using type = u16;
};
template <>
struct BitsOf<4> {
  using type = u32;
};
template <>
struct BitsOf<8> {
  using type = u64;
};

// Replaces *p by F(*p, b); returns the old value.
template <class F, class T>
inline T update(u8* p, T b) {
  using Bits = typename BitsOf<sizeof(T)>::type;
  Bits* target = reinterpret_cast<Bits*>(p);
  Bits old = __atomic_load_n(target, __ATOMIC_RELAXED);
  for (;;) {
    const Bits wanted = bits_to<Bits>(static_cast<T>(F::apply(bits_to<T>(old), b)));
    if (__atomic_compare_exchange_n(target, &old, wanted, true, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
      return bits_to<T>(old);
    }
  }
}

}  // namespace lssar::vdev::LSSAR_SIMD::updates
