#include "tests/capi/device_tensor.h"

#include <fmt/format.h>

#include <cstring>

#include "reference/numerics.h"

namespace lssar {

Buffer::~Buffer() {
  if (lssar_buffer_free(context_, data_) != LSSAR_STATUS_OK) data_ = nullptr;
}

Status Buffer::allocate(size_t bytes) {
  bytes_ = bytes;
  LSSAR_RETURN_IF_ERROR(to_status(lssar_buffer_alloc(context_, bytes, &data_)));
  return write(std::vector<std::byte>(bytes, kNanByte));
}

Status Buffer::write(const std::vector<std::byte>& bytes) {
  return to_status(lssar_buffer_write(context_, data_, bytes.data(), bytes.size()));
}

Result<std::vector<std::byte>> Buffer::read() const {
  std::vector<std::byte> bytes(bytes_);
  LSSAR_RETURN_IF_ERROR(to_status(lssar_buffer_read(context_, bytes.data(), data_, bytes_)));
  return bytes;
}

DeviceTensor::DeviceTensor(lssar_context* context, const char* name, DType dtype,
                           const TensorShape& shape, Layout layout)
    : buffer_(context), name_(name), dtype_(dtype), shape_(shape) {
  int64_t row = shape.dim;
  if (layout == Layout::kPadded) row += 8;
  if (layout == Layout::kUnaligned) row += 1;
  first_ = layout == Layout::kUnaligned ? 1 : 0;
  if (layout == Layout::kLengthMajor) {
    head_stride_ = row;
    row_stride_ = shape.heads * row;
  } else {
    row_stride_ = row;
    head_stride_ = shape.length * row;
  }
  batch_stride_ = shape.heads * shape.length * row;
  num_elems_ = first_ + shape.batch * batch_stride_;
}

template <typename Visit>
void DeviceTensor::for_each_row(const Visit& visit) const {
  int64_t contiguous = 0;
  for (int64_t b = 0; b < shape_.batch; ++b) {
    for (int64_t h = 0; h < shape_.heads; ++h) {
      for (int64_t i = 0; i < shape_.length; ++i, contiguous += shape_.dim) {
        visit(contiguous, first_ + b * batch_stride_ + h * head_stride_ + i * row_stride_);
      }
    }
  }
}

Status DeviceTensor::upload(const std::vector<float>& values) {
  if (static_cast<int64_t>(values.size()) != shape_.elements()) {
    return invalid_argument(
        fmt::format("{}: {} values do not fit the sizes", name_, values.size()));
  }
  const int size = dtype_bytes(dtype_);
  const std::vector<std::byte> packed = pack(dtype_, values);
  std::vector<std::byte> bytes(buffer_.bytes(), kNanByte);
  for_each_row([&](int64_t from, int64_t to) {
    std::memcpy(bytes.data() + to * size, packed.data() + from * size, shape_.dim * size);
  });
  return buffer_.write(bytes);
}

Result<std::vector<float>> DeviceTensor::download() const {
  const int size = dtype_bytes(dtype_);
  LSSAR_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, buffer_.read());
  std::vector<std::byte> packed(shape_.elements() * size);
  for_each_row([&](int64_t to, int64_t from) {
    std::memcpy(packed.data() + to * size, bytes.data() + from * size, shape_.dim * size);
    std::memset(bytes.data() + from * size, static_cast<int>(kNanByte), shape_.dim * size);
  });
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != kNanByte) {
      return internal_error(fmt::format("{}: byte {} between its rows was written", name_, i));
    }
  }
  return unpack(dtype_, packed);
}

lssar_tensor DeviceTensor::ref() const {
  auto* data = static_cast<std::byte*>(buffer_.data());
  if (data != nullptr) data += first_ * dtype_bytes(dtype_);
  return {data, {batch_stride_, head_stride_, row_stride_}};
}

}  // namespace lssar
