#include "virtual/ops/device_calls.h"

#include <cstdio>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "base/log.h"

namespace lssar::vdev {
namespace {

constexpr size_t kMaxString = 4096;  // bytes read of one; digits of a number
constexpr int kMaxWidth = 1024;

// The bytes at a generic address, as this lane sees them.
const uint8_t* bytes_at(Warp& warp, const Op& op, uint32_t lane, uint64_t address, uint32_t bytes) {
  const uint64_t window = address >> kWindowShift << kWindowShift;
  const uint64_t begin = window == kSharedWindow ? warp.shared_begin : 0;
  const uint64_t offset = address - window - begin;
  const auto within = [&](const uint8_t* memory, uint64_t size, StateSpace space) {
    if (memory != nullptr && size >= bytes && offset <= size - bytes) return memory + offset;
    raise_memory_fault(warp, op, MemoryFault::kOutOfRange, space, lane, offset, bytes);
  };
  if (window == kSharedWindow) return within(warp.shared, warp.shared_bytes, StateSpace::kShared);
  if (window == kParamWindow) return within(warp.params, warp.params_bytes, StateSpace::kParam);
  if (window == kLocalWindow) {
    const uint8_t* local = warp.local + static_cast<size_t>(lane) * warp.local_bytes;
    return within(local, warp.local_bytes, StateSpace::kLocal);
  }
  if (window != 0) {
    raise_memory_fault(warp, op, MemoryFault::kBadSpace, StateSpace::kGeneric, lane, address,
                       bytes);
  }
  if (!find_global_range(warp, address, bytes)) {
    raise_memory_fault(warp, op, MemoryFault::kOutOfRange, StateSpace::kGlobal, lane, address,
                       bytes);
  }
  return reinterpret_cast<const uint8_t*>(address);
}

std::string string_at(Warp& warp, const Op& op, uint32_t lane, uint64_t address) {
  std::string text;
  if (address == 0) return "(null)";
  while (text.size() < kMaxString) {
    const auto c = static_cast<char>(*bytes_at(warp, op, lane, address + text.size(), 1));
    if (c == '\0') break;
    text += c;
  }
  return text;
}

class Printer {
 public:
  Printer(Warp& warp, const Op& op, uint32_t lane, uint64_t arguments)
      : warp_(warp), op_(op), lane_(lane), next_(arguments) {}

  std::string format(const std::string& text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        out += text[i];
      } else {
        out += conversion(text, i);
      }
    }
    return out;
  }
  int32_t count() const { return count_; }

 private:
  template <class T>
  T argument() {
    next_ = (next_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(&value, bytes_at(warp_, op_, lane_, next_, sizeof(T)), sizeof(T));
    next_ += sizeof(T);
    ++count_;
    return value;
  }

  // Digits, or * for an argument.
  int number(const std::string& text, size_t& i) {
    if (i < text.size() && text[i] == '*') {
      ++i;
      const auto value = argument<int32_t>();
      return value < -kMaxWidth ? -kMaxWidth : value > kMaxWidth ? kMaxWidth : value;
    }
    int value = 0;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      value = std::min(kMaxWidth, value * 10 + (text[i] - '0'));
    }
    return value;
  }

  template <class T>
  std::string print(const std::string& flags, int width, int precision, const char* type, T value) {
    char buffer[kMaxString];
    const std::string spec = precision < 0 ? "%" + flags + "*" + type : "%" + flags + "*.*" + type;
    const int length =
        precision < 0 ? std::snprintf(buffer, sizeof buffer, spec.c_str(), width, value)
                      : std::snprintf(buffer, sizeof buffer, spec.c_str(), width, precision, value);
    return length < 0 ? "" : std::string(buffer, std::min<size_t>(length, sizeof buffer - 1));
  }

  // REQUIRES: text[i] is '%'. Leaves i at the conversion's last character.
  std::string conversion(const std::string& text, size_t& i) {
    const size_t begin = i++;
    std::string flags;
    while (i < text.size() && std::strchr("-+ #0", text[i]) != nullptr) flags += text[i++];
    const int width = number(text, i);
    int precision = -1;
    if (i < text.size() && text[i] == '.') precision = number(text, ++i);
    std::string length;
    while (i < text.size() && std::strchr("hlzjtL", text[i]) != nullptr) length += text[i++];
    if (i >= text.size()) return text.substr(begin);
    const bool wide = length.find_first_of("lzjt") != std::string::npos;
    const char kind = text[i];
    switch (kind) {
      case '%':
        return "%";
      case 'd':
      case 'i':
        return print(flags, width, precision, "lld",
                     static_cast<long long>(wide ? argument<int64_t>() : integer(length)));
      case 'u':
      case 'o':
      case 'x':
      case 'X': {
        const std::string type = std::string("ll") + kind;
        return print(flags, width, precision, type.c_str(),
                     static_cast<unsigned long long>(wide ? argument<uint64_t>()
                                                          : unsigned_integer(length)));
      }
      case 'c':
        return print(flags, width, -1, "c", argument<int32_t>());
      case 'p':
        return print(flags + "#", width, precision, "llx",
                     static_cast<unsigned long long>(argument<uint64_t>()));
      case 's':
        return print(flags, width, precision, "s",
                     string_at(warp_, op_, lane_, argument<uint64_t>()).c_str());
      default:
        if (std::strchr("fFeEgGaA", kind) != nullptr) {
          return print(flags, width, precision, std::string(1, kind).c_str(), argument<double>());
        }
        return text.substr(begin, i - begin + 1);  // unchanged
    }
  }
  int64_t integer(const std::string& length) {
    const auto value = argument<int32_t>();
    return length == "hh"  ? static_cast<int8_t>(value)
           : length == "h" ? static_cast<int16_t>(value)
                           : value;
  }
  uint64_t unsigned_integer(const std::string& length) {
    const auto value = argument<uint32_t>();
    return length == "hh"  ? static_cast<uint8_t>(value)
           : length == "h" ? static_cast<uint16_t>(value)
                           : value;
  }

  Warp& warp_;
  const Op& op_;
  uint32_t lane_;
  uint64_t next_;
  int32_t count_ = 0;
};

}  // namespace

int32_t print_from_device(Warp& warp, const Op& op, uint32_t lane, uint64_t format,
                          uint64_t arguments) {
  if (format == 0) return -1;
  Printer printer(warp, op, lane, arguments);
  std::string text = printer.format(string_at(warp, op, lane, format));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  log(LogLevel::kInfo, text);
  return printer.count();
}

void raise_assertion(Warp& warp, const Op& op, uint32_t lane, uint64_t message, uint64_t file,
                     uint32_t line, uint64_t function) {
  const auto text = [&](uint64_t address) { return string_at(warp, op, lane, address); };
  const std::string what = fmt::format("lane {}: {}:{}: {}: assertion `{}' failed", lane,
                                       text(file), line, text(function), text(message));
  raise_fault(warp, op, what.c_str());
}

}  // namespace lssar::vdev
