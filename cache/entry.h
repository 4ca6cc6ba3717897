// The bytes of a cache entry's file: docs/cache_format.md, section 3.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "cache/sha256.h"
#include "cache/store.h"

namespace lssar {

// Limits for a payload and its metadata, unpacked. The largest images have 1 to 2 MB (backward,
// sm_90a, line numbers). A checksum that matches proves nothing about a file that somebody else
// wrote.
inline constexpr uint64_t kMaxPayloadBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{16} << 20;
// Limit for the file of a cache entry.
inline constexpr uint64_t kMaxEntryBytes = kMaxPayloadBytes + kMaxMetadataBytes + 4096;

// kInvalidArgument: metadata or payload of more than is allowed.
Result<std::string> encode_entry(const Sha256Digest& key, const CacheEntry& entry,
                                 uint64_t max_payload_bytes = kMaxPayloadBytes);

struct DecodeFailure {
  std::string reason;
  bool damaged = false;  // no version of the library can read it: the file may be removed
};

// Bounds-checks everything; never more memory than `bytes` and, after the checksum has passed, the
// payload's size, at most `max_payload_bytes`. Returns false with *failure filled, or true with
// *entry filled.
bool decode_entry(std::string_view bytes, const Sha256Digest& key, CacheEntry* entry,
                  DecodeFailure* failure, uint64_t max_payload_bytes = kMaxPayloadBytes);

}  // namespace lssar
