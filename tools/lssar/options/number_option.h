// Options whose values are numbers. CLI11 reads 010 as 8 and -1 as 2^64 - 1, and its other errors
// only say "Could not convert". These options read a value as it is written, or the error names
// what is allowed.
//
// Threads: an option is added and parsed by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace lssar::command {

// An option that calls `take` with the text of its value. An error of `take` ends the parsing; its
// message, which says what is allowed, follows the option's name and value.
CLI::Option* add_parsed(CLI::App& app, const std::string& name, const std::string& help,
                        std::function<Status(const std::string&)> take);

// Decimal digits within the limits; a sign and ".0" are allowed (15.0 is 15). Anything else is
// kInvalidArgument.
Status parse_whole(const std::string& text, int64_t low, int64_t high, int64_t* value);
Status parse_whole(const std::string& text, uint64_t low, uint64_t high, uint64_t* value);
Status parse_number(const std::string& text, double* value);

// `value`: a T, or an optional one. `allowed`: what an error says; "": the limits.
template <class T, class Value>
CLI::Option* add_whole(CLI::App& app, const std::string& name, Value& value,
                       const std::string& help, T low, T high, const std::string& allowed = {}) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  return add_parsed(app, name, help, [=, &value](const std::string& text) -> Status {
    Wide wide = 0;
    const Status status = parse_whole(text, Wide{low}, Wide{high}, &wide);
    if (!status.ok()) return allowed.empty() ? status : invalid_argument("allowed are " + allowed);
    value = static_cast<T>(wide);
    return {};
  });
}

}  // namespace lssar::command
