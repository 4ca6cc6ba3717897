// Natural loops of a kernel's control flow. Internal to inspect/. Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/sass.h"

namespace lssar {

// REQUIRES: `branches` are sorted by `from`.
std::vector<SassLoop> find_loops(const std::vector<SassInstruction>& instructions,
                                 const std::vector<SassBranch>& branches);

}  // namespace lssar
