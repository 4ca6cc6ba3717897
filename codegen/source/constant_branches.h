// Branches of device source that constants decide, left out of it.
//
// Knows `if` and `if constexpr`, `? :`, and the operands of && and || in conditions. What it does
// not understand stays as it is: the compiler decides it then. Threads: pure functions.
#pragma once

#include <string>

#include "codegen/source/constant_value.h"

namespace lssar {

// `text`, one declaration (a function with its body, or a variable), without what `constants`
// decide against. Lines are as clang-format has them: a statement begins its line.
std::string resolve_branches(std::string text, const SourceConstants& constants);

}  // namespace lssar
