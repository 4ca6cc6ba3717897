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

// The header's lines that programs read: the first begins with kRequestPrefix, those after it with
// kRequestMargin; what follows is request_json.
inline constexpr const char* kRequestPrefix = "// request:  ";
inline constexpr const char* kRequestMargin = "//           ";
// The schedule has the fields that the pass reads.
nlohmann::json request_json(const Problem& problem, const Schedule& schedule, const Target& target);

struct EmittedFile {
  Problem problem;
  Schedule schedule;
  Target target;
  // The file's text, with the name and launches of what the generator emits for the three above.
  // Changes that the file makes to these are not seen.
  KernelSource source;
};

// kInvalidArgument where the text has no request line, or one that is not legal (any more); the
// message begins with `name`.
Result<EmittedFile> read_emitted(const std::string& text, const std::string& name);

}  // namespace lssar
