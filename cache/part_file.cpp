#include "cache/part_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "base/file.h"
#include "base/output_file.h"
#include "cache/entry.h"

namespace lssar {
namespace {

static_assert(std::endian::native == std::endian::little, "the fixed parts are copied as they are");

constexpr char kPartsMagic[8] = {'L', 'S', 'S', 'A', 'R', 'C', 'A', 'P'};
constexpr uint32_t kPartsVersion = 1;

struct PartsHeader {
  char magic[8];
  uint32_t version;
  uint32_t num_parts;
};
struct TableRow {
  char name[kMaxPartName + 1];  // padded with 0
  uint64_t bytes;
  uint8_t checksum[kSha256Bytes];  // of the part; also its last 32 bytes
};
static_assert(sizeof(PartsHeader) == 16 && sizeof(TableRow) == 104,
              "docs/capture_format.md says where each field lies");

Status damaged(const std::string& name, const std::string& reason) {
  return io_error(fmt::format("'{}' is not a usable capture: {}", name, reason));
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxPartName &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

Status check_names(const std::vector<NamedPart>& parts) {
  if (parts.empty() || parts.size() > kMaxParts) {
    return invalid_argument(
        fmt::format("{} parts: allowed are 1 to {} in a file", parts.size(), kMaxParts));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_new = std::none_of(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(i),
                                     [&](const auto& one) { return one.name == parts[i].name; });
    if (is_name(parts[i].name) && is_new) continue;
    return invalid_argument(
        fmt::format("part '{}': allowed are names of 1 to {} printable characters, each once",
                    parts[i].name, kMaxPartName));
  }
  return {};
}

TableRow table_row(const std::string& name, const std::string& part) {
  TableRow row = {};
  std::memcpy(row.name, name.data(), name.size());
  row.bytes = part.size();
  std::memcpy(row.checksum, part.data() + part.size() - sizeof row.checksum, sizeof row.checksum);
  return row;
}

Result<PartsHeader> read_header(const std::string& name, std::string_view bytes) {
  PartsHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kPartsMagic, sizeof kPartsMagic) != 0)
    return damaged(name, "it does not begin with LSSARCAP");
  if (header.version != kPartsVersion) {
    return damaged(name, fmt::format("it has format version {}, this library reads {}",
                                     header.version, kPartsVersion));
  }
  if (header.num_parts == 0 || header.num_parts > kMaxParts) {
    return damaged(
        name, fmt::format("it has {} parts, allowed are 1 to {}", header.num_parts, kMaxParts));
  }
  return header;
}

// Decodes a row. `offset` is the part's offset in the file.
PartFile::Row row_of(const TableRow& raw, uint64_t offset) {
  PartFile::Row row;
  row.name.assign(raw.name, strnlen(raw.name, sizeof raw.name));
  row.offset = offset;
  row.bytes = raw.bytes;
  std::memcpy(row.checksum.data(), raw.checksum, sizeof raw.checksum);
  return row;
}

}  // namespace

Result<std::vector<std::string>> encode_parts(const std::vector<NamedPart>& parts) {
  LSSAR_RETURN_IF_ERROR(check_names(parts));
  PartsHeader header = {};
  std::memcpy(header.magic, kPartsMagic, sizeof kPartsMagic);
  header.version = kPartsVersion;
  header.num_parts = static_cast<uint32_t>(parts.size());
  std::vector<std::string> pieces = {std::string(raw_bytes(header))};
  for (const NamedPart& part : parts) {
    const Result<std::string> bytes = encode_entry(sha256(part.name), part.entry, kMaxPartBytes);
    if (!bytes.ok()) return bytes.status().with_context("part '" + part.name + "'");
    pieces[0] += raw_bytes(table_row(part.name, *bytes));
    pieces.push_back(std::move(*bytes));
  }
  pieces[0] += raw_bytes(sha256(pieces[0]));
  return pieces;
}

