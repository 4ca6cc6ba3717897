// One bulk copy or reduction in flight: rows of global memory, a range of shared memory, and what
// it does with them when the async engine says so. The handlers in bulk_copy.cpp make it and have
// checked all addresses.
#pragma once

#include <cstdint>
#include <vector>

#include "virtual/async/async_engine.h"
#include "virtual/async/bulk_reduce.h"
#include "virtual/async/tensor_box.h"
#include "virtual/program/bulk_operands.h"
#include "virtual/state/units.h"

namespace lssar::vdev {

class Checker;

// A range of shared memory of one block of the cluster.
struct SharedRange {
  uint8_t* memory = nullptr;  // of the block
  uint32_t rank = 0;
  uint32_t address = 0;
};

class BulkOperation final : public AsyncOperation {
 public:
  BulkOperation(BulkKind kind, uint32_t num_bytes) : kind_(kind), bytes_(num_bytes) {}

  void read() override;
  void finish() override;

  // Set before it is issued, as far as its kind needs them.
  std::vector<BoxRow> rows;  // in global memory; `bytes` in all
  SharedRange from, to;
  TensorSwizzle swizzle = TensorSwizzle::kNone;
  TensorDataType type = TensorDataType::kUint8;  // for a load through a map
  TensorFill fill = TensorFill::kZeros;
  BulkReduce reduce = nullptr;
  Checker* checker = nullptr;  // null: not strict

 private:
  void write_rows();

  const BulkKind kind_;
  const uint32_t bytes_;
  std::vector<uint8_t> data_;  // what was read, in the order of the box
};

// Calls f(address, bytes) for ranges that together are the `bytes` at `address` after swizzling.
template <typename Function>
void for_each_swizzled_range(TensorSwizzle swizzle, uint32_t address, uint32_t bytes, Function f) {
  const uint32_t span = swizzle == TensorSwizzle::kNone ? 1 : swizzle_span_bytes(swizzle);
  if (address % span == 0 && bytes % span == 0) {  // chunks only change places among themselves
    f(address, bytes);
    return;
  }
  for (uint32_t at = address; at < address + bytes; at += kChunkBytes) {
    f(swizzle_address(swizzle, at), kChunkBytes);
  }
}

}  // namespace lssar::vdev
