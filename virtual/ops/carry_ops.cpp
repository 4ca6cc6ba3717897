// Extended-precision integers: carries go in and out through the lanes' carry flags.
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// a + b + carry, or with kSubtract a - b - carry. Returns the carry or borrow out.
template <bool kSubtract, class T>
inline u32 chain(T a, T b, u32 carry, T& result) {
  const T first = static_cast<T>(kSubtract ? a - b : a + b);
  result = static_cast<T>(kSubtract ? first - carry : first + carry);
  return kSubtract ? (a < b) | (first < carry) : (first < a) | (result < first);
}

inline void store_carry(Warp& w, u32 value) { w.carry = (w.carry & ~w.mask) | (value & w.mask); }

template <bool kSubtract, class T, bool kIn, bool kOut>
void add(Warp& w, const Op& op) {
  T* d = lanes<T>(w, op.dst);
  const T* a = lanes<T>(w, op.a);
  const T* b = lanes<T>(w, op.b);
  u32 carries = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    const u32 in = kIn ? (w.carry >> i) & 1 : 0;
    T result;
    carries |= chain<kSubtract, T>(a[i], b[i], in, result) << i;
    d[i] = result;
  }
  if (kOut) store_carry(w, carries);
}

template <class T>
struct Double;
template <>
struct Double<u32> {
  using Type = u64;
};
template <>
struct Double<s32> {
  using Type = s64;
};
template <>
struct Double<u64> {
  using Type = unsigned __int128;
};
template <>
struct Double<s64> {
  using Type = __int128;
};

// The product has Factor's sign. Sum is as wide, and unsigned.
template <class Factor, class Sum, bool kHigh, bool kIn, bool kOut>
void mad(Warp& w, const Op& op) {
  using Wide = typename Double<Factor>::Type;
  Sum* d = lanes<Sum>(w, op.dst);
  const Factor* a = lanes<Factor>(w, op.a);
  const Factor* b = lanes<Factor>(w, op.b);
  const Sum* c = lanes<Sum>(w, op.c);
  u32 carries = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    const Wide product = static_cast<Wide>(a[i]) * static_cast<Wide>(b[i]);
    const Sum part = static_cast<Sum>(kHigh ? product >> (8 * sizeof(Sum)) : product);
    const u32 in = kIn ? (w.carry >> i) & 1 : 0;
    Sum result;
    carries |= chain<false, Sum>(part, c[i], in, result) << i;
    d[i] = result;
  }
  if (kOut) store_carry(w, carries);
}

#define ADD_ROWS(name, subtract, in, out)                                \
  {name ".(u32|s32)", Bind::kAlu, "www", add<subtract, u32, in, out>}, { \
    name ".(u64|s64)", Bind::kAlu, "lll", add<subtract, u64, in, out>    \
  }
#define MAD_ROWS(name, cc, in, out)                                                    \
  {name ".lo" cc ".(u32|s32)", Bind::kAlu, "wwww", mad<u32, u32, false, in, out>},     \
      {name ".lo" cc ".(u64|s64)", Bind::kAlu, "llll", mad<u64, u64, false, in, out>}, \
      {name ".hi" cc ".u32", Bind::kAlu, "wwww", mad<u32, u32, true, in, out>},        \
      {name ".hi" cc ".s32", Bind::kAlu, "wwww", mad<s32, u32, true, in, out>},        \
      {name ".hi" cc ".u64", Bind::kAlu, "llll", mad<u64, u64, true, in, out>}, {      \
    name ".hi" cc ".s64", Bind::kAlu, "llll", mad<s64, u64, true, in, out>             \
  }

const Row kRows[] = {
    ADD_ROWS("add.cc", false, false, true), ADD_ROWS("addc", false, true, false),
    ADD_ROWS("addc.cc", false, true, true), ADD_ROWS("sub.cc", true, false, true),
    ADD_ROWS("subc", true, true, false),    ADD_ROWS("subc.cc", true, true, true),
    MAD_ROWS("mad", ".cc", false, true),    MAD_ROWS("madc", "", true, false),
    MAD_ROWS("madc", ".cc", true, true),
};

}  // namespace

LSSAR_ROWS(kCarryRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
