#include "cache/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "cache/entry.h"

namespace lssar {
namespace {

static_assert(std::endian::native == std::endian::little, "the fixed parts are copied as they are");

constexpr char kPackMagic[8] = {'L', 'S', 'S', 'A', 'R', 'P', 'A', 'K'};
constexpr char kEndMagic[8] = {'L', 'S', 'S', 'A', 'R', 'E', 'N', 'D'};
constexpr uint32_t kPackVersion = 1;
// Regardless of the umask: others must be able to read a pack, and only its owner may write it.

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
};
struct IndexRow {
  uint8_t key[32];
  uint64_t offset;
  uint64_t bytes;
};
struct Footer {
  uint64_t index_offset;
  uint64_t num_entries;
  uint64_t file_bytes;
  char magic[8];
  uint8_t checksum[32];  // of the header, the index and the footer up to here
};
static_assert(sizeof(Header) == 16 && sizeof(IndexRow) == 48 && sizeof(Footer) == 64,
              "docs/cache_format.md says where each field lies");
constexpr size_t kFooterChecked = sizeof(Footer) - sizeof(Sha256Digest);

Sha256Digest checksum_of(const Header& header, std::string_view index, const Footer& footer) {
  std::string checked(raw_bytes(header));
  checked += index;
  checked += raw_bytes(footer).substr(0, kFooterChecked);
  return sha256(checked);
}

Status damaged(const InputFile& file, const std::string& reason) {
  return io_error(fmt::format("'{}' is not a usable pack: {}", file.path(), reason));
}

Status read_frame(const InputFile& file, Header* header, Footer* footer) {
  const uint64_t size = file.state().size_bytes;
  if (size < sizeof(Header) + sizeof(Footer)) return damaged(file, "it is truncated");
  LSSAR_ASSIGN_OR_RETURN(const std::string head, file.read_at(0, sizeof(Header)));
  std::memcpy(header, head.data(), sizeof(Header));
  if (std::memcmp(header->magic, kPackMagic, sizeof kPackMagic) != 0) {
    return damaged(file, "it does not begin with LSSARPAK");
  }
  if (header->version != kPackVersion) {
    return damaged(file, fmt::format("it has format version {}, this library reads {}",
                                     header->version, kPackVersion));
  }
  LSSAR_ASSIGN_OR_RETURN(const std::string tail,
                         file.read_at(size - sizeof(Footer), sizeof(Footer)));
  std::memcpy(footer, tail.data(), sizeof(Footer));
  if (std::memcmp(footer->magic, kEndMagic, sizeof kEndMagic) != 0 || footer->file_bytes != size) {
    return damaged(file, "it does not end as a pack does, so that a part is missing");
  }
  const uint64_t index_end = size - sizeof(Footer);
  if (footer->num_entries > kMaxPackEntries || footer->index_offset < sizeof(Header) ||
      footer->index_offset > index_end ||
      footer->num_entries * sizeof(IndexRow) != index_end - footer->index_offset) {
    return damaged(file, fmt::format("its lengths do not add up to its {} bytes", size));
  }
  return {};
}

// Entries may lie anywhere between header and index. Only the order of the keys is fixed.
Result<std::vector<PackEntry>> parse_index(const InputFile& file, std::string_view index,
                                           uint64_t index_offset) {
  std::vector<PackEntry> entries(index.size() / sizeof(IndexRow));
  for (size_t i = 0; i < entries.size(); ++i) {
    IndexRow row;
    std::memcpy(&row, index.data() + i * sizeof row, sizeof row);
    std::memcpy(entries[i].key.data(), row.key, sizeof row.key);
    entries[i].offset = row.offset;
    entries[i].bytes = row.bytes;
    if (i > 0 && !(entries[i - 1].key < entries[i].key)) {
      return damaged(file, fmt::format("its keys {} and {} are not in order", i - 1, i));
    }
    if (row.offset < sizeof(Header) || row.offset > index_offset || row.bytes > kMaxEntryBytes ||
        row.bytes > index_offset - row.offset) {
      return damaged(file, fmt::format("its entry {} does not lie within it", i));
    }
  }
  return entries;
}

}  // namespace

Result<PackFile> PackFile::open(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(InputFile file, InputFile::open(path, {.require_private = true}));
  Header header = {};
  Footer footer = {};
  LSSAR_RETURN_IF_ERROR(read_frame(file, &header, &footer));
  LSSAR_ASSIGN_OR_RETURN(const std::string index,
                         file.read_at(footer.index_offset, footer.num_entries * sizeof(IndexRow)));
  const Sha256Digest found = checksum_of(header, index, footer);
  if (std::memcmp(found.data(), footer.checksum, found.size()) != 0) {
    return damaged(file, "the checksum of its index is wrong");
  }
  LSSAR_ASSIGN_OR_RETURN(std::vector<PackEntry> entries,
                         parse_index(file, index, footer.index_offset));
  return PackFile(std::move(file), std::move(entries));
}

const PackEntry* PackFile::find(const Sha256Digest& key) const {
  const auto at = std::lower_bound(
      entries_.begin(), entries_.end(), key,
      [](const PackEntry& entry, const Sha256Digest& wanted) { return entry.key < wanted; });
  return at != entries_.end() && at->key == key ? &*at : nullptr;
}

Result<std::string> PackFile::bytes(const PackEntry& entry) const {
  return file_.read_at(entry.offset, entry.bytes);
}

Result<PackWriter> PackWriter::create(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(path, {.mode = kSharedFileMode}));
  PackWriter writer(std::move(file));
  Header header = {};
  std::memcpy(header.magic, kPackMagic, sizeof kPackMagic);
  header.version = kPackVersion;
  LSSAR_RETURN_IF_ERROR(writer.file_.append(raw_bytes(header)));
  writer.offset_ = sizeof header;
  return writer;
}

Status PackWriter::add(const Sha256Digest& key, std::string_view bytes) {
  if (entries_.size() == kMaxPackEntries) {
    return invalid_argument(fmt::format("a pack has at most {} entries", kMaxPackEntries));
  }
  LSSAR_RETURN_IF_ERROR(file_.append(bytes));
  entries_.push_back({key, offset_, bytes.size()});
  offset_ += bytes.size();
  return {};
}

Status PackWriter::finish() {
  std::sort(entries_.begin(), entries_.end(),
            [](const PackEntry& a, const PackEntry& b) { return a.key < b.key; });
  std::string index;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const PackEntry& entry = entries_[i];
    if (i > 0 && entries_[i - 1].key == entry.key) {
      return invalid_argument(fmt::format("key {} is in the pack twice", to_hex(entry.key)));
    }
    IndexRow row = {.key = {}, .offset = entry.offset, .bytes = entry.bytes};
    std::memcpy(row.key, entry.key.data(), sizeof row.key);
    index += raw_bytes(row);
  }
  Header header = {};
  std::memcpy(header.magic, kPackMagic, sizeof kPackMagic);
  header.version = kPackVersion;
  Footer footer = {.index_offset = offset_,
                   .num_entries = entries_.size(),
                   .file_bytes = offset_ + index.size() + sizeof(Footer),
                   .magic = {},
                   .checksum = {}};
  std::memcpy(footer.magic, kEndMagic, sizeof kEndMagic);
  const Sha256Digest checksum = checksum_of(header, index, footer);
  std::memcpy(footer.checksum, checksum.data(), checksum.size());
  LSSAR_RETURN_IF_ERROR(file_.append(index));
  LSSAR_RETURN_IF_ERROR(file_.append(raw_bytes(footer)));
  return file_.commit();
}

}  // namespace lssar
