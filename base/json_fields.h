// Reads the fields of a JSON object into a struct and refuses everything unexpected. Used by the
// readers of problem, target, schedule and golden cases. Internal to the library; one thread per
// reader.
//
//   JsonFields fields(json, "problem");
//   fields.read("p", problem.p);
//   LSSAR_RETURN_IF_ERROR(fields.finish());
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/enum_names.h"
#include "base/status.h"

namespace lssar {

// read() leaves `out` alone if the field is missing or wrong. finish() returns the first error, or
// one that names a field which nobody read.
class JsonFields {
 public:
  // `where` names the object in errors: "problem", "problem.score". `json` must outlive this.
  JsonFields(const nlohmann::json& json, std::string where);

  // `allowed` says what is allowed, for errors; "" derives that from the type. 15.0 counts as 15.
  void read(const char* name, int& out, const std::string& allowed = {});
  void read(const char* name, int64_t& out, const std::string& allowed = {});
  void read(const char* name, double& out);
  void read(const char* name, bool& out);
  void read(const char* name, std::string& out);

  // A required field, from `low` to `high`.
  template <typename T>
  void need_whole(const char* name, int64_t low, int64_t high, T& out) {
    require(name);
    read(name, out);
    if (out < low || out > high) out_of_range(name, out, low, high);
  }

  // A text field with `value` as its only legal value.
  void read_only(const char* name, const std::string& value);

  template <typename E, size_t N>
  void read_enum(const char* name, const EnumName<E> (&names)[N], E& out) {
    std::string text;
    read(name, text);
    if (!has(name) || !status_.ok()) return;
    Result<E> parsed = parse_enum(names, where_ + "." + name, text);
    if (parsed.ok()) {
      out = *parsed;
    } else {
      fail(parsed.status());
    }
  }

  // A nested object, or null if it is missing. The caller reads and finishes it.
  const nlohmann::json* object(const char* name);
  // A list of at most `most` elements, or null if it is missing.
  const nlohmann::json* list(const char* name, size_t most);
  // The same of a required field. Null only after an error.
  const nlohmann::json* need_list(const char* name, size_t most) {
    require(name);
    return list(name, most);
  }

  bool has(const char* name) const;
  bool is_number(const char* name) const;
  // Accepts a field and ignores its value.
  void read_absent(const char* name) { known_.insert(name); }
  // "problem.score.phi"
  std::string path(const char* name) const { return where_ + "." + name; }
  // Makes a missing field an error of finish().
  void require(const char* name);
  void fail(Status status);

  Status finish() const;
  // The first error so far. Unlike finish, this does not report fields that nobody read.
  const Status& status() const { return status_; }

 private:
  const nlohmann::json* find(const char* name);
  void read_whole(const char* name, int64_t low, int64_t high, const std::string& allowed,
                  int64_t& out);
  void out_of_range(const char* name, int64_t value, int64_t low, int64_t high);
  void wrong_type(const char* name, const nlohmann::json& value, const std::string& allowed);

  const nlohmann::json& json_;
  std::string where_;
  std::set<std::string> known_;
  Status status_;
};

}  // namespace lssar
