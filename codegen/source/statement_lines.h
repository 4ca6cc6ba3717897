// Joins lines of device source after parts were removed. Threads: pure functions.
#pragma once

#include <string>

namespace lssar {

// Puts statements and heads that fit on one line onto one line. A function's body of one statement
// goes beside its head if both fit. `text` is one declaration.
std::string joined_statements(const std::string& text);

}  // namespace lssar
