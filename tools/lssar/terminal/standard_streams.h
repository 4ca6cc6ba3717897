// Standard input, output and error of the command: what is printed arrives, or the exit code says
// that it did not.
#pragma once

#include <utility>

#include <fmt/format.h>

#include "base/status.h"

namespace lssar::command {

// To be called before anything is opened. A standard file that is closed is taken, so that no file
// of ours gets its number and what is printed; writing to it fails. A file beyond `ulimit -f` is an
// error like a full disk, not the end of the process.
void prepare_standard_streams();

// kIoError where anything that was printed is lost, for the reason `error` (an errno) where that is
// known already. Nothing may be printed afterwards.
Status finish_standard_output(int error);

// Prints to standard error. Where that takes nothing (a full disk) the work is still worth doing.
template <typename... T>
void tell(fmt::format_string<T...> text, T&&... values) {
  const std::string line = fmt::format(text, std::forward<T>(values)...);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace lssar::command
