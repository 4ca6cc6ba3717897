#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace lssar {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0 if the bytes are not UTF-8
};

// The first character of `text`. REQUIRES: !text.empty().
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  uint32_t code = first & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  // The least code point of each length. Smaller ones are overlong; surrogates and codes beyond
  // U+10FFFF are refused too.
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || (code >= 0xD800 && code <= 0xDFFF) || code > 0x10FFFF) return {};
  return {code, bytes};
}

bool is_between(uint32_t code, uint32_t first, uint32_t last) {
  return code >= first && code <= last;
}

// Beyond ASCII: C1 controls, direction controls, line separators and invisible marks.
bool is_hidden(uint32_t code) {
  return is_between(code, 0x80, 0x9F) || code == 0xAD || code == 0x61C || code == 0xFEFF ||
         is_between(code, 0x200B, 0x200F) || is_between(code, 0x2028, 0x202E) ||
         is_between(code, 0x2060, 0x206F) || is_between(code, 0xE0000, 0xE007F);
}

std::string escaped(std::string_view text, bool is_field) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character one = first_character(text);
    const bool is_layout = text[0] == '\n' || text[0] == '\t';
    if (one.bytes <= 1) {
      if (is_layout && is_field) {
        shown += text[0] == '\n' ? "\\n" : "\\t";
      } else if (one.bytes == 1 && (is_layout || is_between(one.code, 0x20, 0x7E))) {
        shown += text[0];
      } else {
        shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      }
      text.remove_prefix(1);
      continue;
    }
    shown += is_hidden(one.code) ? fmt::format("\\u{:04x}", one.code)
                                 : std::string(text.substr(0, one.bytes));
    text.remove_prefix(one.bytes);
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }
std::string printable_field(std::string_view text) { return escaped(text, true); }

}  // namespace lssar
