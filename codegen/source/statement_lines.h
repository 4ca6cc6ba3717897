// Lines of device source after something was taken out of them. Threads: pure functions.
#pragma once

#include <string>

namespace lssar {

// Statements and heads that fit on one line stand on one, and the body of a function that is one
// statement stands beside its head where both fit. `text`: one declaration.
std::string joined_statements(const std::string& text);

}  // namespace lssar
