#include <cstdint>
#include <cstring>

#include "cache/sha256.h"
#include "cache/store.h"

namespace lssar {
namespace {

// Change this whenever a field's meaning or encoding changes. Old entries are then never found.
constexpr std::string_view kKeySchema = "lssar-key-1";

constexpr char kTextRecord = 's';
constexpr char kListRecord = 'l';

void append_number(std::string* out, uint64_t value) {
  for (int i = 0; i < 8; ++i) *out += static_cast<char>(value >> (8 * i) & 0xff);
}

void append_sized(std::string* out, std::string_view bytes) {
  append_number(out, bytes.size());
  *out += bytes;
}

}  // namespace

CacheKeyBuilder::CacheKeyBuilder() { add("schema", kKeySchema); }

CacheKeyBuilder& CacheKeyBuilder::add(std::string_view field, std::string_view value) {
  fields_ += kTextRecord;
  append_sized(&fields_, field);
  append_sized(&fields_, value);
  return *this;
}

CacheKeyBuilder& CacheKeyBuilder::add(std::string_view field,
                                      const std::vector<std::string>& values) {
  fields_ += kListRecord;
  append_sized(&fields_, field);
  append_number(&fields_, values.size());
  for (const std::string& value : values) append_sized(&fields_, value);
  return *this;
}

std::string CacheKeyBuilder::hex() const { return to_hex(sha256(fields_)); }

}  // namespace lssar
