// Which instruction set the virtual device's handlers use: the best that the processor has, or one
// asked for by name.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace lssar {

enum class SimdLevel {
  kAuto,    // the best the machine has
  kPlain,   // baseline x86-64; runs everywhere
  kAvx2,    // AVX2 + FMA + F16C
  kAvx512,  // AVX-512 F, BW, DQ, VL and VBMI
};

const char* simd_level_name(SimdLevel level);  // "auto", "plain", "avx2", "avx512"

// kInvalidArgument lists the names.
Result<SimdLevel> parse_simd_level(const std::string& name);

// The levels that were built and that this machine can run, weakest first. A build with
// LSSAR_NATIVE_SIMD has one level, and none that a lesser machine can run. Other builds have kPlain.
std::vector<SimdLevel> available_simd_levels();

// kAuto becomes LSSAR_VIRTUAL_SIMD if that is set, else the best level. kInvalidArgument: an
// unknown name, or a level that this machine or this build lacks. Never returns kAuto.
Result<SimdLevel> resolve_simd_level(SimdLevel wanted);

}  // namespace lssar
