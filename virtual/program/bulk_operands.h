// Operands of the bulk instructions (cp.async.bulk, cp.reduce.async.bulk, their tensor forms, and
// instructions on tensor maps), as Bind::kBulk binds them. The operand binder makes them, the
// handlers read them.
//
// NOTE: compiled for several instruction sets, like program.h: plain data only.
#pragma once

#include <cstdint>

#include "virtual/program/program.h"

namespace lssar::vdev {

enum class BulkReduceOp : uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };
inline constexpr int kNumBulkReduceOps = 8;

enum class BulkKind : uint8_t {
  kLoad,          // global to shared memory of one or many blocks of the cluster; mbarrier
  kStore,         // shared to global memory; bulk group
  kCopy,          // shared memory to that of a block of the cluster; mbarrier
  kReduce,        // like kStore
  kReduceShared,  // like kCopy
  kPrefetch,
};

// Op::imm of a bulk instruction.
struct BulkForm {
  BulkKind kind;
  uint8_t rank;  // of the tensor; 0 without one
  BulkReduceOp reduce;
  NumberType type;    // of a reduction without a tensor map
  uint8_t multicast;  // to the blocks of a mask
  uint8_t unused[3];
};
static_assert(sizeof(BulkForm) == sizeof(int64_t), "it is kept in Op::imm");

// An address: a register (kNoRegister: none) plus an offset.
struct BulkAddress {
  uint32_t base;
  uint32_t wide;  // the register has 64 bits
  int64_t offset;
};

// Op::list of a bulk instruction points to one. Registers are kNoRegister where the form has none.
struct BulkOperands {
  BulkAddress destination;  // of tensor stores and reductions: the map's address
  BulkAddress source;       // of tensor loads and prefetches: the map's address
  BulkAddress barrier;
  uint32_t bytes;         // 32 bits
  uint32_t block_mask;    // 16 bits, of multicasts
  uint32_t cache_policy;  // 64 bits; has no effect
  uint32_t coordinates[5];
};
static_assert(sizeof(BulkOperands) % sizeof(uint32_t) == 0, "it is kept in a list of registers");

}  // namespace lssar::vdev
