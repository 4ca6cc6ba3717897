#include "tools/lssar/sim/sim_arguments.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace lssar::command {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 40;
constexpr int64_t kMaxBox = 256;  // the limit of tensor maps

Status bad(const std::string& text, const std::string& why) {
  return invalid_argument(fmt::format("--arg {}: {}", text, why));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> fields;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    fields.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

template <class T>
bool parse_whole(std::string_view text, T& value) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_integer(SimType type) { return type >= SimType::kI8; }

// Reads 64-bit integers, not doubles, because i64 has numbers that a double cannot hold.
bool encode_integer(SimType type, std::string_view text, std::vector<std::byte>& bytes) {
  const size_t size = sim_type_bytes(type);
  const bool is_signed = sim_type_name(type)[0] == 'i';
  const int bits = static_cast<int>(size) * 8;
  uint64_t raw = 0;
  if (is_signed) {
    int64_t value = 0;
    if (!parse_whole(text, value)) return false;
    const int64_t high = std::numeric_limits<int64_t>::max() >> (64 - bits);
    if (value > high || value < -high - 1) return false;
    raw = static_cast<uint64_t>(value);
  } else {
    if (!parse_whole(text, raw) || raw > std::numeric_limits<uint64_t>::max() >> (64 - bits)) {
      return false;
    }
  }
  bytes.resize(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(raw >> (8 * i));
  return true;
}

Status parse_scalar(std::string_view value, SimArgument& argument) {
  if (is_integer(argument.type)) {
    if (encode_integer(argument.type, value, argument.scalar)) return {};
    return bad(argument.text, fmt::format("'{}' is not a whole number within the range of {}",
                                          value, sim_type_name(argument.type)));
  }
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    return bad(argument.text, fmt::format("'{}' is not a number", value));
  }
  LSSAR_ASSIGN_OR_RETURN(argument.scalar, encode_elements(argument.type, {&number, 1}));
  return {};
}

Status parse_box(const std::string& value, SimArgument& argument) {
  std::vector<int64_t> box;
  if (!parse_extents(value, 'x', 1, box) || box.size() != 2 || box[0] > kMaxBox ||
      box[1] > kMaxBox) {
    return bad(argument.text,
               fmt::format("box={}: allowed is ROWSxCOLS, each 1 to {}", value, kMaxBox));
  }
  argument.box_rows = static_cast<uint32_t>(box[0]);
  argument.box_columns = static_cast<uint32_t>(box[1]);
  return {};
}

Status parse_swizzle(const std::string& value, SimArgument& argument) {
  for (const int bytes : {0, 32, 64, 128}) {
    if (value != (bytes == 0 ? "none" : fmt::format("{}B", bytes))) continue;
    argument.swizzle_bytes = bytes;
    return {};
  }
  return bad(argument.text, fmt::format("swizzle={}: allowed are none, 32B, 64B and 128B", value));
}

// Removes box= and swizzle= from the end of the fields.
Status parse_map_options(std::vector<std::string>& fields, SimArgument& argument) {
  while (!fields.empty()) {
    const std::string& last = fields.back();
    if (last.starts_with("box=")) {
      LSSAR_RETURN_IF_ERROR(parse_box(last.substr(4), argument));
    } else if (last.starts_with("swizzle=")) {
      LSSAR_RETURN_IF_ERROR(parse_swizzle(last.substr(8), argument));
    } else {
      break;
    }
    fields.pop_back();
  }
  if (argument.box_rows != 0) return {};
  return bad(argument.text, "box=ROWSxCOLS is missing");
}

// Takes fields from the end, because a file's name may have colons.
Status parse_file_argument(std::string_view mode, std::vector<std::string> fields,
                           SimArgument& argument) {
  argument.reads = mode != "out";
  argument.writes = mode != "in";
  const bool is_map = argument.kind == SimArgumentKind::kTensorMap;
  if (is_map) LSSAR_RETURN_IF_ERROR(parse_map_options(fields, argument));

  if (mode == "out" && fields.size() >= 3 && parse_extents(fields.back(), 'x', 0, argument.shape)) {
    fields.pop_back();
  } else if (mode == "out" && !is_map) {
    return bad(argument.text, "allowed is out:FILE.npy:DTYPE:SHAPE, with a shape like 1x2x64x64");
  }
  if (mode == "inout" && fields.size() >= 3 && !find_sim_type(fields.back(), argument.type)) {
    argument.output_file = fields.back();
    fields.pop_back();
  }
  if (fields.size() < 2 || !find_sim_type(fields.back(), argument.type)) {
    return bad(argument.text, fmt::format("'{}' is not a DTYPE: allowed are {}",
                                          fields.empty() ? "" : fields.back(), sim_type_names()));
  }
  fields.pop_back();
  argument.file = fmt::format("{}", fmt::join(fields, ":"));
  if (argument.file.empty()) return bad(argument.text, "the name of a file is missing");
  if (argument.output_file.empty()) argument.output_file = argument.file;
  return {};
}

}  // namespace

