// Exit codes of the command, and how a Status becomes one. Documented in docs/command.md and
// --help.
#pragma once

#include <string>

#include "base/status.h"

namespace lssar::command {

enum ExitCode {
  kDone = 0,
  kWrongNumbers = 1,  // it ran, and the numbers are wrong
  kBadInput = 2,      // wrong options, or a file with the wrong content
  kNotFound = 3,      // a compiler or device that is needed is missing
  kFailed = 4,        // a compile or device error, or a bug
  kIo = 5,            // a file could not be read or written
};

ExitCode exit_code_of(StatusCode code);

// The last lines of every --help.
std::string exit_code_help();

// Prints "lssar: <code>: <message>" to standard error and returns the exit code. It is one line,
// except for the log that follows a compile error.
int report_failure(const Status& status);

}  // namespace lssar::command
