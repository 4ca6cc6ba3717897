// Natural loops of a kernel's control flow. Internal to inspect/. Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/sass.h"

namespace lssar {

// Where an instruction may go. An instruction without an entry only goes to the next one.
struct SassBranch {
  uint32_t from = 0;              // index of the instruction
  std::vector<uint32_t> targets;  // indices
  bool falls_through = false;     // also to the next one
};

// REQUIRES: `branches` are sorted by `from`.
std::vector<SassLoop> find_loops(const std::vector<SassInstruction>& instructions,
                                 const std::vector<SassBranch>& branches);

}  // namespace lssar
