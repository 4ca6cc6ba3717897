// .npy files (NumPy's array format): reads arrays of floats and of integers of any shape, writes
// float32 arrays. Used for the command's inputs and outputs and by the golden tests.
//
// Reads versions 1.0, 2.0 and 3.0, little endian, C order. Headers are untrusted: nothing is
// allocated beyond the size of the file.
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

// kIoError: the file cannot be read. kInvalidArgument: it is not a .npy file, it is damaged, or its
// size differs from what its header says. kUnsupported: another dtype or byte order, or Fortran
// order. Each message names the file, what was found and what is allowed. float64 values are
// rounded to the nearest float32; beyond float32's range they become infinity.
Result<NpyArray<float>> read_npy_float32(const std::string& path);
Result<NpyArray<double>> read_npy_float64(const std::string& path);

// The same for int32 and int64.
Result<NpyArray<int64_t>> read_npy_int64(const std::string& path);

// The same for the bytes of a file of floats. Messages call it `name`.
Result<NpyArray<float>> parse_npy_float32(std::string_view bytes, const std::string& name);
Result<NpyArray<double>> parse_npy_float64(std::string_view bytes, const std::string& name);

// The bytes of a float32 file of version 1.0. Messages call it `name`. kInvalidArgument if the
// shape does not match the number of values.
Result<std::string> npy_float32_bytes(const std::string& name, std::span<const int64_t> shape,
                                      std::span<const float> values);
// Writes the file by the rules of base/output_file.h. After kIoError the old file is still there.
Status write_npy_float32(const std::string& path, std::span<const int64_t> shape,
                         std::span<const float> values);

// "(2, 4, 128, 64)", "(3,)", "()": as NumPy prints shapes.
std::string npy_shape_string(std::span<const int64_t> shape);

}  // namespace lssar
