#include "autotune/measure/guarded_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace lssar {
namespace {

// 0x7fb5, little endian, is a signaling NaN in fp16 and bf16; twice, it is one in float32.
constexpr std::byte kSignalingNan[2] = {std::byte{0xb5}, std::byte{0x7f}};

void fill_poison(std::span<std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = kSignalingNan[i % 2];
}

// The first difference in [begin, end), or end.
size_t first_difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b,
                        size_t begin, size_t end) {
  const auto found = std::mismatch(a.begin() + static_cast<ptrdiff_t>(begin),
                                   a.begin() + static_cast<ptrdiff_t>(end),
                                   b.begin() + static_cast<ptrdiff_t>(begin));
  return static_cast<size_t>(found.first - a.begin());
}

size_t count_differences(const std::vector<std::byte>& a, const std::vector<std::byte>& b,
                         size_t begin, size_t end) {
  size_t count = 0;
  for (size_t i = begin; i < end; ++i) count += a[i] != b[i];
  return count;
}

}  // namespace

Result<GuardedBuffer> GuardedBuffer::allocate(std::shared_ptr<Device> device, std::string name,
                                              size_t bytes, size_t offset) {
  GuardedBuffer buffer;
  buffer.name_ = std::move(name);
  if (bytes == 0) return buffer;
  buffer.begin_ = kGuardBytes + offset;
  buffer.bytes_ = bytes;
  buffer.before_.resize(buffer.begin_ + bytes + kGuardBytes);
  LSSAR_ASSIGN_OR_RETURN(buffer.base_, device->allocate(buffer.before_.size()));
  buffer.device_ = std::move(device);
  return buffer;
}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(name_, other.name_);
  std::swap(base_, other.base_);
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
  std::swap(before_, other.before_);
  std::swap(now_, other.now_);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  if (device_) (void)device_->free(base_);  // nobody could handle an error
}

Status GuardedBuffer::reset() {
  fill_poison(before_);
  return upload();
}

Status GuardedBuffer::reset(std::span<const std::byte> data) {
  if (data.size() != bytes_) {
    return internal_error(
        fmt::format("{}: {} bytes for a buffer of {}", name_, data.size(), bytes_));
  }
  fill_poison(before_);
  if (bytes_ != 0) std::memcpy(before_.data() + begin_, data.data(), bytes_);
  return upload();
}

Status GuardedBuffer::upload() {
  if (bytes_ == 0) return {};
  return device_->copy_to_device(base_, before_.data(), before_.size());
}

Status GuardedBuffer::read() {
  now_.resize(before_.size());
  if (bytes_ == 0) return {};
  return device_->copy_to_host(now_.data(), base_, now_.size());
}

std::string GuardedBuffer::guard_damage() const {
  if (bytes_ == 0) return "";
  const size_t end = begin_ + bytes_;
  if (const size_t at = first_difference(before_, now_, end, now_.size()); at != now_.size()) {
    return fmt::format("{}: {} bytes past its end of {} bytes were written, the first at +{}",
                       name_, count_differences(before_, now_, end, now_.size()), bytes_, at - end);
  }
  if (const size_t at = first_difference(before_, now_, 0, begin_); at != begin_) {
    return fmt::format("{}: {} bytes before its begin were written, the first at -{}", name_,
                       count_differences(before_, now_, 0, begin_), begin_ - at);
  }
  return "";
}

std::string GuardedBuffer::data_damage() const {
  if (bytes_ == 0) return "";
  const size_t end = begin_ + bytes_;
  const size_t at = first_difference(before_, now_, begin_, end);
  if (at == end) return "";
  return fmt::format("{}: an input, and {} of its bytes were written, the first at {}", name_,
                     count_differences(before_, now_, begin_, end), at - begin_);
}

std::optional<size_t> GuardedBuffer::first_unwritten(size_t element_bytes) const {
  const std::span<const std::byte> written = data();
  for (size_t i = 0; i + element_bytes <= written.size(); i += element_bytes) {
    bool is_poison = true;
    // The pattern continues by absolute place, as it was filled.
    for (size_t j = 0; j < element_bytes; ++j)
      is_poison = is_poison && written[i + j] == kSignalingNan[(begin_ + i + j) % 2];
    if (is_poison) return i / element_bytes;
  }
  return std::nullopt;
}

}  // namespace lssar
