// Edits of PTX text: one entry of a module by itself, and lines of it taken away, put in or
// changed. Used by the tests that make bugs of correct kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lssar::test {

// The module's header and variables and one of its entries; empty where it has none of this name.
std::string extract_entry(std::string_view module, std::string_view entry);

// One edit of all lines that end with "// @mark".
struct Edit {
  enum class Kind { kTakeAway, kPutIn, kChange };
  Kind kind;
  std::string mark;
  std::string from, to;  // of kChange
};
Edit take_away(std::string mark);
// Lines that begin with "// @mark ": what follows becomes an instruction.
Edit put_in(std::string mark);
Edit change(std::string mark, std::string from, std::string to);

// Numbers, from 1, of the lines with this mark, in force or not. Edits keep them.
std::vector<int> marked_lines(std::string_view text, std::string_view mark);

// False where an edit found nothing to do.
bool apply_edit(std::string& text, const Edit& edit);

}  // namespace lssar::test
