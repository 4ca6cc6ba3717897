// Arithmetic of one instruction. Approximations flush subnormal numbers.
//
// Only what the language has no operator for. Error bounds are those of the PTX ISA.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

// A function that is one instruction. `to`: the constraint of its result.
#define LSSAR_INSTRUCTION(name, type, to, parameters, instruction, ...) \
  LSSAR_DEVICE type name parameters {                                   \
    type result;                                                        \
    asm(instruction : to(result) : __VA_ARGS__);                        \
    return result;                                                      \
  }

// 2^x, relative error 2^-22; 0 below x = -126, also for -infinity.
LSSAR_INSTRUCTION(exp2_approx, float, "=f", (float x), "ex2.approx.ftz.f32 %0, %1;", "f"(x))
// log2(x). NOTE: the error is ABSOLUTE (2^-22) for x in (0.5, 2): log2(1 + u) of a small u is lost.
LSSAR_INSTRUCTION(log2_approx, float, "=f", (float x), "lg2.approx.ftz.f32 %0, %1;", "f"(x))
// 1 / x, error 1 ulp.
LSSAR_INSTRUCTION(reciprocal_approx, float, "=f", (float x), "rcp.approx.ftz.f32 %0, %1;", "f"(x))
LSSAR_INSTRUCTION(square_root, float, "=f", (float x), "sqrt.rn.f32 %0, %1;", "f"(x))
LSSAR_INSTRUCTION(absolute, float, "=f", (float x), "abs.f32 %0, %1;", "f"(x))
// a * b + c clamped to [0, 1]. NOTE: a NaN becomes 0; the caller must carry NaN another way.
LSSAR_INSTRUCTION(fma_saturate, float, "=f", (float a, float b, float c),
                  "fma.rn.sat.f32 %0, %1, %2, %3;", "f"(a), "f"(b), "f"(c))
LSSAR_INSTRUCTION(fma, float, "=f", (float a, float b, float c), "fma.rn.f32 %0, %1, %2, %3;",
                  "f"(a), "f"(b), "f"(c))
// a + b as two rounded operands; the compiler never merges it into an fma.
LSSAR_INSTRUCTION(add_rounded, float, "=f", (float a, float b), "add.rn.f32 %0, %1, %2;", "f"(a),
                  "f"(b))
// NOTE: if one of the two is NaN, the result is the other.
LSSAR_INSTRUCTION(maximum, float, "=f", (float a, float b), "max.f32 %0, %1, %2;", "f"(a), "f"(b))
// The same, but NaN if one of the two is.
LSSAR_INSTRUCTION(minimum_or_nan, float, "=f", (float a, float b), "min.NaN.f32 %0, %1, %2;",
                  "f"(a), "f"(b))
LSSAR_INSTRUCTION(maximum_or_nan, float, "=f", (float a, float b), "max.NaN.f32 %0, %1, %2;",
                  "f"(a), "f"(b))
LSSAR_DEVICE bool is_nan(float x) { return x != x; }

LSSAR_INSTRUCTION(float_from_bits, float, "=f", (u32 bits), "mov.b32 %0, %1;", "r"(bits))
LSSAR_INSTRUCTION(bits_of_float, u32, "=r", (float x), "mov.b32 %0, %1;", "f"(x))
// How many bits are set.
LSSAR_INSTRUCTION(count_bits, int, "=r", (u32 bits), "popc.b32 %0, %1;", "r"(bits))
LSSAR_INSTRUCTION(multiply_wide, u64, "=l", (u32 a, u32 b), "mul.wide.u32 %0, %1, %2;", "r"(a),
                  "r"(b))
LSSAR_INSTRUCTION(pack_words, u64, "=l", (u32 low, u32 high), "mov.b64 %0, {%1, %2};", "r"(low),
                  "r"(high))

LSSAR_DEVICE float quiet_nan() { return float_from_bits(0x7fffffffu); }
LSSAR_DEVICE float infinity() { return float_from_bits(0x7f800000u); }

LSSAR_DEVICE i64 minimum(i64 a, i64 b) { return a < b ? a : b; }
LSSAR_DEVICE i64 maximum(i64 a, i64 b) { return a > b ? a : b; }
LSSAR_DEVICE int minimum(int a, int b) { return a < b ? a : b; }
LSSAR_DEVICE int maximum(int a, int b) { return a > b ? a : b; }

}  // namespace lssar_device
