#include "base/json_text.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lssar {

using nlohmann::json;

namespace {

// A token shortened to one line for an error message, without control characters.
std::string shown_token(std::string_view token) {
  constexpr size_t kMaxShown = 40;
  std::string text;
  for (const char c : token.substr(0, kMaxShown)) {
    text += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return token.size() > kMaxShown ? text + "..." : text;
}

// Line and column of the byte `at`. `at` counts from 0, line and column count from 1.
std::string place_of(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0
  return fmt::format("line {}, column {}", std::count(before.begin(), before.end(), '\n') + 1,
                     at - line_start + 1);
}

// Builds the value. The first error ends the reading.
class StrictReader : public json::json_sax_t {
 public:
  explicit StrictReader(std::string_view text) : text_(text) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& written) override {
    // A token of digits only is a whole number that did not fit.
    if (written.find_first_not_of("-0123456789") == written.npos) {
      return fail(fmt::format("{}: whole numbers may have 64 bits", shown_token(written)));
    }
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has no binary values

  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      return fail(fmt::format("\"{}\": the object has this key twice", shown_token(name)));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;  // the JSON library's code for a number beyond double
    if (error.id == kOutOfRange) {
      return fail(fmt::format("{}: the number is too large", shown_token(token)));
    }
    // The library's position counts from 1, and is that of the last byte read.
    const size_t at = position - std::min<size_t>(position, 1);
    if (at >= text_.size()) {
      return fail("not JSON: " + place_of(text_, text_.size()) + ": the text ends too early");
    }
    return fail(fmt::format("not JSON: {}: unexpected '{}'", place_of(text_, at),
                            shown_token(text_.substr(at, 1))));
  }

  json take_value() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  bool fail(std::string error) {
    error_ = std::move(error);
    return false;
  }
  // NOTE: pointers to open values stay valid: object elements are map nodes, and only the last
  // element of an array can be open.
  json* place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    json& slot = (*open_.back())[key_];
    slot = std::move(value);
    return &slot;
  }
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json value) {
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string_view text_;
  json root_;
  std::vector<json*> open_;  // outermost first
  std::string key_;
  std::string error_;
};

}  // namespace

Result<json> parse_json(std::string_view text, const std::string& name) {
  StrictReader reader(text);
  if (!json::sax_parse(text.begin(), text.end(), &reader)) {
    return invalid_argument(name + ": " + reader.error());
  }
  return reader.take_value();
}

}  // namespace lssar
