#include "tools/lssar/call/call_memory.h"

#include <utility>

#include "runtime/capture.h"
#include "runtime/tensor_copy.h"

namespace lssar::command {
namespace {

constexpr DevicePtr kBufferAlignment = 256;

}  // namespace

Result<DeviceBuffer> DeviceBuffer::allocate(std::shared_ptr<Device> device, size_t bytes) {
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr ptr, device->allocate(bytes));
  return DeviceBuffer(std::move(device), ptr, bytes);
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(ptr_, other.ptr_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (device_) (void)device_->free(ptr_);
}

Status CallMemory::add(const Operands& operands) {
  for (const Operand& wanted : operands) {
    if (has(wanted.name)) continue;
    Operand operand = wanted;
    const DevicePtr offset = wanted.data % kBufferAlignment;
    LSSAR_ASSIGN_OR_RETURN(const int64_t extent, extent_bytes(operand));
    const size_t bytes = extent == 0 ? 0 : static_cast<size_t>(extent) + offset;
    LSSAR_ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::allocate(device_, bytes));
    operand.data = buffer.ptr() == 0 ? 0 : buffer.ptr() + offset;
    set_tensor(&tensors_, operand.name,
               {operand.data, operand.strides[0], operand.strides[1], operand.strides[2]});
    // A table's rows: those that the call reads.
    if (operand.name == std::string_view("rotary_cos"))
      tensors_.rotary_positions = operand.sizes[2];
    buffers_.emplace(operand.name, std::move(buffer));
    operands_.emplace(operand.name, operand);
  }
  return {};
}

Status CallMemory::upload(const std::string& name, const std::string& packed) {
  return write_operand(*device_, operands_.at(name), packed);
}

Result<std::string> CallMemory::download(const std::string& name) const {
  return read_operand(*device_, operands_.at(name));
}

Tensors contiguous_layout(const Problem& problem, const Sizes& sizes) {
  const auto query_side = [&](int dim) {
    return contiguous_tensor(0, sizes.heads, sizes.seq_q, dim);
  };
  const auto key_side = [&](int dim) {
    return contiguous_tensor(0, sizes.kv_heads, sizes.seq_k, dim);
  };
  Tensors tensors;
  tensors.q = tensors.grad_q = query_side(problem.head_dim);
  tensors.k = tensors.grad_k = key_side(problem.head_dim);
  tensors.v = tensors.grad_v = key_side(problem.head_dim_v);
  tensors.o = tensors.grad_o = query_side(problem.head_dim_v);
  return tensors;
}

}  // namespace lssar::command
