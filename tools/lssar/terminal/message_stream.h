// Chooses the stream for a subcommand's messages when its output may be standard output.
#pragma once

#include <cstdio>
#include <string>

#include "base/output_file.h"

namespace lssar::command {

// Standard error if the bytes for `output` go to standard output, so that messages do not mix with
// them.
inline std::FILE* message_stream(const std::string& output) {
  return is_standard_output(output) ? stderr : stdout;
}

}  // namespace lssar::command
