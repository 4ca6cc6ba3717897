// The help of a command as text: at the terminal's width, options in groups.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/lssar/terminal/command_spec.h"

namespace lssar::command {

// Its lines have at most `columns` columns.
std::string help_text(const CommandSpec& command, size_t columns);

// Columns of a help on standard output: the terminal's, 80 where it is none.
size_t help_columns();

// "  --head-dim N": an option and its value, as help and man page write it.
std::string option_text(const OptionSpec& option);

// Makes `app` and the subcommands that are added to it later print help_text().
void use_help_text(CLI::App& app);

}  // namespace lssar::command
