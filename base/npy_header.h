// The dictionary in the header of a .npy file. Internal to base/npy.cpp; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lssar {

constexpr size_t kNpyMaxDims = 64;  // NumPy's own limit

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;  // every dimension is at least 0
};

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }: each key once, in any order,
// nothing else. Fills *header and returns "", or returns what is wrong.
std::string parse_npy_header(std::string_view text, NpyHeader* header);

// At most 40 characters and no control characters, so that a message may quote an untrusted file.
std::string npy_printable(std::string_view text);

}  // namespace lssar
