// Converts a struct to JSON and back by its list of fields (base/field_list.h).
#pragma once

#include <concepts>
#include <string>

#include <nlohmann/json.hpp>

#include "base/field_list.h"
#include "base/json_fields.h"
#include "base/status.h"

namespace lssar {

// Writes fields under their names, and enumerators by their names.
template <typename S>
nlohmann::json fields_to_json(const S& from) {
  nlohmann::json object = nlohmann::json::object();
  for_each_field<S>([&]<typename T>(const Field<S, T>& field) {
    const T& value = from.*field.member;
    if (field.default_has_no_json && value == S().*field.member) return;
    if constexpr (has_fields<T>) {
      object[field.name] = fields_to_json(value);
    } else if constexpr (has_own_form<T>) {
      FieldForm<T>::write(object, field.name, value);
    } else if constexpr (std::is_enum_v<T>) {
      object[field.name] = enum_name(value);
    } else {
      object[field.name] = value;
    }
  });
  return object;
}

// A field that `object` lacks keeps its value in `into`, or takes the value of its default_from.
// Errors name the field ("<where>.<name>"), its value and what is allowed. Ranges are not checked
// here, because a struct's validate() checks them.
template <typename S>
Status read_fields(const nlohmann::json& object, const std::string& where, S& into) {
  JsonFields fields(object, where);
  for_each_field<S>([&]<typename T>(const Field<S, T>& field) {
    T& value = into.*field.member;
    if (field.default_from != nullptr) value = into.*field.default_from;
    if constexpr (has_fields<T>) {
      if (const nlohmann::json* inner = fields.object(field.name))
        fields.fail(read_fields(*inner, where + "." + field.name, value));
    } else if constexpr (has_own_form<T>) {
      FieldForm<T>::read(fields, field.name, value);
    } else if constexpr (std::is_enum_v<T>) {
      fields.read_enum(field.name, enum_names<T>, value);
    } else if constexpr (std::integral<T> && !std::is_same_v<T, bool>) {
      fields.read(field.name, value, field.allowed());
    } else {
      fields.read(field.name, value);
    }
  });
  for (const RetiredField& retired : retired_fields<S>)
    if (fields.has(retired.name)) fields.read_only(retired.name, retired.value);
  return fields.finish();
}

}  // namespace lssar
