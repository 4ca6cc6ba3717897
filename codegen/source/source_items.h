// Device source as the declarations it is made of. Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lssar {

enum class ItemKind {
  kFunction,   // kept where it is called, with as many arguments as it takes
  kVariable,   // kept where its name is: constants, members, aliases, enumerators, macros
  kClass,      // the same; its members are items of their own
  kPermanent,  // kept with its class: static_assert, constructors, operators, access
};

struct SourceItem {
  ItemKind kind = ItemKind::kPermanent;
  std::vector<std::string> names;
  // Whole lines: the comments above it, then itself; of a class its head, up to the brace.
  std::string comment;
  std::string text;
  std::vector<SourceItem> members;
  std::string tail;  // of a class: the line that closes it
  bool after_blank = false;
  bool is_data = false;        // a member of objects
  size_t least_arguments = 0;  // of a function
  size_t most_arguments = 0;
  // The class that picks this one of several overloads: Fp16 of unpack(Fp16*, ...); empty: none.
  std::string chosen_by;
  // Of one of several overloads: "u32", "u32&", "u32[4]" for each parameter; "" for what is no
  // number.
  std::vector<std::string> parameter_types;
  bool is_kept = false;  // of keep_reached
};

// One template file, or part of the source.
struct SourceSection {
  std::string title;    // "ptx/math.cuh"
  std::string comment;  // what the file says of itself
  std::vector<SourceItem> items;
};

// `text`: comments, directives, and declarations in a namespace, lssar_device or one that it uses.
// The lines of the namespace itself, and of its use, are left out.
SourceSection parse_section(std::string title, std::string_view text);

// The items, under the title of each section that has some and the first paragraph of what it says
// of itself.
std::string print_sections(const std::vector<SourceSection>& sections);

}  // namespace lssar
