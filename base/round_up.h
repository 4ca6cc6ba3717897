// Sizes and addresses rounded up to a multiple.
#pragma once

#include <cstdint>

namespace lssar {

// REQUIRES: unit > 0.
constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace lssar
