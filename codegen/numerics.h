// Numbers as the kernels store them (fp16, bf16, fp32), and the error rule their results are held
// to. Used by the tests, by `lssar run` and by `lssar verify`. No state: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/problem.h"
#include "codegen/random_inputs.h"

namespace lssar {

// Round to nearest, ties to even, once: from a double too. Beyond the largest number: infinity.
// NaN becomes the quiet NaN of its sign.
uint16_t encode_fp16(double value);
uint16_t encode_bf16(double value);
float decode_fp16(uint16_t bits);
float decode_bf16(uint16_t bits);

// The nearest number of `dtype`.
float round_to(DType dtype, double value);
void round_all(DType dtype, std::span<float> values);

// A tensor as it lies in device memory (little endian), and back.
std::vector<std::byte> pack(DType dtype, std::span<const float> values);
// REQUIRES: bytes.size() is a multiple of the element size.
std::vector<float> unpack(DType dtype, std::span<const std::byte> bytes);

// What a problem computes (a call.h Tensor is memory).
enum class OutputTensor { kO, kDq, kDk, kDv };

// "o", "dq", "dk", "dv".
const char* tensor_name(OutputTensor tensor);

// What a tensor's relative error may be (docs/math.md, tolerances). `data`: clustered inputs, whose
// gradients cancel, may have twice the error in 16 bits; opposed ones, with very negative scores,
// eight times in float32.
double tolerance(DType dtype, OutputTensor tensor, int p, InputKind data = InputKind::kGauss);

// The absolute error allowed on top, from ReferenceOutputs::floor_norm_dq or _dk. 0 for o and dv.
double error_floor(double floor_norm);

struct TensorError {
  double relative_l2 = 0;  // |error| / |reference|; 0 where both are 0
  double error_l2 = 0;
  double worst_abs = 0;    // NaN where an element's error is
  size_t worst_index = 0;  // of the worst element; the first NaN, if there is one
  double tolerance = 0;
  double floor = 0;
  bool passed = false;

  // "relative L2 1.2e-03 (allowed 3.0e-03), worst 4.5e-02 at 1234: passed".
  std::string to_string() const;
};

// passed = |error| <= tolerance |reference| + floor in L2 norms over the tensor. A NaN on either
// side fails (also where both have one: tests of the NaN rules compare by themselves), and so does
// a difference in size.
TensorError compare(std::span<const double> reference, std::span<const float> actual,
                    double tolerance, double floor);

}  // namespace lssar
