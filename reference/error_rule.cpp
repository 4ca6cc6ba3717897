#include "reference/error_rule.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reference/numerics.h"

namespace lssar {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// How much larger a kernel's error may be than the ideal kernel's. Kernels also use cheaper forms
// of softplus, whose error weighs more if the dtype rounds finely: the largest ratio seen was 1.6
// in bf16 and 2.2 in fp16. In float32 a few rows that cancel dominate the error and have few
// roundings each: 3.4 was seen.
double times_ideal(DType dtype) {
  return dtype == DType::kBf16 ? 2.0 : dtype == DType::kFp16 ? 3.0 : 4.0;
}

double ideal_error(const ReferenceOutputs& reference, OutputTensor tensor) {
  switch (tensor) {
    case OutputTensor::kO:
      return reference.ideal_error_o;
    case OutputTensor::kDq:
      return reference.ideal_error_dq;
    case OutputTensor::kDk:
      return reference.ideal_error_dk;
    case OutputTensor::kDv:
      return reference.ideal_error_dv;
    case OutputTensor::kDsink:
      break;
  }
  return 0;
}

// The norm of two errors that are independent.
double together(double a, double b) {
  // NOTE: not hypot: it alone would make the library need glibc 2.35.
  return std::sqrt(a * a + b * b);
}

double norm(const std::vector<double>& x) {
  double square = 0;
  for (const double value : x) square += value * value;
  return std::sqrt(square);
}

// Whether the right result is infinity, or one rounding away from it.
bool overflows(double reference, float actual, const AllowedError& allowed) {
  return std::isinf(actual) && std::isfinite(reference) &&
         std::signbit(actual) == std::signbit(reference) &&
         std::abs(reference) * (1 + allowed.relative) >= allowed.largest;
}

}  // namespace

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
    case OutputTensor::kDsink:
      return "dsink";
  }
  return "?";
}

double tolerance(DType dtype, OutputTensor tensor, int p) {
  const bool gradient = tensor != OutputTensor::kO;
  switch (dtype) {
    case DType::kBf16:
      return gradient ? 5e-3 : 3e-3;
    case DType::kFp16:
      return gradient ? 2e-3 : 1e-3;
    case DType::kFp32:
      break;
  }
  // The power multiplies relative errors by p, so the effect of rounded scores grows with it.
  return (gradient ? 2e-5 : 1e-5) * std::max(1.0, p / 15.0);
}

double error_floor(double floor_norm) { return 0x1p-20 * floor_norm; }

AllowedError allowed_error(const Problem& problem, OutputTensor tensor,
                           const ReferenceOutputs& reference) {
  AllowedError allowed;
  allowed.relative = tolerance(problem.dtype, tensor, problem.p);
  const double times = times_ideal(problem.dtype);
  const double ideal = ideal_error(reference, tensor);
  if (std::isfinite(ideal)) allowed.least = times * ideal;
  // For other score functions the ideal error leaves out most roundings. The table stands for them.
  const bool is_rest_known = problem.score == ScoreFunction();
  if (!is_rest_known && allowed.least > 0)
    allowed.least =
        together(allowed.relative * norm(reference_values(reference, tensor)), allowed.least);
  if (tensor == OutputTensor::kDq) allowed.floor = error_floor(reference.floor_norm_dq);
  if (tensor == OutputTensor::kDk) allowed.floor = error_floor(reference.floor_norm_dk);
  const bool is_float32 = tensor == OutputTensor::kDsink;
  if (is_float32) {
    allowed.least = together(allowed.relative * reference.row_norm_dsink,
                             times * reference.rotation_error_dsink);
    allowed.floor = error_floor(reference.floor_norm_dsink);
  }
  allowed.largest = largest_number(is_float32 ? DType::kFp32 : problem.dtype);
  return allowed;
}

const std::vector<double>& reference_values(const ReferenceOutputs& reference,
                                            OutputTensor tensor) {
  switch (tensor) {
    case OutputTensor::kDq:
      return reference.dq;
    case OutputTensor::kDk:
      return reference.dk;
    case OutputTensor::kDv:
      return reference.dv;
    case OutputTensor::kDsink:
      return reference.dsink;
    case OutputTensor::kO:
      break;
  }
  return reference.o;
}

std::string TensorError::to_string() const {
  const std::string verdict = overflow > 0 ? fmt::format("overflow, magnitude {:.3g}", overflow)
                              : passed     ? "passed"
                                           : "failed";
  return fmt::format("relative L2 {:.2e} (allowed {:.2e}), worst {:.2e} at {}: {}", relative_l2,
                     tolerance, worst_abs, worst_index, verdict);
}

TensorError compare(std::span<const double> reference, std::span<const float> actual,
                    const AllowedError& allowed) {
  TensorError result;
  result.tolerance = allowed.relative;
  result.floor = allowed.floor;
  if (reference.size() != actual.size()) {
    result.relative_l2 = result.error_l2 = result.worst_abs = kNan;
    return result;
  }
  double error_square = 0, reference_square = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    if (overflows(reference[i], actual[i], allowed)) {
      result.overflow = std::max(result.overflow, std::abs(reference[i]));
      continue;
    }
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
  const double most = std::max(allowed.relative * reference_l2, allowed.least) + allowed.floor;
  // Beside a reference of 0 any error is infinite, and the floor allows it.
  if (reference_l2 > 0 || (error_square > 0 && most > 0)) result.tolerance = most / reference_l2;
  const bool is_right = result.error_l2 <= most;
  if (!is_right) result.overflow = 0;
  result.passed = is_right && result.overflow == 0;
  return result;
}

}  // namespace lssar
