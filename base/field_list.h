// One list of a struct's fields: name, meaning, what is allowed, who reads it. Its JSON, its text,
// its packed form and its table in the docs are made from the list (base/field_json.h,
// codegen/schedule_fields.h, docs/fields.md).
//
//   template <>
//   inline constexpr auto fields_of<Tiling> = std::tuple(
//       field("block_rows", &Tiling::block_rows).whole(16, 256, 16).text("{}").means("..."), ...);
//
// A struct with a member that its list lacks does not compile. Threads: constants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include <fmt/format.h>

#include "base/enum_names.h"

namespace lssar {

// The std::tuple of Fields of a struct.
template <typename S>
inline constexpr int fields_of = 0;

template <typename T>
inline constexpr bool has_fields = !std::is_same_v<decltype(fields_of<T>), const int>;

// How to write a field whose type is not a number, a text, an enumeration or a struct with a list:
//   static std::string text(const T&);                              in texts and errors
//   static std::string allowed();                                   completes "allowed are ..."
//   static void write(nlohmann::json& object, const char* name, const T&);
//   static void read(JsonFields&, const char* name, T&);            leaves T alone if it is missing
template <typename T>
struct FieldForm {
  static constexpr bool kIsGeneric = true;
};
template <typename T>
inline constexpr bool has_own_form = !requires { FieldForm<T>::kIsGeneric; };

// Multiples of `step` from `low` to `high`. A step of 0 means that there is no range.
struct WholeRange {
  int64_t low = 0, high = 0, step = 0;

  constexpr bool has(int64_t value) const {
    return step == 0 || (value >= low && value <= high && value % step == 0);
  }
};

template <typename S, typename T>
struct Field {
  using Struct = S;
  using Type = T;
  // A constant can hold only plain values.
  using Special = std::conditional_t<std::is_trivially_copyable_v<T>, T, std::nullptr_t>;

  const char* name;  // in JSON, in errors and in the docs
  T S::*member;
  const char* meaning = "";
  // Which readers of the struct use this field. Each struct's list defines the bits.
  unsigned readers = ~0u;
  WholeRange range = {};
  const char* allowed_text = nullptr;  // completes "allowed are ...", in place of the range's text
  T S::*default_from = nullptr;        // a field whose value this one takes if JSON lacks it
  // This field's part of the struct's text, "{}" for the value. Null: the text leaves it out.
  const char* format = nullptr;
  std::optional<Special> special = std::nullopt;  // the value that has a name of its own ...
  const char* special_text = "";
  bool default_has_no_text = false;
  bool default_has_no_json = false;

  constexpr Field means(const char* text) const { return with(&Field::meaning, text); }
  constexpr Field read_by(unsigned bits) const { return with(&Field::readers, bits); }
  constexpr Field whole(int64_t low, int64_t high, int64_t step = 1) const {
    return with(&Field::range, WholeRange{low, high, step});
  }
  constexpr Field allows(const char* text) const { return with(&Field::allowed_text, text); }
  constexpr Field follows(T S::*other) const { return with(&Field::default_from, other); }
  constexpr Field text(const char* form) const { return with(&Field::format, form); }
  constexpr Field text_of(const Special& value, const char* text) const {
    return with(&Field::special, std::optional<Special>(value)).with(&Field::special_text, text);
  }
  constexpr Field no_text_of_default() const { return with(&Field::default_has_no_text, true); }
  // JSON leaves the field out where it has its default, so that older readers read such JSON.
  constexpr Field no_json_of_default() const { return with(&Field::default_has_no_json, true); }

  // What completes "allowed are ...".
  std::string allowed() const {
    if (allowed_text != nullptr) return allowed_text;
    if constexpr (has_own_form<T>) return FieldForm<T>::allowed();
    if constexpr (std::is_enum_v<T>) return allowed_names(enum_names<T>);
    if constexpr (std::is_same_v<T, bool>) return "true, false";
    if (range.step == 0) return "";
    if (range.step == 1) return fmt::format("whole numbers from {} to {}", range.low, range.high);
    return fmt::format("multiples of {} from {} to {}", range.step, range.low, range.high);
  }

 private:
  template <typename V>
  constexpr Field with(V Field::*part, const V& value) const {
    Field changed = *this;
    changed.*part = value;
    return changed;
  }
};

template <typename S, typename T>
constexpr Field<S, T> field(const char* name, T S::*member) {
  return {.name = name, .member = member};
}

// A field that was removed. Older files may still hold it, with the one value that means the same
// as its absence.
struct RetiredField {
  const char* name;
  const char* value;
};
// The RetiredField[] of a struct from which fields were removed.
template <typename S>
inline constexpr std::array<RetiredField, 0> retired_fields = {};

// Converts to any member's type.
struct AnyMember {
  template <typename T>
  operator T() const;  // never called
};

template <typename S, typename... Members>
consteval size_t num_members() {
  if constexpr (requires { S{Members{}..., AnyMember{}}; }) {
    return num_members<S, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

// visit(field) for every field of S, in the list's order.
template <typename S, typename Visit>
constexpr void for_each_field(const Visit& visit) {
  std::apply(
      [&](const auto&... fields) {
        static_assert(sizeof...(fields) == num_members<S>(),
                      "every member of the struct is in its list of fields, once");
        (visit(fields), ...);
      },
      fields_of<S>);
}

template <typename S>
std::string fields_text(const S& from);

// A value as it appears in texts and errors.
template <typename T>
std::string value_text(const T& value) {
  if constexpr (has_fields<T>) {
    return fields_text(value);
  } else if constexpr (has_own_form<T>) {
    return FieldForm<T>::text(value);
  } else if constexpr (std::is_enum_v<T>) {
    return enum_name(value);
  } else {
    return fmt::format("{}", value);
  }
}

// The struct's text: the parts of its fields in order.
template <typename S>
std::string fields_text(const S& from) {
  std::string text;
  for_each_field<S>([&](const auto& field) {
    const auto& value = from.*field.member;
    using T = std::remove_cvref_t<decltype(value)>;
    if (field.format == nullptr || (field.default_has_no_text && value == T())) return;
    bool is_special = false;
    if constexpr (std::is_trivially_copyable_v<T>)
      is_special = field.special && *field.special == value;
    text += is_special ? field.special_text
                       : fmt::format(fmt::runtime(field.format), value_text(value));
  });
  return text;
}

}  // namespace lssar
