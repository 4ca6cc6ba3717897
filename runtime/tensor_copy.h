// Copies tensors between device memory, strided, and host memory, packed: [batch, heads, length,
// dim] without gaps, in the same type.
//
// Used by captures and by the command. Threads: as Device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "runtime/operands.h"

namespace lssar {

// Bytes of the operand without gaps. kInvalidArgument if that overflows.
Result<size_t> packed_bytes(const Operand& operand);

// Reads an operand. Memory between its elements is read too, but not kept. The memory may be the
// caller's own, as for execute. Blocks, but does not wait for work enqueued earlier: the caller
// must. Errors: the device's, kOutOfMemory, extent_bytes'.
Result<std::string> read_operand(Device& device, const Operand& operand);

// Writes an operand. Memory between its elements becomes 0. kInvalidArgument if the size of
// `packed` is not packed_bytes.
Status write_operand(Device& device, const Operand& operand, const std::string& packed);

}  // namespace lssar
