#include "reference/numerics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace lssar {

namespace {

// A 16-bit format: sign, exponent and fraction, from the highest bit down.
struct Format16 {
  int fraction_bits;
  int bias;  // of the exponent; the least exponent is 1 - bias

  uint32_t infinity() const { return (uint32_t{2} * bias + 1) << fraction_bits; }
  uint32_t quiet_nan() const { return infinity() | (uint32_t{1} << (fraction_bits - 1)); }
};

constexpr Format16 kFp16{10, 15};
constexpr Format16 kBf16{7, 127};

constexpr int kDoubleFractionBits = 52;
constexpr int kDoubleBias = 1023;
constexpr int kDoubleMaxExponent = 2047;

// value >> shift, rounded to nearest even. REQUIRES: 0 < shift.
uint64_t shift_round(uint64_t value, int shift) {
  if (shift > 63) return 0;  // less than half a unit, since significands have 53 bits
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t rest = value & (2 * half - 1);
  const uint64_t kept = value >> shift;
  return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

uint16_t encode(double value, Format16 format) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << 15;
  const uint64_t fraction = bits & ((uint64_t{1} << kDoubleFractionBits) - 1);
  const int biased = static_cast<int>(bits >> kDoubleFractionBits) & kDoubleMaxExponent;
  if (biased == kDoubleMaxExponent) {
    return static_cast<uint16_t>(sign | (fraction != 0 ? format.quiet_nan() : format.infinity()));
  }
  if (biased == 0) return static_cast<uint16_t>(sign);  // far below half the least number

  const int exponent = biased - kDoubleBias;
  const int least_exponent = 1 - format.bias;
  const int shift =
      kDoubleFractionBits - format.fraction_bits + std::max(least_exponent - exponent, 0);
  const uint64_t rounded = shift_round(fraction | (uint64_t{1} << kDoubleFractionBits), shift);
  // In normal numbers `rounded` contains the leading 1, which adds 1 to the exponent field. A carry
  // out of the fraction adds 1 too.
  const uint64_t field = static_cast<uint64_t>(std::max(exponent - least_exponent, 0));
  const uint64_t magnitude =
      std::min<uint64_t>((field << format.fraction_bits) + rounded, format.infinity());
  return static_cast<uint16_t>(sign | magnitude);
}

}  // namespace

uint16_t encode_fp16(double value) { return encode(value, kFp16); }
uint16_t encode_bf16(double value) { return encode(value, kBf16); }

float round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kFp16:
      return decode_fp16(encode_fp16(value));
    case DType::kBf16:
      return decode_bf16(encode_bf16(value));
    case DType::kFp32:
      break;
  }
  return static_cast<float>(value);
}

void round_all(DType dtype, std::span<float> values) {
  if (dtype == DType::kFp32) return;
  for (float& value : values) value = round_to(dtype, value);
}

std::vector<std::byte> pack(DType dtype, std::span<const float> values) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  if (dtype == DType::kFp32) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  const Format16 format = dtype == DType::kFp16 ? kFp16 : kBf16;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = encode(values[i], format);
    std::memcpy(bytes.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
  return bytes;
}

std::vector<float> unpack(DType dtype, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / dtype_bytes(dtype));
  if (dtype == DType::kFp32) {
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
    values[i] = dtype == DType::kFp16 ? decode_fp16(bits) : decode_bf16(bits);
  }
  return values;
}

double largest_number(DType dtype) {
  switch (dtype) {
    case DType::kFp16:
      return decode_fp16(static_cast<uint16_t>(kFp16.infinity() - 1));
    case DType::kBf16:
      return decode_bf16(static_cast<uint16_t>(kBf16.infinity() - 1));
    case DType::kFp32:
      break;
  }
  return std::numeric_limits<float>::max();
}

}  // namespace lssar
