// The device templates, embedded in the library at build time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/source/tailored_source.h"

namespace lssar {

struct TemplateFile {
  std::string_view path;  // "templates/ptx/math.cuh"
  std::string_view text;
};

// Every template, sorted by path.
const std::vector<TemplateFile>& template_files();

// The files in `roots` and everything they include. Each file comes once, after those that it
// includes, without include lines and `#pragma once`. Its title is its path below templates/.
// REQUIRES: every file exists (a missing one is a bug: assert).
std::vector<SourcePart> template_parts(const std::vector<std::string>& roots);

}  // namespace lssar
