// GuardedBuffer: device memory between two guard zones. It shows whether a kernel writes outside of
// it, and whether the kernel writes all of it.
//
// Guards and outputs are filled with poison: a signalling NaN of fp16, bf16 and float32. No
// arithmetic makes it, so a word that still holds it was not written, and a kernel that reads it
// gets NaN. Threads: one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace lssar {

inline constexpr size_t kGuardBytes = 64 << 10;  // before and after; a multiple of 256

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // Begins `offset` bytes beyond a multiple of 256. With 0 bytes there is no memory, and ptr() is
  // 0.
  static Result<GuardedBuffer> allocate(std::shared_ptr<Device> device, std::string name,
                                        size_t bytes, size_t offset = 0);
  GuardedBuffer(GuardedBuffer&& other) noexcept { *this = std::move(other); }
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  ~GuardedBuffer();

  DevicePtr ptr() const { return bytes_ == 0 ? 0 : base_ + begin_; }
  size_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }

  // Fills the guards with poison, and the data with poison or with `data` (of bytes()).
  Status reset();
  Status reset(std::span<const std::byte> data);

  // Reads what a kernel left. The functions below look at what was read.
  Status read();
  std::span<const std::byte> data() const { return {now_.data() + begin_, bytes_}; }
  // Where a guard has changed, or an input's data. In words; "" if nothing has.
  std::string guard_damage() const;
  std::string data_damage() const;
  // The first element of `element_bytes` (2 or 4) that still is poison.
  std::optional<size_t> first_unwritten(size_t element_bytes) const;

 private:
  Status upload();

  std::shared_ptr<Device> device_;
  std::string name_;
  DevicePtr base_ = 0;
  size_t begin_ = 0;  // of the data, from base_
  size_t bytes_ = 0;
  std::vector<std::byte> before_;  // guards and data as they were uploaded
  std::vector<std::byte> now_;
};

}  // namespace lssar
