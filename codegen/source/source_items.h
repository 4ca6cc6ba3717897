// Divides device source into declarations. Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lssar {

enum class ItemKind {
  kFunction,   // kept if it is called with a number of arguments that it takes
  kVariable,   // kept if its name occurs: constants, members, aliases, enumerators, macros
  kClass,      // the same; its members are items of their own
  kPermanent,  // kept with its class: static_assert, constructors, operators, access
};

struct SourceItem {
  ItemKind kind = ItemKind::kPermanent;
  std::vector<std::string> names;
  // Whole lines: the comments above it, then itself. For a class only its head, up to the brace.
  std::string comment;
  std::string text;
  std::vector<SourceItem> members;
  std::string tail;  // the line that closes a class
  bool after_blank = false;
  bool is_data = false;        // a member of objects
  size_t least_arguments = 0;  // of a function
  size_t most_arguments = 0;
  // The class that selects this overload: Fp16 for unpack(Fp16*, ...). Empty: none.
  std::string chosen_by;
  // Set if the function has overloads: the type of each parameter, "u32", "u32&" or "u32[4]". "" if
  // it is not a number.
  std::vector<std::string> parameter_types;
  bool is_kept = false;  // set by keep_reached
};

// One template file, or part of the source.
struct SourceSection {
  std::string title;    // "ptx/math.cuh"
  std::string comment;  // the file's own description
  std::vector<SourceItem> items;
};

// `text` has comments, directives, and declarations in namespace lssar_device or in one that it
// uses. The lines that open, close or use a namespace are left out.
SourceSection parse_section(std::string title, std::string_view text);

// Prints the items. Each section that has some begins with its title and the first paragraph of its
// comment.
std::string print_sections(const std::vector<SourceSection>& sections);

}  // namespace lssar
