// Encodes and decodes a cache entry's file: docs/cache_format.md, section 3.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "base/status.h"
#include "cache/sha256.h"
#include "cache/store.h"

namespace lssar {

// The bytes of a fixed part of a file. They are written as they lie in memory.
template <typename T>
std::string_view raw_bytes(const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>,
                "a file must not hold padding, because nothing sets its bytes");
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Limits for an unpacked payload and its metadata. The largest images have 1 to 2 MB (backward,
// sm_90a, line numbers). The limits are needed because a matching checksum does not prove that the
// file can be trusted: anybody can compute it.
inline constexpr uint64_t kMaxPayloadBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{16} << 20;
// Limit for the file of a cache entry.
inline constexpr uint64_t kMaxEntryBytes = kMaxPayloadBytes + kMaxMetadataBytes + 4096;

// kInvalidArgument if metadata or payload exceed their limits.
Result<std::string> encode_entry(const Sha256Digest& key, const CacheEntry& entry,
                                 uint64_t max_payload_bytes = kMaxPayloadBytes);

struct DecodeFailure {
  std::string reason;
  bool damaged = false;  // no version of the library can read it: the file may be removed
};

// Checks every bound. Memory use is limited to `bytes` and, once the checksum matches, the payload,
// which may have at most `max_payload_bytes`. Returns true and fills *entry, or returns false and
// fills *failure.
bool decode_entry(std::string_view bytes, const Sha256Digest& key, CacheEntry* entry,
                  DecodeFailure* failure, uint64_t max_payload_bytes = kMaxPayloadBytes);

}  // namespace lssar
