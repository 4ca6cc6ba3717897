// Arithmetic of one instruction. Approximations flush subnormal numbers.
//
// Only what the language has no operator for. Error bounds are those of the PTX ISA.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

// A function that is one instruction of one operand.
#define LSSAR_UNARY(name, instruction)                   \
  LSSAR_DEVICE float name(float x) {                     \
    float result;                                        \
    asm(instruction " %0, %1;" : "=f"(result) : "f"(x)); \
    return result;                                       \
  }

// 2^x, relative error 2^-22; 0 below x = -126, also for -infinity.
LSSAR_UNARY(exp2_approx, "ex2.approx.ftz.f32")

// log2(x). NOTE: the error is ABSOLUTE (2^-22) for x in (0.5, 2): log2(1 + u) of a small u is lost.
LSSAR_UNARY(log2_approx, "lg2.approx.ftz.f32")

// 1 / x, error 1 ulp.
LSSAR_UNARY(reciprocal_approx, "rcp.approx.ftz.f32")

LSSAR_UNARY(square_root, "sqrt.rn.f32")

// a * b + c clamped to [0, 1]. NOTE: a NaN becomes 0; the caller must carry NaN another way.
LSSAR_DEVICE float fma_saturate(float a, float b, float c) {
  float result;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}

LSSAR_DEVICE float fma(float a, float b, float c) {
  float result;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}

// a + b as two rounded operands; the compiler never merges it into an fma.
LSSAR_DEVICE float add_rounded(float a, float b) {
  float result;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// NOTE: if one of the two is NaN, the result is the other.
LSSAR_DEVICE float maximum(float a, float b) {
  float result;
  asm("max.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// The same, but NaN if one of the two is.
LSSAR_DEVICE float minimum_or_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
LSSAR_DEVICE float maximum_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

LSSAR_UNARY(absolute, "abs.f32")
LSSAR_DEVICE bool is_nan(float x) { return x != x; }

LSSAR_DEVICE float float_from_bits(u32 bits) {
  float result;
  asm("mov.b32 %0, %1;" : "=f"(result) : "r"(bits));
  return result;
}

LSSAR_DEVICE u32 bits_of_float(float x) {
  u32 result;
  asm("mov.b32 %0, %1;" : "=r"(result) : "f"(x));
  return result;
}

// How many bits are set.
LSSAR_DEVICE int count_bits(u32 bits) {
  int result;
  asm("popc.b32 %0, %1;" : "=r"(result) : "r"(bits));
  return result;
}

LSSAR_DEVICE u64 multiply_wide(u32 a, u32 b) {
  u64 product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}

LSSAR_DEVICE u64 pack_words(u32 low, u32 high) {
  u64 result;
  asm("mov.b64 %0, {%1, %2};" : "=l"(result) : "r"(low), "r"(high));
  return result;
}

// The same value, but opaque to the compiler, which moves no use of `x` above this point.
//
// So it does not move one above a wait, and does not keep or split the values from which `x` was
// computed.
LSSAR_DEVICE void pin_register(float& x) { asm volatile("" : "+f"(x)::"memory"); }
LSSAR_DEVICE void pin_register(u32& x) { asm volatile("" : "+r"(x)::"memory"); }
LSSAR_DEVICE void pin_register(int& x) { asm volatile("" : "+r"(x)::"memory"); }
LSSAR_DEVICE void pin_register(i64& x) { asm volatile("" : "+l"(x)::"memory"); }

LSSAR_DEVICE float quiet_nan() { return float_from_bits(0x7fffffffu); }
LSSAR_DEVICE float infinity() { return float_from_bits(0x7f800000u); }

LSSAR_DEVICE i64 minimum(i64 a, i64 b) { return a < b ? a : b; }
LSSAR_DEVICE i64 maximum(i64 a, i64 b) { return a > b ? a : b; }
LSSAR_DEVICE int minimum(int a, int b) { return a < b ? a : b; }
LSSAR_DEVICE int maximum(int a, int b) { return a > b ? a : b; }

}  // namespace lssar_device
