// Values of constant expressions in device source. Threads: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codegen/source/source_tokens.h"

namespace lssar {

struct SourceConstants {
  // Names as the source writes them: "Config::kIsCausal".
  std::map<std::string, int64_t, std::less<>> qualified;
  // Names that mean the same everywhere in the source. They are found by their last word
  // ("Shape::kIsStaggered", "kIsStaggered").
  std::map<std::string, int64_t, std::less<>> derived;
  // Functions without arguments that always return this value. They are found by their last word.
  std::map<std::string, int64_t, std::less<>> calls;
};

// The value of an expression of constants, literals and operators. Empty if it depends on anything
// else. `&&`, `||` and `? :` need only the operands that decide them.
std::optional<int64_t> constant_value(std::span<const Token> expression,
                                      const SourceConstants& constants);

}  // namespace lssar