Status write_part_file(const std::string& path, const std::vector<NamedPart>& parts,
                       bool is_own_name) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<std::string> pieces, encode_parts(parts));
  LSSAR_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(path, {.mode = kPrivateFileMode,
                                                                  .is_own_name = is_own_name}));
  for (const std::string& piece : pieces) LSSAR_RETURN_IF_ERROR(file.append(piece));
  return file.commit();
}

Result<PartFile> PartFile::open(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(InputFile opened, InputFile::open(path));
  const auto file = std::make_shared<InputFile>(std::move(opened));
  return read_table(
      path, [file](uint64_t offset, uint64_t count) { return file->read_at(offset, count); },
      file->state().size_bytes);
}

Result<PartFile> PartFile::parse(std::string_view bytes, const std::string& name) {
  const auto copy = std::make_shared<const std::string>(bytes);
  return read_table(
      name,
      [copy](uint64_t offset, uint64_t count) -> Result<std::string> {
        return copy->substr(offset, count);
      },
      copy->size());
}

Result<PartFile> PartFile::read_table(std::string name, ReadAt read_at, uint64_t file_bytes) {
  if (file_bytes < sizeof(PartsHeader)) return damaged(name, "it is truncated");
  LSSAR_ASSIGN_OR_RETURN(const std::string head, read_at(0, sizeof(PartsHeader)));
  LSSAR_ASSIGN_OR_RETURN(const PartsHeader header, read_header(name, head));
  const uint64_t checked_bytes = sizeof(PartsHeader) + header.num_parts * sizeof(TableRow);
  if (file_bytes < checked_bytes + kSha256Bytes) return damaged(name, "it is truncated");
  LSSAR_ASSIGN_OR_RETURN(const std::string table, read_at(0, checked_bytes + kSha256Bytes));
  const Sha256Digest found = sha256(std::string_view(table).substr(0, checked_bytes));
  if (std::memcmp(found.data(), table.data() + checked_bytes, kSha256Bytes) != 0)
    return damaged(name, "the checksum of its table is wrong");

  PartFile file(std::move(name), std::move(read_at));
  uint64_t offset = table.size();
  for (uint32_t i = 0; i < header.num_parts; ++i) {
    TableRow raw;
    std::memcpy(&raw, table.data() + sizeof(PartsHeader) + i * sizeof raw, sizeof raw);
    Row row = row_of(raw, offset);
    if (!is_name(row.name) || file.has(row.name))
      return damaged(file.name_, fmt::format("its part {} has no name of its own", i));
    if (row.bytes > file_bytes - offset) {
      return damaged(file.name_,
                     fmt::format("it is truncated: part '{}' has {} bytes from {} on, the file {}",
                                 row.name, row.bytes, offset, file_bytes));
    }
    offset += row.bytes;
    file.rows_.push_back(std::move(row));
  }
  if (offset == file_bytes) return file;
  return damaged(file.name_, fmt::format("its parts end at byte {} of {}", offset, file_bytes));
}

const PartFile::Row* PartFile::find(std::string_view name) const {
  const auto at =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == name; });
  return at == rows_.end() ? nullptr : &*at;
}

Result<CacheEntry> PartFile::read(const std::string& name, uint64_t max_bytes) const {
  const Row* const row = find(name);
  if (row == nullptr) return invalid_argument(fmt::format("'{}' has no part '{}'", name_, name));
  LSSAR_ASSIGN_OR_RETURN(const std::string bytes, read_at_(row->offset, row->bytes));
  CacheEntry entry;
  DecodeFailure failure;
  const bool is_the_tables = bytes.size() >= row->checksum.size() &&
                             std::memcmp(bytes.data() + bytes.size() - row->checksum.size(),
                                         row->checksum.data(), row->checksum.size()) == 0;
  if (!is_the_tables) failure.reason = "its checksum is not the table's";
  if (is_the_tables &&
      decode_entry(bytes, sha256(name), &entry, &failure, std::min(max_bytes, kMaxPartBytes)))
    return entry;
  return damaged(name_, fmt::format("part '{}': {}", name, failure.reason));
}

}  // namespace lssar
