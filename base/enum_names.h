// Names of enumerators, for JSON, texts and errors. Threads: constants and pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace lssar {

template <typename E>
struct EnumName {
  E value;
  const char* name;
};

// The EnumName[] of an enumeration that a field list uses (base/field_list.h). Specialised beside
// the list.
template <typename E>
inline constexpr int enum_names = 0;

// The name of an enumerator, or "?" for a value outside the enumeration (a cast integer).
template <typename E, size_t N>
constexpr const char* enum_name(const EnumName<E> (&names)[N], E value) {
  for (const auto& entry : names)
    if (entry.value == value) return entry.name;
  return "?";
}
template <typename E>
constexpr const char* enum_name(E value) {
  return enum_name(enum_names<E>, value);
}

// "fp16, bf16, fp32".
template <typename E, size_t N>
std::string allowed_names(const EnumName<E> (&names)[N]) {
  std::string list;
  for (const auto& entry : names) list += (list.empty() ? "" : ", ") + std::string(entry.name);
  return list;
}

// `field` is what the error calls it.
template <typename E, size_t N>
Result<E> parse_enum(const EnumName<E> (&names)[N], const std::string& field,
                     const std::string& name) {
  for (const auto& entry : names)
    if (name == entry.name) return entry.value;
  return invalid_argument(field + " = \"" + name + "\": allowed are " + allowed_names(names));
}

}  // namespace lssar
