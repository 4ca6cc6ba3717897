// .npy files (NumPy's array format): read float32 or float64 arrays of any shape, write float32
// ones. Used by the command, which takes inputs and gives outputs in them, and by the golden tests.
//
// Read: versions 1.0, 2.0 and 3.0, little endian, C order. A header is hostile until shown
// otherwise: nothing is allocated beyond the size of the file.
//
// Threads: no shared state; every function may be called from any thread at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lssar {

// `values` in C order: the last dimension varies fastest. An empty shape is a scalar, one value.
template <typename T>
struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<T> values;
};

// kIoError: the file cannot be read. kInvalidArgument: it is not a .npy file, or is damaged, or its
// size is not what its header says. kUnsupported: another dtype or byte order, or Fortran order.
// Each message names the file, what was found and what is allowed.
// Values stored as float64 are rounded to the nearest float32 (beyond its range: infinity).
Result<NpyArray<float>> read_npy_float32(const std::string& path);
Result<NpyArray<double>> read_npy_float64(const std::string& path);

// The same from the bytes of a file; `name` is what messages call it.
Result<NpyArray<float>> parse_npy_float32(std::string_view bytes, const std::string& name);
Result<NpyArray<double>> parse_npy_float64(std::string_view bytes, const std::string& name);

// A file of version 1.0, float32; `name` is what messages call it. kInvalidArgument where shape and
// number of values disagree.
Result<std::string> npy_float32_bytes(const std::string& name, std::span<const int64_t> shape,
                                      std::span<const float> values);
// Writes it as base/output_file.h says; kIoError leaves what was there.
Status write_npy_float32(const std::string& path, std::span<const int64_t> shape,
                         std::span<const float> values);

// "(2, 4, 128, 64)", "(3,)", "()": as NumPy prints shapes.
std::string npy_shape_string(std::span<const int64_t> shape);

}  // namespace lssar
