#include "virtual/async/bulk_reduce.h"

#define LSSAR_SIMD plain
#include "virtual/state/registers.h"

namespace lssar::vdev {
namespace {

using namespace plain;

template <class T>
constexpr bool kIsHalf = false;
template <>
constexpr bool kIsHalf<f16> = true;
template <>
constexpr bool kIsHalf<bf16> = true;

template <class T>
bool is_nan(T x) {
  if constexpr (kIsHalf<T>) {
    return is_nan(to_float(x));
  } else {
    return x != x;
  }
}

struct Add {
  template <class T>
  static T apply(T old, T b) {
    if constexpr (kIsHalf<T>) {
      // Rounding twice equals rounding once, because a float has more than twice a half's digits.
      return round_to<T>(to_float(old) + to_float(b));
    } else {
      return static_cast<T>(old + b);
    }
  }
  static f32 apply(f32 old, f32 b) {
    const f32 sum = flush(flush(old) + flush(b));
    return is_nan(sum) ? bits_to<f32>(kFloatNan) : sum;
  }
};

// A number wins over NaN; -0 is less than +0.
template <bool kWantSmaller>
struct Extreme {
  template <class T>
  static T apply(T old, T b) {
    if constexpr (kIsHalf<T>) {
      if (is_nan(old)) return is_nan(b) ? T{kHalfNan} : b;
      if (is_nan(b)) return old;
      const f32 x = to_float(old), y = to_float(b);
      const bool b_smaller = y < x || (y == x && (b.bits & 0x8000u) != 0);
      return b_smaller == kWantSmaller ? b : old;
    } else {
      return (b < old) == kWantSmaller ? b : old;
    }
  }
};
struct Increment {  // wraps to 0 after b
  static u32 apply(u32 old, u32 b) { return old >= b ? 0 : old + 1; }
};
struct Decrement {  // wraps to b below 0, and from above b
  static u32 apply(u32 old, u32 b) { return old == 0 || old > b ? b : old - 1; }
};
struct And {
  template <class T>
  static T apply(T old, T b) {
    return old & b;
  }
};
struct Or {
  template <class T>
  static T apply(T old, T b) {
    return old | b;
  }
};
struct Xor {
  template <class T>
  static T apply(T old, T b) {
    return old ^ b;
  }
};

template <size_t kBytes>
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

// Elements are aligned to their size. NOTE: elements, also halves, are updated one by one. Atomic
// operations of different sizes are not atomic against each other on every machine, and a box may
// begin at an odd half.
template <class F, class T>
void reduce(u8* destination, const u8* source, u32 bytes) {
  using Bits = typename BitsOf<sizeof(T)>::type;
  for (u32 i = 0; i < bytes; i += sizeof(T)) {
    T b;
    memcpy(&b, source + i, sizeof(T));
    Bits* const target = reinterpret_cast<Bits*>(destination + i);
    Bits old = __atomic_load_n(target, __ATOMIC_RELAXED);
    Bits wanted;
    do {
      wanted = bits_to<Bits>(F::apply(bits_to<T>(old), b));
    } while (!__atomic_compare_exchange_n(target, &old, wanted, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
  }
}

BulkReduce find_add(NumberType type) {
  switch (type) {
    case NumberType::kU32:
    case NumberType::kS32:  // the same bits
      return reduce<Add, u32>;
    case NumberType::kU64:
      return reduce<Add, u64>;
    case NumberType::kF16:
      return reduce<Add, f16>;
    case NumberType::kBf16:
      return reduce<Add, bf16>;
    case NumberType::kF32:
      return reduce<Add, f32>;
    case NumberType::kF64:
      return reduce<Add, f64>;
    default:
      return nullptr;
  }
}

template <class F>
BulkReduce find_extreme(NumberType type) {
  switch (type) {
    case NumberType::kU32:
      return reduce<F, u32>;
    case NumberType::kS32:
      return reduce<F, s32>;
    case NumberType::kU64:
      return reduce<F, u64>;
    case NumberType::kS64:
      return reduce<F, s64>;
    case NumberType::kF16:
      return reduce<F, f16>;
    case NumberType::kBf16:
      return reduce<F, bf16>;
    default:
      return nullptr;
  }
}

// Through a tensor map the bits of signed types are combined, too.
template <class F>
BulkReduce find_bitwise(NumberType type) {
  switch (type) {
    case NumberType::kU32:
    case NumberType::kS32:
      return reduce<F, u32>;
    case NumberType::kU64:
    case NumberType::kS64:
      return reduce<F, u64>;
    default:
      return nullptr;
  }
}

}  // namespace

BulkReduce bulk_reduce(BulkReduceOp op, NumberType type) {
  switch (op) {
    case BulkReduceOp::kAdd:
      return find_add(type);
    case BulkReduceOp::kMin:
      return find_extreme<Extreme<true>>(type);
    case BulkReduceOp::kMax:
      return find_extreme<Extreme<false>>(type);
    case BulkReduceOp::kInc:
      return type == NumberType::kU32 ? reduce<Increment, u32> : nullptr;
    case BulkReduceOp::kDec:
      return type == NumberType::kU32 ? reduce<Decrement, u32> : nullptr;
    case BulkReduceOp::kAnd:
      return find_bitwise<And>(type);
    case BulkReduceOp::kOr:
      return find_bitwise<Or>(type);
    case BulkReduceOp::kXor:
      return find_bitwise<Xor>(type);
  }
  return nullptr;
}

bool bulk_reduce_type(TensorDataType type, NumberType& number) {
  switch (type) {
    case TensorDataType::kUint32:
      number = NumberType::kU32;
      return true;
    case TensorDataType::kInt32:
      number = NumberType::kS32;
      return true;
    case TensorDataType::kUint64:
      number = NumberType::kU64;
      return true;
    case TensorDataType::kInt64:
      number = NumberType::kS64;
      return true;
    case TensorDataType::kFloat16:
      number = NumberType::kF16;
      return true;
    case TensorDataType::kBfloat16:
      number = NumberType::kBf16;
      return true;
    case TensorDataType::kFloat32:
    case TensorDataType::kFloat32Ftz:
    case TensorDataType::kTfloat32:
    case TensorDataType::kTfloat32Ftz:
      number = NumberType::kF32;
      return true;
    case TensorDataType::kFloat64:
      number = NumberType::kF64;
      return true;
    case TensorDataType::kUint8:
    case TensorDataType::kUint16:
      return false;
  }
  return false;
}

}  // namespace lssar::vdev
