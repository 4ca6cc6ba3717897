#include "codegen/numerics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace lssar {

namespace {

// A 16-bit format: sign, exponent, fraction from the highest bit down.
struct Format16 {
  int fraction_bits;
  int bias;  // of the exponent; the least one is 1 - bias

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
  if (shift > 63) return 0;  // all below half a unit: significands have 53 bits
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
  // `rounded` holds the leading 1 where the number is normal: it adds 1 to the exponent field, and
  // so does a carry out of the fraction.
  const uint64_t field = static_cast<uint64_t>(std::max(exponent - least_exponent, 0));
  const uint64_t magnitude =
      std::min<uint64_t>((field << format.fraction_bits) + rounded, format.infinity());
  return static_cast<uint16_t>(sign | magnitude);
}

}  // namespace

uint16_t encode_fp16(double value) { return encode(value, kFp16); }
uint16_t encode_bf16(double value) { return encode(value, kBf16); }

float decode_fp16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  float magnitude = 0;
  if (exponent == 31) {
    magnitude = fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                              : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.0f : 1.0f);
}

float decode_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

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

const char* tensor_name(OutputTensor tensor) {
  switch (tensor) {
    case OutputTensor::kO:
      return "o";
    case OutputTensor::kDq:
      return "dq";
    case OutputTensor::kDk:
      return "dk";
    case OutputTensor::kDv:
      return "dv";
  }
  return "?";
}

double tolerance(DType dtype, OutputTensor tensor, int p, InputKind data) {
  const bool gradient = tensor != OutputTensor::kO;
  const double factor = gradient && data == InputKind::kClustered ? 2.0 : 1.0;
  switch (dtype) {
    case DType::kBf16:
      return gradient ? 5e-3 * factor : 3e-3;
    case DType::kFp16:
      return gradient ? 2e-3 * factor : 1e-3;
    case DType::kFp32:
      break;
  }
  // The power multiplies relative errors by p; rounding of the scores grows with it.
  // A = e^S of a negative S has |S| times S's own relative error.
  const double negative = data == InputKind::kOpposed ? 8.0 : 1.0;
  return (gradient ? 2e-5 : 1e-5) * std::max(1.0, p / 15.0) * negative;
}

double error_floor(double floor_norm) { return 0x1p-20 * floor_norm; }

std::string TensorError::to_string() const {
  return fmt::format("relative L2 {:.2e} (allowed {:.2e}), worst {:.2e} at {}: {}", relative_l2,
                     tolerance, worst_abs, worst_index, passed ? "passed" : "failed");
}

TensorError compare(std::span<const double> reference, std::span<const float> actual,
                    double tolerance, double floor) {
  TensorError result;
  result.tolerance = tolerance;
  result.floor = floor;
  if (reference.size() != actual.size()) {
    result.relative_l2 = result.error_l2 = result.worst_abs =
        std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  double error_square = 0, reference_square = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double error = std::abs(actual[i] - reference[i]);
    error_square += error * error;
    reference_square += reference[i] * reference[i];
    if (!(error <= result.worst_abs) && !std::isnan(result.worst_abs)) {
      result.worst_abs = error;
      result.worst_index = i;
    }
  }
  result.error_l2 = std::sqrt(error_square);
  const double reference_l2 = std::sqrt(reference_square);
  result.relative_l2 = error_square == 0 ? 0 : result.error_l2 / reference_l2;
  result.passed = result.error_l2 <= tolerance * reference_l2 + floor;
  return result;
}

}  // namespace lssar
