// Removes branches of device source that constants decide.
//
// It understands `if` and `if constexpr`, `? :`, and the operands of && and || in conditions.
// Whatever it does not understand stays for the compiler. Threads: pure functions.
#pragma once

#include <string>

#include "codegen/source/constant_value.h"

namespace lssar {

// `text` (one declaration: a function with its body, or a variable) without the branches that
// `constants` rule out. Lines must be formatted by clang-format: every statement begins a line.
std::string resolve_branches(std::string text, const SourceConstants& constants);

}  // namespace lssar
