// Makes untrusted text fit to be shown. Characters that would move a terminal's cursor, set its
// title or reorder letters are written as escapes.
//
// Used for everything that may contain somebody else's text: messages, the log, and what the
// command prints of tables, cache entries and captures. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace lssar {

// `text` with "\x1b" in place of control characters and of bytes that are not UTF-8, and "\u202e"
// in place of C1 controls, line separators and controls of direction. Line ends and tabs stay.
std::string printable(std::string_view text);

// The same for a field within a line. Line ends and tabs are escaped too ("\n", "\t"), so the text
// cannot imitate lines of its own.
std::string printable_field(std::string_view text);

}  // namespace lssar
