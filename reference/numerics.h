// Numbers in the types that kernels store: fp16, bf16, fp32. No state: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/small_floats.h"
#include "codegen/problem.h"

namespace lssar {

// Rounds once, to nearest with ties to even, even from a double. Numbers that are too large become
// infinity. NaN becomes the quiet NaN of its sign.
uint16_t encode_fp16(double value);
uint16_t encode_bf16(double value);

// The nearest number of `dtype`.
float round_to(DType dtype, double value);
void round_all(DType dtype, std::span<float> values);

// Converts a tensor to the bytes of device memory (little endian) and back.
std::vector<std::byte> pack(DType dtype, std::span<const float> values);
// REQUIRES: bytes.size() is a multiple of the element size.
std::vector<float> unpack(DType dtype, std::span<const std::byte> bytes);

// The largest finite number of `dtype`: 65504 in fp16.
double largest_number(DType dtype);

}  // namespace lssar
