#include "tools/lssar/options/number_option.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace lssar::command {
namespace {

// 15.0 and 15. are 15, because programs print whole numbers this way.
std::string_view without_zeros_behind_a_point(std::string_view text) {
  const size_t point = text.find('.');
  if (point == text.npos || point == 0) return text;
  if (text.find_first_not_of('0', point + 1) != text.npos) return text;
  return text.substr(0, point);
}

template <class T>
Status parse(const std::string& text, T low, T high, T* value) {
  std::string_view digits = without_zeros_behind_a_point(text);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  T number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < low ||
      number > high) {
    return invalid_argument(fmt::format("allowed are whole numbers from {} to {}", low, high));
  }
  *value = number;
  return {};
}

}  // namespace

Status parse_whole(const std::string& text, int64_t low, int64_t high, int64_t* value) {
  return parse(text, low, high, value);
}

Status parse_whole(const std::string& text, uint64_t low, uint64_t high, uint64_t* value) {
  return parse(text, low, high, value);
}

Status parse_number(const std::string& text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  return invalid_argument("allowed are numbers");
}

CLI::Option* add_parsed(CLI::App& app, const std::string& name, const std::string& help,
                        std::function<Status(const std::string&)> take) {
  const std::string shown = name.substr(name.rfind(',') + 1);
  const auto parse_value = [shown, take = std::move(take)](const std::string& text) {
    const Status status = take(text);
    if (status.ok()) return;
    throw CLI::ValidationError(fmt::format("{} = {}: {}", shown, text, status.message()));
  };
  return app.add_option_function<std::string>(name, parse_value, help)->type_name("N");
}

}  // namespace lssar::command
