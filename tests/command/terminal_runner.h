// Runs the lssar command on a terminal of its own, as wide as wanted, and keeps what it writes
// there.
//
// Threads: each call stands alone.
#pragma once

#include <string>
#include <vector>

namespace lssar {

// Standard output and standard error together; lines end with '\n'.
std::string run_on_terminal(int columns, const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment = {});

}  // namespace lssar
