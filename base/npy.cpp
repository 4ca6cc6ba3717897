#include "base/npy.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "base/file.h"

namespace lssar {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they are stored");

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;          // of the first value in a file that NumPy can map
constexpr size_t kMaxHeaderBytes = 65535;  // what version 1.0 can say; no honest header is longer
constexpr size_t kMaxDims = 64;            // NumPy's own limit

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads the Python literal of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  // What is wrong, or "" with *header filled.
  std::string parse(Header* header) {
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
        return fmt::format("the header has an unknown key '{}'", printable(*key));
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

  // At most 40 characters, without control characters: what a hostile file may put in a message.
  static std::string printable(std::string_view text) {
    std::string out;
    for (char c : text.substr(0, 40)) out += (c >= ' ' && c <= '~') ? c : '?';
    return out;
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

  std::string value(const std::string& key, Header* header) {
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
      if (shape->size() > kMaxDims) return fmt::format("'shape' has over {} dimensions", kMaxDims);
      if (take(',')) continue;
      if (!take(')')) return "'shape' does not end with ')'";
      break;
    }
    return "";
  }

  std::string_view rest_;
};

// The number of values of a shape, or nullopt where it does not fit in an int64_t.
std::optional<int64_t> count_values(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool overflow = false;
  for (int64_t dim : shape) {
    if (dim == 0) return 0;
    overflow = overflow || __builtin_mul_overflow(count, dim, &count);
  }
  if (overflow) return std::nullopt;
  return count;
}

// The header's text; *data becomes what follows it.
Result<std::string_view> split_header(std::string_view bytes, const std::string& name,
                                      std::string_view* data) {
  if (!bytes.starts_with(kMagic)) {
    return invalid_argument(
        fmt::format("'{}' is not a .npy file: it does not begin with "
                    "\\x93NUMPY",
                    name));
  }
  const auto truncated = [&] {
    return invalid_argument(
        fmt::format("'{}' is truncated: it ends inside its header, after {} "
                    "bytes",
                    name, bytes.size()));
  };
  if (bytes.size() < 8) return truncated();
  const int major = static_cast<unsigned char>(bytes[6]);
  const int minor = static_cast<unsigned char>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return unsupported(fmt::format("'{}' has .npy version {}.{}: allowed are 1.0, 2.0 and 3.0",
                                   name, major, minor));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) return truncated();
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  if (length > kMaxHeaderBytes) {
    return invalid_argument(fmt::format("'{}' says its header has {} bytes: allowed are at most {}",
                                        name, length, kMaxHeaderBytes));
  }
  const size_t data_begin = 8 + length_bytes + length;
  if (bytes.size() < data_begin) return truncated();
  *data = bytes.substr(data_begin);
  return bytes.substr(8 + length_bytes, length);
}

Result<Header> read_header(std::string_view bytes, const std::string& name,
                           std::string_view* data) {
  LSSAR_ASSIGN_OR_RETURN(const std::string_view text, split_header(bytes, name, data));
  Header header;
  if (const std::string error = HeaderParser(text).parse(&header); !error.empty()) {
    return invalid_argument(fmt::format("'{}' is not a well-formed .npy file: {}", name, error));
  }
  if (header.descr != "<f4" && header.descr != "<f8") {
    return unsupported(
        fmt::format("'{}' has dtype '{}': allowed are '<f4' (float32) and '<f8' "
                    "(float64), little endian",
                    name, HeaderParser::printable(header.descr)));
  }
  if (header.fortran_order) {
    return unsupported(
        fmt::format("'{}' is in Fortran order: only C order is allowed "
                    "(numpy.ascontiguousarray makes it)",
                    name));
  }
  return header;
}

template <typename Stored, typename T>
std::vector<T> convert(std::string_view data) {
  std::vector<T> values(data.size() / sizeof(Stored));
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, data.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<T>(stored);
  }
  return values;
}

template <typename T>
Result<NpyArray<T>> parse(std::string_view bytes, const std::string& name) {
  std::string_view data;
  LSSAR_ASSIGN_OR_RETURN(Header header, read_header(bytes, name, &data));
  const int64_t item_bytes = header.descr == "<f4" ? 4 : 8;
  const std::optional<int64_t> count = count_values(header.shape);
  int64_t wanted = 0;
  if (!count || __builtin_mul_overflow(*count, item_bytes, &wanted)) {
    return invalid_argument(fmt::format("'{}' has shape {}, more values than fit in memory", name,
                                        npy_shape_string(header.shape)));
  }
  if (static_cast<uint64_t>(wanted) != data.size()) {
    return invalid_argument(
        fmt::format("'{}' {}: shape {} of '{}' needs {} bytes of data, the file has {}", name,
                    static_cast<uint64_t>(wanted) > data.size() ? "is truncated" : "is too long",
                    npy_shape_string(header.shape), header.descr, wanted, data.size()));
  }
  try {
    auto values = item_bytes == 4 ? convert<float, T>(data) : convert<double, T>(data);
    return NpyArray<T>{std::move(header.shape), std::move(values)};
  } catch (const std::bad_alloc&) {
    return out_of_memory(
        fmt::format("'{}' has {} values, more than there is memory", name, *count));
  }
}

std::string make_header(std::span<const int64_t> shape) {
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}",
                                 npy_shape_string(shape));
  const size_t prefix = kMagic.size() + 4;
  text.append(kAlignment - (prefix + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {1, 0, static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace

std::string npy_shape_string(std::span<const int64_t> shape) {
  if (shape.size() == 1) return fmt::format("({},)", shape[0]);
  return fmt::format("({})", fmt::join(shape, ", "));
}

Result<NpyArray<float>> parse_npy_float32(std::string_view bytes, const std::string& name) {
  return parse<float>(bytes, name);
}

Result<NpyArray<double>> parse_npy_float64(std::string_view bytes, const std::string& name) {
  return parse<double>(bytes, name);
}

Result<NpyArray<float>> read_npy_float32(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  return parse<float>(bytes, path);
}

Result<NpyArray<double>> read_npy_float64(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  return parse<double>(bytes, path);
}

Status write_npy_float32(const std::string& path, std::span<const int64_t> shape,
                         std::span<const float> values) {
  for (int64_t dim : shape) {
    if (dim < 0) {
      return invalid_argument(fmt::format("shape {} of '{}': dimensions are at least 0",
                                          npy_shape_string(shape), path));
    }
  }
  if (shape.size() > kMaxDims) {
    return invalid_argument(fmt::format("shape of '{}' has {} dimensions: allowed are at most {}",
                                        path, shape.size(), kMaxDims));
  }
  const std::optional<int64_t> count = count_values(shape);
  if (!count || static_cast<uint64_t>(*count) != values.size()) {
    return invalid_argument(fmt::format("shape {} of '{}' does not have the {} values given",
                                        npy_shape_string(shape), path, values.size()));
  }
  std::string bytes = make_header(shape);
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return write_file_atomically(path, bytes);
}

}  // namespace lssar
