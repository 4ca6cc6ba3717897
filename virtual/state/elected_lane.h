// Which lane elect.sync elects.
#pragma once

#include <cstdint>

namespace lssar {

enum class ElectedLane : uint8_t {
  kLowest,  // of the members, as GPUs do; existing kernels rely on it
  kDrawn,   // drawn from the schedule seed (seed 0: the lowest); finds code that relies on the
            // lowest
};

}  // namespace lssar
