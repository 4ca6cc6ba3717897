#include "base/npy.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "base/file.h"
#include "base/npy_header.h"
#include "base/output_file.h"

namespace lssar {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they are stored");

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;  // of the first value, so that NumPy can memory-map the file
constexpr size_t kMaxHeaderBytes = 65535;  // the limit of version 1.0; real headers are far shorter

// The number of values of a shape, or nullopt if it does not fit in an int64_t.
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

// The header's text. *data receives what follows it.
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

// The two dtypes that a reader takes.
struct Dtypes {
  const char* four_bytes;
  const char* eight_bytes;
  const char* text;
};
constexpr Dtypes kFloats = {"<f4", "<f8", "'<f4' (float32) and '<f8' (float64)"};
constexpr Dtypes kIntegers = {"<i4", "<i8", "'<i4' (int32) and '<i8' (int64)"};

Result<NpyHeader> read_header(std::string_view bytes, const std::string& name, const Dtypes& dtypes,
                              std::string_view* data) {
  LSSAR_ASSIGN_OR_RETURN(const std::string_view text, split_header(bytes, name, data));
  NpyHeader header;
  if (const std::string error = parse_npy_header(text, &header); !error.empty()) {
    return invalid_argument(fmt::format("'{}' is not a well-formed .npy file: {}", name, error));
  }
  if (header.descr != dtypes.four_bytes && header.descr != dtypes.eight_bytes) {
    return unsupported(fmt::format("'{}' has dtype '{}': allowed are {}, little endian", name,
                                   npy_printable(header.descr), dtypes.text));
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

// `Four` and `Eight`: the stored types of `dtypes`.
template <typename T, typename Four, typename Eight>
Result<NpyArray<T>> parse(std::string_view bytes, const std::string& name, const Dtypes& dtypes) {
  std::string_view data;
  LSSAR_ASSIGN_OR_RETURN(NpyHeader header, read_header(bytes, name, dtypes, &data));
  const int64_t item_bytes = header.descr == dtypes.four_bytes ? 4 : 8;
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
    auto values = item_bytes == 4 ? convert<Four, T>(data) : convert<Eight, T>(data);
    return NpyArray<T>{std::move(header.shape), std::move(values)};
  } catch (const std::bad_alloc&) {
    return out_of_memory(
        fmt::format("'{}' has {} values, more than there is memory", name, *count));
  }
}

template <typename T>
Result<NpyArray<T>> parse_floats(std::string_view bytes, const std::string& name) {
  return parse<T, float, double>(bytes, name, kFloats);
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
  return parse_floats<float>(bytes, name);
}

Result<NpyArray<double>> parse_npy_float64(std::string_view bytes, const std::string& name) {
  return parse_floats<double>(bytes, name);
}

Result<NpyArray<float>> read_npy_float32(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  return parse_floats<float>(bytes, path);
}

Result<NpyArray<double>> read_npy_float64(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  return parse_floats<double>(bytes, path);
}

Result<NpyArray<int64_t>> read_npy_int64(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  return parse<int64_t, int32_t, int64_t>(bytes, path, kIntegers);
}

Result<std::string> npy_float32_bytes(const std::string& name, std::span<const int64_t> shape,
                                      std::span<const float> values) {
  for (int64_t dim : shape) {
    if (dim < 0) {
      return invalid_argument(fmt::format("shape {} of '{}': dimensions are at least 0",
                                          npy_shape_string(shape), name));
    }
  }
  if (shape.size() > kNpyMaxDims) {
    return invalid_argument(fmt::format("shape of '{}' has {} dimensions: allowed are at most {}",
                                        name, shape.size(), kNpyMaxDims));
  }
  const std::optional<int64_t> count = count_values(shape);
  if (!count || static_cast<uint64_t>(*count) != values.size()) {
    return invalid_argument(fmt::format("shape {} of '{}' does not have the {} values given",
                                        npy_shape_string(shape), name, values.size()));
  }
  std::string bytes = make_header(shape);
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

Status write_npy_float32(const std::string& path, std::span<const int64_t> shape,
                         std::span<const float> values) {
  LSSAR_ASSIGN_OR_RETURN(const std::string bytes, npy_float32_bytes(path, shape, values));
  return write_output_file(path, bytes);
}

}  // namespace lssar
