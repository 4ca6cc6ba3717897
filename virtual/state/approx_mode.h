// What instructions with .approx return, within the error bounds of the PTX ISA. Handlers read it:
// plain data only.
#pragma once

#include <cstdint>

namespace lssar {

enum class ApproxMode : uint8_t {
  kNearest,  // about as good as float allows
  kHighest,  // the largest value the bound allows
  kLowest,   // the smallest
  kRandom,   // either of the two, by the bits of the argument
};

}  // namespace lssar
