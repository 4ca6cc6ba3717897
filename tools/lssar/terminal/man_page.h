// The manual page of lssar in roff, made of its option definitions.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "tools/lssar/terminal/command_spec.h"

namespace lssar::command {

std::string man_page(const CommandSpec& root);

}  // namespace lssar::command
