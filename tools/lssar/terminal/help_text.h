// The help of a command as text, in the terminal's width, with options in groups.
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

// The width of a help on standard output: the terminal's; 80 if it is no terminal.
size_t help_columns();

// "  --head-dim N": an option and its value, as help and man page write it.
std::string option_text(const OptionSpec& option);

// Makes `app`, and subcommands that are added to it later, print help_text().
void use_help_text(CLI::App& app);

}  // namespace lssar::command
