// Text on a terminal: how wide it is, and lines that fit. Pipes and files get lines as they are.
//
// Threads: pure functions of the text. The terminal is asked for its width at each call.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace lssar::command {

// Columns of the terminal behind `stream`; 0 where it is none.
size_t terminal_columns(std::FILE* stream);

// `text` with lines of at most `columns`, broken at spaces; further lines begin with `indent`
// spaces. A word that is longer keeps a line of its own.
std::string wrapped(const std::string& text, size_t columns, size_t indent = 0);

// A command for a shell: on a terminal its further lines follow a backslash, so that it may be
// copied.
void print_command(std::FILE* stream, const std::string& command);
// As it prints it, of lines of at most `columns`.
std::string wrapped_command(const std::string& command, size_t columns, size_t indent);

// A message of a line, without its line end: wrapped on a terminal.
void print_message(std::FILE* stream, const std::string& text);

}  // namespace lssar::command
