// Properties: what an entry decodes to encodes to something that decodes to the same; a pack's keys
// are found; its entries have the bytes that its index says.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "cache/entry.h"
#include "cache/pack.h"
#include "runtime/image_metadata.h"
#include "tests/fuzz/complain.h"
#include "tests/fuzz/readers.h"

namespace lssar::test {
namespace {

constexpr size_t kMaxInput = 64 << 10;
constexpr uint64_t kMaxPayload = 4 << 20;  // larger ones find nothing and cost time
constexpr size_t kChecksum = sizeof(Sha256Digest);

// docs/cache_format.md, sections 3 and 6.
constexpr size_t kEntryOverhead = 104, kKeyAt = 16, kPayloadBytesAt = 64;
constexpr size_t kPackHeader = 16, kPackFooter = 64, kIndexRow = 48;

uint64_t number_at(std::string_view bytes, size_t offset) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void put(std::string& bytes, size_t offset, const void* value, size_t size) {
  std::memcpy(bytes.data() + offset, value, size);
}

void check_round_trip(const Sha256Digest& key, const CacheEntry& entry) {
  const Result<std::string> encoded = encode_entry(key, entry);
  if (!encoded.ok()) complain("an entry that was read is not written", encoded.status());
  CacheEntry back;
  DecodeFailure failure;
  check_that(decode_entry(*encoded, key, &back, &failure), "an entry of ours", failure.reason);
  check_that(back.metadata == entry.metadata && back.payload == entry.payload, "other bytes");
}

void decode(std::string_view bytes, const Sha256Digest& key) {
  CacheEntry entry;
  DecodeFailure failure;
  if (!decode_entry(bytes, key, &entry, &failure)) {
    check_that(!failure.reason.empty(), "an entry that is refused without a reason");
    return;
  }
  check_round_trip(key, entry);
  const Result<Image> image = decode_image_metadata(entry.metadata);
  if (!image.ok()) check_error(image.status());
}

// As it is, and with the key that it names and the checksum that fits.
void run_entry(std::string bytes) {
  Sha256Digest key{};
  decode(bytes, key);
  if (bytes.size() < kEntryOverhead) return;
  std::memcpy(key.data(), bytes.data() + kKeyAt, sizeof key);
  decode(bytes, key);
  if (number_at(bytes, kPayloadBytesAt) > kMaxPayload) return;
  const Sha256Digest sum = sha256(std::string_view(bytes).substr(0, bytes.size() - kChecksum));
  put(bytes, bytes.size() - kChecksum, sum.data(), kChecksum);
  decode(bytes, key);
}

// One file of this process, with new bytes for every input.
class PackBytes {
 public:
  PackBytes() : path_(std::filesystem::temp_directory_path() / ("lssar-" + unique_file_name())) {}
  ~PackBytes() { ::unlink(path_.c_str()); }
  const std::string& write(std::string_view bytes) {
    FileDescriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    check_that(::write(file.get(), bytes.data(), bytes.size()) == ssize_t(bytes.size()), "disk");
    return path_;
  }

 private:
  const std::string path_;
};

void open_pack(std::string_view bytes) {
  static PackBytes file;
  const Result<PackFile> pack = PackFile::open(file.write(bytes));
  if (!pack.ok()) return check_error(pack.status());
  constexpr uint64_t kMaxRead = 1 << 20;  // entries may share their bytes
  uint64_t read = 0;
  for (const PackEntry& entry : pack->entries()) {
    check_that(pack->find(entry.key) == &entry, "a key of the index is not found");
    read += entry.bytes;
    if (read > kMaxRead) return;
    const Result<std::string> of_entry = pack->bytes(entry);
    if (!of_entry.ok()) complain("an entry of the index is not read", of_entry.status());
    check_that(of_entry->size() == entry.bytes, "another size than the index says");
    if (entry.bytes >= kEntryOverhead && number_at(*of_entry, kPayloadBytesAt) > kMaxPayload)
      continue;
    decode(*of_entry, entry.key);
    run_entry(*of_entry);
  }
}

void run_pack(std::string bytes) {
  open_pack(bytes);
  if (bytes.size() < kPackHeader + kPackFooter) return;
  const size_t footer = bytes.size() - kPackFooter;
  // The rows that the footer counts, as many as there are bytes for, lie before it.
  const uint64_t rows = std::min<uint64_t>(number_at(bytes, footer + 8),
                                           (footer - kPackHeader) / kIndexRow);
  const uint64_t index = footer - rows * kIndexRow, file_bytes = bytes.size();
  put(bytes, footer, &index, 8);
  put(bytes, footer + 8, &rows, 8);
  put(bytes, footer + 16, &file_bytes, 8);
  const std::string checked = bytes.substr(0, kPackHeader) +
                              bytes.substr(index, bytes.size() - kChecksum - index);
  const Sha256Digest sum = sha256(checked);
  put(bytes, bytes.size() - kChecksum, sum.data(), kChecksum);
  open_pack(bytes);
}

}  // namespace

void run_cache_input(std::string_view input) {
  if (input.size() > kMaxInput) return;
  if (input.starts_with("LSSARPAK")) return run_pack(std::string(input));
  run_entry(std::string(input));
}

}  // namespace lssar::test
