// Prints text that others may have written: tables, cache entries, captures, sources, device names.
// Control characters are escaped before they reach the terminal.
//
// A failed write throws std::system_error, as fmt::print does. main() says what was lost.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include "base/printable.h"

namespace lssar::command {

template <typename... T>
void print_text(std::FILE* stream, fmt::format_string<T...> text, T&&... values) {
  fmt::print(stream, "{}", printable(fmt::format(text, std::forward<T>(values)...)));
}

template <typename... T>
void print_text(fmt::format_string<T...> text, T&&... values) {
  print_text(stdout, text, std::forward<T>(values)...);
}

// With a line end. ASCII only: other characters become \u escapes, bytes that are not UTF-8 become
// U+FFFD.
std::string json_text(const nlohmann::json& json, int indent = 2);
void print_json(const nlohmann::json& json, int indent = 2);

}  // namespace lssar::command
