// SHA-256, for keys and checksums of the cache.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace lssar {

using Sha256Digest = std::array<uint8_t, 32>;

inline constexpr size_t kSha256Bytes = sizeof(Sha256Digest);
// The digits of a hash to show in names of files, records and lists: enough to tell kernels apart.
inline constexpr size_t kShownHashDigits = 16;

Sha256Digest sha256(std::string_view bytes);

// 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256Digest& digest);

// The inverse. Returns false if `hex` is not 64 lower-case hexadecimal digits.
bool from_hex(std::string_view hex, Sha256Digest* digest);

}  // namespace lssar
