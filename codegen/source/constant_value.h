// Values of constant expressions in device source. Threads: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/source/source_tokens.h"

namespace lssar {

// A class template's constants, in order, as the source writes their values.
struct ConstantTemplate {
  std::vector<std::string> parameters;
  std::vector<std::pair<std::string, std::string>> constants;
};

struct SourceConstants {
  // Names as the source writes them: "Config::kIsCausal".
  std::map<std::string, int64_t, std::less<>> qualified;
  // Names that mean the same everywhere in the source. They are found by their last word
  // ("Shape::kIsStaggered", "kIsStaggered").
  std::map<std::string, int64_t, std::less<>> derived;
  // Functions without arguments that always return this value. They are found by their last word.
  std::map<std::string, int64_t, std::less<>> calls;
  // Types by name, if the name has only one meaning: "Config::Element" is Bf16, "KeyTile" is
  // SwizzledTile<...>.
  std::map<std::string, std::string, std::less<>> aliases;
  // Types that a class template takes from its parameters: Element of SharedTile. So
  // Tile::Element is unknown, whatever Element alone is.
  std::set<std::string, std::less<>> member_types;
  std::map<std::string, ConstantTemplate, std::less<>> templates;
};

// The type that a name stands for after following all aliases: "Bf16".
std::string type_named(std::string_view name, const SourceConstants& constants);

// The value of an expression of constants, literals and operators. Empty if it depends on anything
// else. `&&`, `||` and `? :` need only the operands that decide them.
std::optional<int64_t> constant_value(std::span<const Token> expression,
                                      const SourceConstants& constants);

}  // namespace lssar
