// Reading JSON objects in which no field may be missing: buckets and tuning records.
//
// Internal to autotune/. One thread per reader.
#pragma once

#include <string>
#include <utility>

#include "base/json_fields.h"
#include "base/status.h"

namespace lssar {

class RequiredFields : public JsonFields {
 public:
  using JsonFields::JsonFields;

  template <typename T>
  void need(const char* name, T& out) {
    require(name);
    read(name, out);
  }

  // An enumerator by its name.
  template <typename E>
  void need_named(const char* name, Result<E> (*parse)(const std::string&), E& out) {
    std::string text;
    need(name, text);
    if (!status().ok()) return;
    Result<E> parsed = parse(text);
    if (parsed.ok()) {
      out = *parsed;
    } else {
      fail(parsed.status());
    }
  }
};

}  // namespace lssar
