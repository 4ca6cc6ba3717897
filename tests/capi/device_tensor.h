// Buffers and tensors of a call, in memory of the context's device. run_capi and the test of
// feature pairs use them. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "codegen/problem.h"
#include "lssar/lssar.h"
#include "tests/capi/run_capi.h"

namespace lssar {

inline constexpr std::byte kNanByte{0xFF};  // a NaN in every dtype

// Memory of the context's device. It begins as kNanByte.
class Buffer {
 public:
  explicit Buffer(lssar_context* context) : context_(context) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Status allocate(size_t bytes);
  Status write(const std::vector<std::byte>& bytes);
  Result<std::vector<std::byte>> read() const;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  lssar_context* const context_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

struct TensorShape {
  int64_t batch, heads, length, dim;

  int64_t elements() const { return batch * heads * length * dim; }
};

// A tensor of the call, in some layout.
class DeviceTensor {
 public:
  DeviceTensor(lssar_context* context, const char* name, DType dtype, const TensorShape& shape,
               Layout layout);

  Status allocate() { return buffer_.allocate(num_elems_ * dtype_bytes(dtype_)); }

  // Values are contiguous [batch, heads, length, dim].
  Status upload(const std::vector<float>& values);
  // An error where a byte between the rows is not the poison it was.
  Result<std::vector<float>> download() const;

  lssar_tensor ref() const;

 private:
  // visit(first element of the row when contiguous, first element where it lies).
  template <typename Visit>
  void for_each_row(const Visit& visit) const;

  Buffer buffer_;
  const char* name_;
  const DType dtype_;
  const TensorShape shape_;
  int64_t first_, num_elems_, batch_stride_, head_stride_, row_stride_;
};

}  // namespace lssar
