// Element types of `lssar sim` as they lie in device memory, to and from float64.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lssar::command {

enum class SimType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kE4m3,
  kE5m2,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
};

// "f32", "e4m3", "i64", ...; false: there is no such name.
bool find_sim_type(std::string_view name, SimType& type);
// "f64, f32, ...": the names that find_sim_type knows.
std::string sim_type_names();
const char* sim_type_name(SimType type);
size_t sim_type_bytes(SimType type);

// Little endian. Floats are rounded to nearest even; beyond their range f32, f16 and bf16 become
// infinity, e4m3 and e5m2 their largest number (as cvt.rn.satfinite does). Integers must be whole
// numbers within their range: kInvalidArgument names the first element that is not.
Result<std::vector<std::byte>> encode_elements(SimType type, std::span<const double> values);

// Rounded to float32 if the type is finer. REQUIRES: bytes.size() is a multiple of the element's.
std::vector<float> decode_elements(SimType type, std::span<const std::byte> bytes);

}  // namespace lssar::command
