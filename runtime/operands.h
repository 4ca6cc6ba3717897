// The tensors of one call as a list with names and shapes, and the questions about their memory:
// extents and overlaps.
//
// Internal to runtime/: call.cpp checks calls with it, executor.cpp tells the device which ranges a
// call touches. Threads: plain values and pure functions; nothing here allocates.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

#include "base/status.h"
#include "runtime/call.h"

namespace lssar {

struct Operand {
  const char* name = "";
  DevicePtr data = 0;
  int64_t sizes[3] = {0, 0, 0};    // batch, heads, length
  int64_t strides[3] = {0, 0, 0};  // of sizes, in elements
  int64_t dim = 0;                 // contiguous elements of a row
  int elem_bytes = 1;
  int alignment = 1;  // must divide data and the strides of sizes above 1, in bytes
  bool written = false;
  bool is_fixed = false;  // its alignment is not the problem's

  bool empty() const { return sizes[0] == 0 || sizes[1] == 0 || sizes[2] == 0 || dim == 0; }
};

struct Operands {
  // A backward of sequences with sinks, slopes and rotary positions has 21.
  static constexpr int kCapacity = 24;
  std::array<Operand, kCapacity> items;
  int count = 0;

  void add(const Operand& operand) {
    assert(count < kCapacity && "more operands than any call has");
    items[count++] = operand;
  }
  const Operand* begin() const { return items.data(); }
  const Operand* end() const { return items.data() + count; }
};

// Every operand of the problem's pass, including empty ones. The workspace is a written operand of
// `workspace_bytes` bytes.
Operands list_operands(const Problem& problem, const TensorShapes& shapes, const SavedBytes& saved,
                       const Tensors& tensors, DevicePtr workspace, size_t workspace_bytes);

// check_tensors of the operands, the last of which is the workspace.
Status check_operands(const Operands& operands, const Workspace& workspace);

// Bytes from data to the end of the last element. kInvalidArgument if that overflows.
Result<int64_t> extent_bytes(const Operand& operand);

// Whether two of its elements may lie at one address. Strides must nest: sorted, each must be at
// least the extent of what is inside it.
bool overlaps_itself(const Operand& operand);

// Whether an element of one certainly shares a byte with an element of the other. Exact for usual
// layouts (contiguous, packed q/k/v). If deciding would take too long, the answer is false.
// REQUIRES: extent_bytes of both is ok, and neither is empty.
bool certainly_overlap(const Operand& a, const Operand& b);

}  // namespace lssar
