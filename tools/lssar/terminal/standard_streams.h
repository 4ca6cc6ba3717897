// Standard input, output and error of the command. If printed text does not arrive, the exit code
// says so.
#pragma once

#include <utility>

#include <fmt/format.h>

#include "base/status.h"

namespace lssar::command {

// Call it before anything is opened. It occupies standard files that are closed, so that no other
// file gets their numbers and what is printed; writing to them fails. A file beyond `ulimit -f` is
// an error like a full disk, and does not end the process.
void prepare_standard_streams();

// kIoError if anything that was printed is lost. `error` (an errno) is the reason if it is already
// known. Nothing may be printed afterwards.
Status finish_standard_output(int error);

// Prints to standard error. If that fails (a full disk), the work goes on.
template <typename... T>
void tell(fmt::format_string<T...> text, T&&... values) {
  const std::string line = fmt::format(text, std::forward<T>(values)...);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace lssar::command
