#include "virtual/async/bulk_reduce.h"

#define LSSAR_SIMD plain
#include "virtual/state/atomic_update.h"

namespace lssar::vdev {
namespace {

using namespace plain;
using namespace plain::updates;

struct FloatAdd {
  static f32 apply(f32 old, f32 b) {
    const f32 sum = flush(flush(old) + flush(b));
    return sum != sum ? bits_to<f32>(kFloatNan) : sum;
  }
};

// Elements are aligned to their size. NOTE: elements, also halves, are updated one by one. Atomic
// operations of different sizes are not atomic against each other on every machine, and a box may
// begin at an odd half.
template <class F, class T>
void reduce(u8* destination, const u8* source, u32 bytes) {
  for (u32 i = 0; i < bytes; i += sizeof(T)) {
    T b;
    memcpy(&b, source + i, sizeof(T));
    update<F, T>(destination + i, b);
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
      return reduce<HalfAdd, f16>;
    case NumberType::kBf16:
      return reduce<HalfAdd, bf16>;
    case NumberType::kF32:
      return reduce<FloatAdd, f32>;
    case NumberType::kF64:
      return reduce<Add, f64>;
    default:
      return nullptr;
  }
}

template <class F, class HalfF>
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
      return reduce<HalfF, f16>;
    case NumberType::kBf16:
      return reduce<HalfF, bf16>;
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
      return find_extreme<Min, HalfMin>(type);
    case BulkReduceOp::kMax:
      return find_extreme<Max, HalfMax>(type);
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
