// Text on a terminal: its width, and lines that fit. Pipes and files get lines unchanged.
//
// Threads: pure functions of the text. The terminal is asked for its width at each call.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace lssar::command {

// Columns of the terminal behind `stream`; 0 if it is no terminal.
size_t terminal_columns(std::FILE* stream);

// `text` in lines of at most `columns`, broken at spaces. Lines after the first begin with `indent`
// spaces. A longer word has a line of its own.
std::string wrapped(const std::string& text, size_t columns, size_t indent = 0);

// Prints a shell command. On a terminal its lines end with a backslash, so that it can be copied.
void print_command(std::FILE* stream, const std::string& command);
// The text that print_command prints, in lines of at most `columns`.
std::string wrapped_command(const std::string& command, size_t columns, size_t indent);

// Prints a one-line message without its line end; wrapped on a terminal.
void print_message(std::FILE* stream, const std::string& text);

}  // namespace lssar::command
