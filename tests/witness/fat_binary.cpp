#include "tests/witness/fat_binary.h"

#include <cstdint>
#include <cstring>

#include <fmt/format.h>

namespace lssar::test {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kContainerMagic = 0xba55ed50;
constexpr uint16_t kPtx = 1;
constexpr uint64_t kCompressed = 0x2000 | 0x8000;  // by one method or the other

struct Wrapper {
  uint32_t magic, version;
  const uint8_t* container;
};
struct ContainerHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // after the header
};
struct PartHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;  // after the header
  uint32_t compressed_bytes, unused0;
  uint16_t minor, major;
  uint32_t architecture, name_offset, name_bytes;
  uint64_t flags;
};
static_assert(sizeof(PartHeader) == 48);

template <class T>
T read(const uint8_t* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

}  // namespace

Result<std::string> ptx_of_fat_binary(const void* wrapper) {
  const auto outer = read<Wrapper>(static_cast<const uint8_t*>(wrapper));
  const auto header =
      outer.magic == kWrapperMagic ? read<ContainerHeader>(outer.container) : ContainerHeader{};
  if (header.magic != kContainerMagic) return unsupported("fat binary: another format");
  const uint8_t* at = outer.container + header.header_bytes;
  for (const uint8_t* const end = at + header.bytes; at < end;) {
    const auto part = read<PartHeader>(at);
    const auto* text = reinterpret_cast<const char*>(at + part.header_bytes);
    at += part.header_bytes + part.bytes;
    if (part.kind != kPtx) continue;
    if ((part.flags & kCompressed) != 0 || part.compressed_bytes != 0) {
      return unsupported("fat binary: compressed PTX; nvcc's --compress-mode=none leaves it as is");
    }
    return std::string(text, strnlen(text, part.bytes));
  }
  return unsupported("fat binary: no PTX in it");
}

}  // namespace lssar::test
