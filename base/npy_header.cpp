#include "base/npy_header.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>

namespace lssar {
namespace {

// Reads Python literals, but only in the form that NumPy writes.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  // Fills *header and returns "", or returns what is wrong.
  std::string parse(NpyHeader* header) {
    if (!take('{')) return "the header does not begin with '{'";
    bool has_descr = false, has_order = false, has_shape = false;
    while (!take('}')) {
      const std::optional<std::string> key = string();
      if (!key || !take(':')) return "a key of the header is not a string followed by ':'";
      bool* seen = *key == "descr"           ? &has_descr
                   : *key == "fortran_order" ? &has_order
                   : *key == "shape"         ? &has_shape
                                             : nullptr;
      if (seen == nullptr)
        return fmt::format("the header has an unknown key '{}'", npy_printable(*key));
      if (*seen) return fmt::format("the header has '{}' twice", *key);
      *seen = true;
      const std::string error = value(*key, header);
      if (!error.empty()) return error;
      if (take(',')) continue;
      if (!take('}')) return "the header does not end with '}'";
      break;
    }
    skip_space();
    if (!rest_.empty()) return "the header goes on after its '}'";
    if (!has_descr || !has_order || !has_shape) {
      return "the header lacks one of 'descr', 'fortran_order', 'shape'";
    }
    return "";
  }

 private:
  void skip_space() {
    const size_t n = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(n == std::string_view::npos ? rest_.size() : n);
  }

  bool take(char wanted) {
    skip_space();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool take_word(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string> string() {
    skip_space();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string value(const std::string& key, NpyHeader* header) {
    if (key == "shape") return tuple(&header->shape);
    if (key == "fortran_order") {
      if (take_word("True")) return header->fortran_order = true, "";
      if (take_word("False")) return header->fortran_order = false, "";
      return "'fortran_order' is neither True nor False";
    }
    std::optional<std::string> descr = string();
    if (!descr) return "'descr' is not a string (structured arrays are not read)";
    header->descr = std::move(*descr);
    return "";
  }

  std::string tuple(std::vector<int64_t>* shape) {
    if (!take('(')) return "'shape' is not a tuple";
    while (!take(')')) {
      skip_space();
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      if (error != std::errc() || dim < 0) {
        return "'shape' has a dimension that is not an integer from 0 to 2^63 - 1";
      }
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      shape->push_back(dim);
      if (shape->size() > kNpyMaxDims)
        return fmt::format("'shape' has over {} dimensions", kNpyMaxDims);
      if (take(',')) continue;
      if (!take(')')) return "'shape' does not end with ')'";
      break;
    }
    return "";
  }

  std::string_view rest_;
};

}  // namespace

std::string parse_npy_header(std::string_view text, NpyHeader* header) {
  return HeaderParser(text).parse(header);
}

std::string npy_printable(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 40)) out += (c >= ' ' && c <= '~') ? c : '?';
  return out;
}

}  // namespace lssar