bool parse_extents(std::string_view text, char separator, int64_t least,
                   std::vector<int64_t>& extents) {
  extents.clear();
  for (const std::string& field : split(text, separator)) {
    int64_t value = 0;
    if (!parse_whole(std::string_view(field), value) || value < least || value > kMaxExtent) {
      extents.clear();
      return false;
    }
    extents.push_back(value);
  }
  return true;
}

Result<SimArgument> parse_sim_argument(const std::string& text) {
  SimArgument argument;
  argument.text = text;
  if (text == "{" || text == "}") {
    argument.kind = text == "{" ? SimArgumentKind::kStructBegin : SimArgumentKind::kStructEnd;
    return argument;
  }
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (find_sim_type(kind, argument.type)) {
    LSSAR_RETURN_IF_ERROR(parse_scalar(rest, argument));
    return argument;
  }
  const bool is_map = kind.starts_with("map");
  std::string mode = is_map ? kind.substr(3) : kind;
  if (is_map && mode.empty()) mode = "in";
  if (colon == std::string::npos || (mode != "in" && mode != "out" && mode != "inout")) {
    return bad(text, fmt::format("'{}' is no kind of argument: allowed are in, out, inout, map, "
                                 "mapout, mapinout, {{, }} and scalars of {}",
                                 kind, sim_type_names()));
  }
  argument.kind = is_map ? SimArgumentKind::kTensorMap : SimArgumentKind::kPointer;
  LSSAR_RETURN_IF_ERROR(parse_file_argument(mode, split(rest, ':'), argument));
  return argument;
}

std::string sim_argument_help() {
  return "Each --arg is one parameter of the kernel, in the kernel's order:\n"
         "  i32:N i64:N f32:X ...           a number of that DTYPE\n"
         "  in:FILE.npy:DTYPE               pointer to the file's values, converted\n"
         "  out:FILE.npy:DTYPE:SHAPE        pointer to memory that is poison before the\n"
         "                                  launch and written to the file after it;\n"
         "                                  SHAPE: 1x2x64x64\n"
         "  inout:FILE.npy:DTYPE[:OUT.npy]  both; written to OUT.npy where that is given\n"
         "  map:FILE.npy:DTYPE:box=ROWSxCOLS[:swizzle=none|32B|64B|128B]\n"
         "                                  tensor map by value: the file as a matrix\n"
         "                                  whose rows are those of the last dimension\n"
         "  mapout:FILE.npy:DTYPE[:SHAPE]:box=...\n"
         "  mapinout:FILE.npy:DTYPE[:OUT.npy]:box=...\n"
         "  { and }                         arguments between them are one struct by value\n"
         "DTYPE: " +
         sim_type_names() + "\nFiles hold float32 or float64; what is written is float32.\n";
}

}  // namespace lssar::command
