// Tensors between device memory, where they lie as their strides say, and host memory, where they
// are packed: [batch, heads, length, dim] without gaps, in the type that they have.
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

// Bytes of the operand without gaps. kInvalidArgument where that overflows.
Result<size_t> packed_bytes(const Operand& operand);

// The elements of an operand; memory between them is not kept, but is read. The memory may be the
// caller's own, as that of an execute. Blocks; what was enqueued before has to be waited for by
// the caller. Errors: the device's, kOutOfMemory, extent_bytes'.
Result<std::string> read_operand(Device& device, const Operand& operand);

// The reverse; memory between elements becomes 0. kInvalidArgument where `packed` has another size
// than packed_bytes.
Status write_operand(Device& device, const Operand& operand, const std::string& packed);

}  // namespace lssar
