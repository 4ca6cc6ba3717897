// Lists of parameters and arguments in device source. Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/source/source_tokens.h"

namespace lssar {

// Behind the > of the list that tokens[open], a <, opens. In declarations only, where no <
// compares.
size_t after_angles(const std::vector<Token>& t, size_t open, size_t end);

// Whether tokens[open], a <, opens a list of template arguments; then `after` is behind it.
bool is_template_list(const std::vector<Token>& t, size_t open, size_t* after);

// How many arguments: of a declaration least and most, of a call the one number.
struct ArgumentCount {
  size_t least = 0;
  size_t most = 0;
};

// Counts the list between token open and the one that closes it. In declarations every < opens a
// list.
ArgumentCount count_arguments(const std::vector<Token>& t, size_t open, bool is_declaration);

// A list's arguments: their tokens.
std::vector<std::pair<size_t, size_t>> list_parts(const std::vector<Token>& t, size_t open);

bool is_number_type(const Token& token);

// The type of what tokens[at], the name of a type of numbers, declares, and its name: of an array
// "u32[4]", of a reference "u32&"; "" where it is something else.
std::string declared_type(const std::vector<Token>& t, size_t at, std::string_view* name);

}  // namespace lssar
