// Conversions between float and the 16-bit storage formats, to nearest even.
#pragma once

#include "templates/ptx/math.cuh"

namespace lssar_device {

// Two values in one register, `low` in the low half.
LSSAR_INSTRUCTION(pack_pair, u32, "=r", (Bf16*, float low, float high),
                  "cvt.rn.bf16x2.f32 %0, %1, %2;", "f"(high), "f"(low))
LSSAR_INSTRUCTION(pack_pair, u32, "=r", (Fp16*, float low, float high),
                  "cvt.rn.f16x2.f32 %0, %1, %2;", "f"(high), "f"(low))
template <class T>
LSSAR_DEVICE u32 pack(float low, float high) {
  return pack_pair(static_cast<T*>(nullptr), low, high);
}

LSSAR_DEVICE float to_float(Bf16 x) { return float_from_bits(static_cast<u32>(x.bits) << 16); }
LSSAR_INSTRUCTION(to_float, float, "=f", (Fp16 x), "cvt.f32.f16 %0, %1;", "h"(x.bits))
LSSAR_DEVICE float to_float(float x) { return x; }

LSSAR_DEVICE void from_float(Bf16& result, float x) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
}
LSSAR_DEVICE void from_float(Fp16& result, float x) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
}
LSSAR_DEVICE void from_float(float& result, float x) { result = x; }

// The two values of a packed register.
LSSAR_DEVICE void unpack(Bf16*, u32 pair, float& low, float& high) {
  low = float_from_bits(pair << 16);
  high = float_from_bits(pair & 0xffff0000u);
}
LSSAR_DEVICE void unpack(Fp16*, u32 pair, float& low, float& high) {
  low = to_float(Fp16{static_cast<u16>(pair & 0xffffu)});
  high = to_float(Fp16{static_cast<u16>(pair >> 16)});
}

}  // namespace lssar_device
