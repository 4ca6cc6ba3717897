// How a fuzzing harness ends the process where something is a bug that no sanitizer sees.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/status.h"

namespace lssar::test {

[[noreturn]] inline void complain(const char* what, const std::string& detail) {
  std::fprintf(stderr, "fuzz: %s: '%s'\n", what, detail.c_str());
  std::abort();
}

[[noreturn]] inline void complain(const char* what, const Status& status) {
  complain(what, status.to_string());
}

inline void check_that(bool holds, const char* what, const std::string& detail = "") {
  if (!holds) complain(what, detail);
}

inline void check_error(const Status& status) {
  if (status.message().empty()) complain("an error that says nothing", status);
  if (status.code() == StatusCode::kInternal) complain("a bug of ours", status);
}

}  // namespace lssar::test
