// Scripts that complete command lines of lssar, made of its option definitions.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "tools/lssar/terminal/command_spec.h"

namespace lssar::command {

std::string bash_completion(const CommandSpec& root);
// bash's, through zsh's bashcompinit.
std::string zsh_completion(const CommandSpec& root);

}  // namespace lssar::command
