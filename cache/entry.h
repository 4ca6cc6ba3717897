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

constexpr uint64_t kMaxEntryBytes = uint64_t{1} << 30;  // of a file, and of its payload unpacked

// kInvalidArgument where the entry does not fit in kMaxEntryBytes.
Result<std::string> encode_entry(const Sha256Digest& key, const CacheEntry& entry);

struct DecodeFailure {
  std::string reason;
  bool damaged = false;  // no version of the library can read it: the file may be removed
};

// Bounds-checks everything; never more memory than `bytes` and, after the checksum has passed, the
// payload's size. Returns false with *failure filled, or true with *entry filled.
bool decode_entry(std::string_view bytes, const Sha256Digest& key, CacheEntry* entry,
                  DecodeFailure* failure);

}  // namespace lssar
