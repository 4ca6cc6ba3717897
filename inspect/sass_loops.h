// Natural loops of a kernel's control flow. Internal to inspect/. Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/sass.h"

namespace lssar {

// Where an instruction may go. Without an entry: to the next one only.
struct SassBranch {
  uint32_t from = 0;              // index of the instruction
  std::vector<uint32_t> targets;  // indices
  bool falls_through = false;     // to the next one, too
};

// `branches` by ascending `from`.
std::vector<SassLoop> find_loops(const std::vector<SassInstruction>& instructions,
                                 const std::vector<SassBranch>& branches);

}  // namespace lssar
