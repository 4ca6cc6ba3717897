// A source that emit_kernel wrote, read back from a file that may have been edited by hand.
//
// Used by `lssar inspect`, `lssar replay` and overrides. Threads: pure functions.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

// The header lines that programs read. The first begins with kRequestPrefix, the following ones
// with kRequestMargin. They hold the text of request_json.
inline constexpr const char* kRequestPrefix = "// request:  ";
inline constexpr const char* kRequestMargin = "//           ";
// The schedule contains only the fields that the pass reads.
nlohmann::json request_json(const Problem& problem, const Schedule& schedule, const Target& target);

struct EmittedFile {
  Problem problem;
  Schedule schedule;
  Target target;
  // The file's text, with the name and launches that the generator gives for the three members
  // above. If an edit of the file changes these, that is not noticed.
  KernelSource source;
};

// kInvalidArgument if the text has no request line, or if the request is not legal (any more). The
// message begins with `name`.
Result<EmittedFile> read_emitted(const std::string& text, const std::string& name);

}  // namespace lssar
