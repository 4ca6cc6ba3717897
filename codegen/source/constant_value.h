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
  // By name as the source writes it: "Config::kIsCausal".
  std::map<std::string, int64_t, std::less<>> qualified;
  // Found by their last word alone ("Shape::kIsStaggered", "kIsStaggered"): names that mean one
  // thing in all of the source.
  std::map<std::string, int64_t, std::less<>> derived;
  // Functions without arguments that return the same always, found by their name alone.
  std::map<std::string, int64_t, std::less<>> calls;
};

// The value of an expression of constants, literals and operators; nothing where it depends on
// anything else. `&&`, `||` and `? :` need only the operands that decide them.
std::optional<int64_t> constant_value(std::span<const Token> expression,
                                      const SourceConstants& constants);

}  // namespace lssar
