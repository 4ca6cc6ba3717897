// Properties: a capture that is read is written, and what is written is the same capture; likewise
// for a manifest by itself, a text that begins with '{'.
#include <algorithm>
#include <cstring>

#include "cache/entry.h"
#include "runtime/capture.h"
#include "runtime/capture_manifest.h"
#include "tests/fuzz/complain.h"
#include "tests/fuzz/readers.h"

namespace lssar::test {
namespace {

constexpr size_t kMaxInput = 64 << 10;
constexpr uint64_t kMaxPayload = 4 << 20;  // larger ones find nothing and cost time
constexpr size_t kChecksum = sizeof(Sha256Digest);

// docs/capture_format.md, and docs/cache_format.md, section 3.
constexpr size_t kHeader = 16, kRow = 104, kBytesAt = 64, kChecksumAt = 72, kNumPartsAt = 12;
constexpr size_t kEntryOverhead = 104, kKeyAt = 16, kPayloadBytesAt = 64;

uint64_t number_at(std::string_view bytes, size_t offset, size_t size = 8) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, size);
  return value;
}

void check_manifest(const std::string& text) {
  const Result<Capture> capture = decode_manifest(text);
  if (!capture.ok()) return check_error(capture.status());
  const Result<Operands> operands = operands_of(*capture);
  if (!operands.ok()) check_error(operands.status());
  const std::string once = encode_manifest(*capture);
  const Result<Capture> again = decode_manifest(once);
  if (!again.ok()) complain("a manifest of ours", again.status());
  check_that(encode_manifest(*again) == once, "another manifest", once);
}

void read(std::string_view bytes) {
  const Result<PartFile> file = PartFile::parse(bytes, "input");
  if (!file.ok()) return check_error(file.status());
  for (const PartFile::Row& row : file->rows()) {
    if (row.bytes >= kEntryOverhead && number_at(bytes, row.offset + kPayloadBytesAt) > kMaxPayload)
      return;
  }
  const Result<Capture> capture = read_capture(*file);
  if (!capture.ok()) return check_error(capture.status());
  const Result<std::vector<NamedPart>> parts = capture_parts(*capture);
  if (!parts.ok()) complain("a capture that was read is not written", parts.status());
  const auto encoded = encode_parts(*parts);
  if (!encoded.ok()) return check_error(encoded.status());
  std::string whole;
  for (const std::string& piece : *encoded) whole += piece;
  const Result<PartFile> back = PartFile::parse(whole, "ours");
  if (!back.ok()) complain("a file of ours", back.status());
  const Result<Capture> again = read_capture(*back);
  if (!again.ok()) complain("a capture of ours", again.status());
  check_that(encode_manifest(*again) == encode_manifest(*capture), "another capture");
}

// Keys and checksums as the table's names and lengths need them.
std::string with_checksums(std::string bytes) {
  if (bytes.size() < kHeader) return bytes;
  const size_t num_parts = number_at(bytes, kNumPartsAt, 4);
  const size_t table = kHeader + num_parts * kRow;
  if (num_parts > kMaxParts || bytes.size() < table + kChecksum) return bytes;
  size_t offset = table + kChecksum;
  for (size_t i = 0; i < num_parts; ++i) {
    char* const row = bytes.data() + kHeader + i * kRow;
    const uint64_t size = number_at(bytes, kHeader + i * kRow + kBytesAt);
    if (size < kEntryOverhead || size > bytes.size() - offset) break;
    const Sha256Digest key = sha256(std::string_view(row, strnlen(row, kBytesAt)));
    std::memcpy(bytes.data() + offset + kKeyAt, key.data(), key.size());
    const size_t end = offset + size - kChecksum;
    const Sha256Digest sum = sha256(std::string_view(bytes).substr(offset, end - offset));
    std::memcpy(bytes.data() + end, sum.data(), sum.size());
    std::memcpy(row + kChecksumAt, sum.data(), sum.size());
    offset += size;
  }
  const Sha256Digest sum = sha256(std::string_view(bytes).substr(0, table));
  std::memcpy(bytes.data() + table, sum.data(), sum.size());
  return bytes;
}

}  // namespace

void run_capture_input(std::string_view input) {
  if (input.size() > kMaxInput) return;
  if (!input.empty() && input[0] == '{') return check_manifest(std::string(input));
  read(input);
  read(with_checksums(std::string(input)));
}

}  // namespace lssar::test
