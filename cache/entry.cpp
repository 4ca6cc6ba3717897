#include "cache/entry.h"

#include <fmt/format.h>
#include <zstd.h>

#include <bit>
#include <cstring>
#include <new>

namespace lssar {
namespace {

static_assert(std::endian::native == std::endian::little, "the fixed part is copied as it is");

constexpr char kMagic[8] = {'L', 'S', 'S', 'A', 'R', 'B', 'I', 'N'};
constexpr uint32_t kFormatVersion = 1;
constexpr uint32_t kEncodingRaw = 0;
constexpr uint32_t kEncodingZstd = 1;
constexpr int kZstdLevel = 3;  // level 9 makes PTX a quarter smaller and takes ten times as long

struct FixedPart {
  char magic[8];
  uint32_t version;
  uint32_t encoding;
  uint8_t key[kSha256Bytes];
  uint64_t metadata_bytes;
  uint64_t stored_bytes;
  uint64_t payload_bytes;
};
static_assert(sizeof(FixedPart) == 72, "docs/cache_format.md says where each field lies");

constexpr size_t kOverheadBytes = sizeof(FixedPart) + kSha256Bytes;

// Returns "" if compression does not make it smaller.
std::string compress(const std::string& payload) {
  std::string packed(ZSTD_compressBound(payload.size()), '\0');
  const size_t n =
      ZSTD_compress(packed.data(), packed.size(), payload.data(), payload.size(), kZstdLevel);
  if (ZSTD_isError(n) || n >= payload.size()) return "";
  packed.resize(n);
  return packed;
}

bool fail(DecodeFailure* failure, bool damaged, std::string reason) {
  *failure = {std::move(reason), damaged};
  return false;
}

// Checks everything before the key, in the order of docs/cache_format.md, section 4.
bool check_frame(std::string_view bytes, const Sha256Digest& key, FixedPart* fixed,
                 DecodeFailure* failure) {
  if (bytes.size() < kOverheadBytes) return fail(failure, true, "the file is truncated");
  std::memcpy(fixed, bytes.data(), sizeof(FixedPart));
  if (std::memcmp(fixed->magic, kMagic, sizeof kMagic) != 0) {
    return fail(failure, true, "it does not begin with LSSARBIN");
  }
  if (fixed->version != kFormatVersion) {
    return fail(failure, false,
                fmt::format("it has format version {}, this library reads {}", fixed->version,
                            kFormatVersion));
  }
  const uint64_t body = bytes.size() - kOverheadBytes;
  if (fixed->metadata_bytes > body || fixed->stored_bytes != body - fixed->metadata_bytes) {
    return fail(failure, true,
                fmt::format("its lengths do not add up to its {} bytes", bytes.size()));
  }
  const Sha256Digest found = sha256(bytes.substr(0, bytes.size() - kSha256Bytes));
  if (std::memcmp(found.data(), bytes.data() + bytes.size() - kSha256Bytes, kSha256Bytes) != 0) {
    return fail(failure, true, "its checksum is wrong");
  }
  if (std::memcmp(fixed->key, key.data(), key.size()) != 0) {
    return fail(failure, true, "it is the entry of another key");
  }
  return true;
}

bool unpack(std::string_view stored, const FixedPart& fixed, uint64_t max_payload_bytes,
            std::string* payload, DecodeFailure* failure) {
  if (fixed.payload_bytes > max_payload_bytes) {
    return fail(failure, true,
                fmt::format("its payload has {} bytes, allowed are {}", fixed.payload_bytes,
                            max_payload_bytes));
  }
  if (fixed.encoding == kEncodingRaw && fixed.payload_bytes == stored.size()) {
    payload->assign(stored);
    return true;
  }
  if (fixed.encoding != kEncodingZstd) {
    return fail(failure, true,
                fmt::format("encoding {} with {} bytes of payload is unknown", fixed.encoding,
                            fixed.payload_bytes));
  }
  payload->resize(fixed.payload_bytes);
  const size_t n = ZSTD_decompress(payload->data(), payload->size(), stored.data(), stored.size());
  if (ZSTD_isError(n) || n != payload->size()) {
    return fail(failure, true, "its payload does not decompress");
  }
  return true;
}

}  // namespace

Result<std::string> encode_entry(const Sha256Digest& key, const CacheEntry& entry,
                                 uint64_t max_payload_bytes) {
  if (entry.metadata.size() > kMaxMetadataBytes || entry.payload.size() > max_payload_bytes) {
    return invalid_argument(fmt::format("an entry of {} + {} bytes: allowed are at most {} + {}",
                                        entry.metadata.size(), entry.payload.size(),
                                        kMaxMetadataBytes, max_payload_bytes));
  }
  const std::string packed = compress(entry.payload);
  const std::string& stored = packed.empty() ? entry.payload : packed;
  FixedPart fixed = {};
  std::memcpy(fixed.magic, kMagic, sizeof kMagic);
  fixed.version = kFormatVersion;
  fixed.encoding = packed.empty() ? kEncodingRaw : kEncodingZstd;
  std::memcpy(fixed.key, key.data(), key.size());
  fixed.metadata_bytes = entry.metadata.size();
  fixed.stored_bytes = stored.size();
  fixed.payload_bytes = entry.payload.size();

  std::string bytes;
  bytes.reserve(kOverheadBytes + entry.metadata.size() + stored.size());
  bytes += raw_bytes(fixed);
  bytes += entry.metadata;
  bytes += stored;
  const Sha256Digest checksum = sha256(bytes);
  bytes += raw_bytes(checksum);
  return bytes;
}

bool decode_entry(std::string_view bytes, const Sha256Digest& key, CacheEntry* entry,
                  DecodeFailure* failure, uint64_t max_payload_bytes) {
  FixedPart fixed = {};
  if (!check_frame(bytes, key, &fixed, failure)) return false;
  try {
    entry->metadata.assign(bytes.substr(sizeof(FixedPart), fixed.metadata_bytes));
    const auto stored = bytes.substr(sizeof(FixedPart) + fixed.metadata_bytes, fixed.stored_bytes);
    return unpack(stored, fixed, max_payload_bytes, &entry->payload, failure);
  } catch (const std::bad_alloc&) {
    return fail(failure, false, "there is not enough memory for it");
  }
}

}  // namespace lssar
