#include "tools/lssar/sim/sim_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "reference/numerics.h"

namespace lssar::command {
namespace {

struct TypeName {
  std::string_view name;
  SimType type;
  size_t bytes;
};
// In the order of the enum.
constexpr TypeName kTypes[] = {
    {"f64", SimType::kF64, 8},   {"f32", SimType::kF32, 4},   {"f16", SimType::kF16, 2},
    {"bf16", SimType::kBf16, 2}, {"e4m3", SimType::kE4m3, 1}, {"e5m2", SimType::kE5m2, 1},
    {"i8", SimType::kI8, 1},     {"u8", SimType::kU8, 1},     {"i16", SimType::kI16, 2},
    {"u16", SimType::kU16, 2},   {"i32", SimType::kI32, 4},   {"u32", SimType::kU32, 4},
    {"i64", SimType::kI64, 8},   {"u64", SimType::kU64, 8},
};

const TypeName& entry(SimType type) { return kTypes[static_cast<size_t>(type)]; }

// An 8-bit float: sign, exponent, fraction from the highest bit down.
struct Format8 {
  int fraction_bits;
  int bias;
  uint8_t largest;    // magnitude bits of the largest number
  uint8_t quiet_nan;  // magnitude bits
};
constexpr Format8 kE4m3{3, 7, 0x7e, 0x7f};
constexpr Format8 kE5m2{2, 15, 0x7b, 0x7f};

double decode8(uint8_t bits, const Format8& format) {
  const int magnitude = bits & 0x7f;
  const int exponent = magnitude >> format.fraction_bits;
  const int fraction = magnitude & ((1 << format.fraction_bits) - 1);
  double value = 0;
  if (magnitude > format.largest) {
    // e5m2 has an infinity right after its largest number, e4m3 only a NaN.
    const bool infinite = format.fraction_bits == kE5m2.fraction_bits && fraction == 0;
    value = infinite ? std::numeric_limits<double>::infinity()
                     : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - format.bias - format.fraction_bits);
  } else {
    value = std::ldexp(fraction + (1 << format.fraction_bits),
                       exponent - format.bias - format.fraction_bits);
  }
  return std::copysign(value, (bits & 0x80) != 0 ? -1.0 : 1.0);
}

// A format's magnitudes rise with their bits. So the nearest one is found by counting units of the
// last place.
uint8_t encode8(double value, const Format8& format) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | format.quiet_nan;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (magnitude >= decode8(format.largest, format)) return sign | format.largest;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, 1 - format.bias);
  // nearbyint rounds ties to even in the default rounding mode.
  const int units =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  const int field = exponent + format.bias - 1;
  return static_cast<uint8_t>(sign | ((field << format.fraction_bits) + units));
}

template <class T>
void put(std::byte* place, T value) {
  std::memcpy(place, &value, sizeof value);
}
template <class T>
T get(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

// 2^bits is exact as a double; the greatest integer is not.
template <class T>
bool put_integer(std::byte* place, double value) {
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  const double begin = std::is_signed_v<T> ? -end : 0.0;
  if (!(value >= begin && value < end) || value != std::trunc(value)) return false;
  put(place, static_cast<T>(value));
  return true;
}

bool put_element(SimType type, std::byte* place, double value) {
  switch (type) {
    case SimType::kF64:
      put(place, value);
      return true;
    case SimType::kF32:
      put(place, static_cast<float>(value));
      return true;
    case SimType::kF16:
      put(place, encode_fp16(value));
      return true;
    case SimType::kBf16:
      put(place, encode_bf16(value));
      return true;
    case SimType::kE4m3:
      put(place, encode8(value, kE4m3));
      return true;
    case SimType::kE5m2:
      put(place, encode8(value, kE5m2));
      return true;
    case SimType::kI8:
      return put_integer<int8_t>(place, value);
    case SimType::kU8:
      return put_integer<uint8_t>(place, value);
    case SimType::kI16:
      return put_integer<int16_t>(place, value);
    case SimType::kU16:
      return put_integer<uint16_t>(place, value);
    case SimType::kI32:
      return put_integer<int32_t>(place, value);
    case SimType::kU32:
      return put_integer<uint32_t>(place, value);
    case SimType::kI64:
      return put_integer<int64_t>(place, value);
    case SimType::kU64:
      return put_integer<uint64_t>(place, value);
  }
  return false;
}

float get_element(SimType type, const std::byte* place) {
  switch (type) {
    case SimType::kF64:
      return static_cast<float>(get<double>(place));
    case SimType::kF32:
      return get<float>(place);
    case SimType::kF16:
      return decode_fp16(get<uint16_t>(place));
    case SimType::kBf16:
      return decode_bf16(get<uint16_t>(place));
    case SimType::kE4m3:
      return static_cast<float>(decode8(get<uint8_t>(place), kE4m3));
    case SimType::kE5m2:
      return static_cast<float>(decode8(get<uint8_t>(place), kE5m2));
    case SimType::kI8:
      return get<int8_t>(place);
    case SimType::kU8:
      return get<uint8_t>(place);
    case SimType::kI16:
      return get<int16_t>(place);
    case SimType::kU16:
      return get<uint16_t>(place);
    case SimType::kI32:
      return static_cast<float>(get<int32_t>(place));
    case SimType::kU32:
      return static_cast<float>(get<uint32_t>(place));
    case SimType::kI64:
      return static_cast<float>(get<int64_t>(place));
    case SimType::kU64:
      return static_cast<float>(get<uint64_t>(place));
  }
  return 0;
}

}  // namespace

bool find_sim_type(std::string_view name, SimType& type) {
  for (const TypeName& t : kTypes) {
    if (t.name != name) continue;
    type = t.type;
    return true;
  }
  return false;
}

std::string sim_type_names() {
  std::string names;
  for (const TypeName& t : kTypes) names += fmt::format("{}{}", names.empty() ? "" : ", ", t.name);
  return names;
}

const char* sim_type_name(SimType type) { return entry(type).name.data(); }
size_t sim_type_bytes(SimType type) { return entry(type).bytes; }

Result<std::vector<std::byte>> encode_elements(SimType type, std::span<const double> values) {
  const size_t size = sim_type_bytes(type);
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    if (put_element(type, bytes.data() + i * size, values[i])) continue;
    return invalid_argument(fmt::format("element {} = {}: allowed are the whole numbers of {}", i,
                                        values[i], sim_type_name(type)));
  }
  return bytes;
}

std::vector<float> decode_elements(SimType type, std::span<const std::byte> bytes) {
  const size_t size = sim_type_bytes(type);
  std::vector<float> values(bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = get_element(type, bytes.data() + i * size);
  }
  return values;
}

}  // namespace lssar::command
