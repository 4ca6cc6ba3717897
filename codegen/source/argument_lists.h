// Lists of parameters and arguments in device source. Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/source/source_tokens.h"

namespace lssar {

// Returns the index after the > that closes the < at tokens[open]. Only for declarations, where a <
// is never a comparison.
size_t after_angles(const std::vector<Token>& t, size_t open, size_t end);

// Whether the < at tokens[open] opens a list of template arguments. If so, sets `after` to the
// index after the list.
bool is_template_list(const std::vector<Token>& t, size_t open, size_t* after);

// The number of arguments. A declaration may have default arguments; for a call both numbers are
// equal.
struct ArgumentCount {
  size_t least = 0;
  size_t most = 0;
};

// Counts the arguments between tokens[open] and the token that closes it. In declarations every <
// opens a list.
ArgumentCount count_arguments(const std::vector<Token>& t, size_t open, bool is_declaration);

// The arguments of a list, each as a range of token indices.
std::vector<std::pair<size_t, size_t>> list_parts(const std::vector<Token>& t, size_t open);

bool is_number_type(const Token& token);

// tokens[at] is a numeric type. If it declares a variable, sets `name` and returns the type: "u32",
// "u32[4]" for an array, "u32&" for a reference. Otherwise returns "".
std::string declared_type(const std::vector<Token>& t, size_t at, std::string_view* name);

}  // namespace lssar
