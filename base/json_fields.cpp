#include "base/json_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace lssar {

using nlohmann::json;

namespace {

// A value for an error message, shortened to one line. Deep nesting is left out, because printing
// it recursively could exhaust the stack.
std::string shown(const json& value) {
  if (value.is_structured() && std::any_of(value.begin(), value.end(), [](const json& inner) {
        return inner.is_structured();
      })) {
    return value.is_object() ? "{...}" : "[...]";
  }
  constexpr size_t kMaxShown = 60;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

// `value` as a whole number. Some programs write 15 as 15.0, so that is accepted. Beyond 2^53 a
// number that went through floating point may have lost digits and is refused.
std::optional<int64_t> whole_number(const json& value) {
  constexpr double kExact = 0x1p53;
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    return number > kMost ? std::optional<int64_t>() : static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return {};
  const double number = value.get<double>();
  if (!(std::abs(number) <= kExact) || number != std::trunc(number)) return {};
  return static_cast<int64_t>(number);
}

}  // namespace

JsonFields::JsonFields(const json& object, std::string where)
    : json_(object), where_(std::move(where)) {
  if (!json_.is_object()) {
    status_ = invalid_argument(where_ + " = " + shown(json_) + ": allowed is a JSON object");
  }
}

bool JsonFields::has(const char* name) const { return json_.is_object() && json_.contains(name); }

bool JsonFields::is_number(const char* name) const {
  return has(name) && json_.at(name).is_number();
}

void JsonFields::require(const char* name) {
  known_.insert(name);
  if (!has(name)) fail(invalid_argument(where_ + "." + name + " is missing"));
}

void JsonFields::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

const json* JsonFields::find(const char* name) {
  known_.insert(name);
  return has(name) ? &json_.at(name) : nullptr;
}

void JsonFields::wrong_type(const char* name, const json& value, const std::string& allowed) {
  const bool is_one = allowed.starts_with("a ") || allowed == "true or false";
  fail(invalid_argument(where_ + "." + name + " = " + shown(value) +
                        (is_one ? ": allowed is " : ": allowed are ") + allowed));
}

void JsonFields::out_of_range(const char* name, int64_t value, int64_t low, int64_t high) {
  fail(invalid_argument(where_ + "." + name + " = " + std::to_string(value) + ": allowed are " +
                        std::to_string(low) + " to " + std::to_string(high)));
}

void JsonFields::read(const char* name, int& out, const std::string& allowed) {
  int64_t wide = out;
  read_whole(name, std::numeric_limits<int>::min(), std::numeric_limits<int>::max(),
             allowed.empty() ? "a whole number of 32 bits" : allowed, wide);
  out = static_cast<int>(wide);
}

void JsonFields::read(const char* name, int64_t& out, const std::string& allowed) {
  read_whole(name, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
             allowed.empty() ? "a whole number of 64 bits" : allowed, out);
}

void JsonFields::read_whole(const char* name, int64_t low, int64_t high, const std::string& allowed,
                            int64_t& out) {
  const json* value = find(name);
  if (value == nullptr) return;
  const std::optional<int64_t> whole = whole_number(*value);
  if (!whole || *whole < low || *whole > high) return wrong_type(name, *value, allowed);
  out = *whole;
}

void JsonFields::read(const char* name, double& out) {
  const json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_number()) return wrong_type(name, *value, "a number");
  out = value->get<double>();
}

void JsonFields::read(const char* name, bool& out) {
  const json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return wrong_type(name, *value, "true or false");
  out = value->get<bool>();
}

void JsonFields::read(const char* name, std::string& out) {
  const json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_string()) return wrong_type(name, *value, "a string");
  out = value->get<std::string>();
}

void JsonFields::read_only(const char* name, const std::string& value) {
  const json* found = find(name);
  if (found == nullptr || *found == value) return;
  fail(invalid_argument(where_ + "." + name + " = " + shown(*found) + ": allowed is " + value +
                        ", the only value that is left"));
}

const json* JsonFields::object(const char* name) {
  const json* value = find(name);
  if (value != nullptr && !value->is_object()) {
    wrong_type(name, *value, "a JSON object");
    return nullptr;
  }
  return value;
}

const json* JsonFields::list(const char* name, size_t most) {
  const json* value = find(name);
  if (value != nullptr && (!value->is_array() || value->size() > most)) {
    wrong_type(name, *value, "a list of at most " + std::to_string(most) + " elements");
    return nullptr;
  }
  return value;
}

Status JsonFields::finish() const {
  if (!status_.ok()) return status_;
  for (const auto& [name, value] : json_.items()) {
    if (known_.count(name) != 0) continue;
    std::string list;
    for (const std::string& known : known_) list += (list.empty() ? "" : ", ") + known;
    return invalid_argument(where_ + "." + name + " is not a field: allowed are " + list);
  }
  return {};
}

}  // namespace lssar
