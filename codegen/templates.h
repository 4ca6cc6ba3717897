// The device templates, embedded in the library at build time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lssar {

struct TemplateFile {
  std::string_view path;  // "templates/ptx/math.cuh"
  std::string_view text;
};

// Every template, sorted by path.
const std::vector<TemplateFile>& template_files();

// The text of `roots` and of all they include. Each file comes once, after those it includes,
// without include lines and `#pragma once`. REQUIRES: every file exists (a missing one is a bug:
// assert).
std::string assemble_templates(const std::vector<std::string>& roots);

}  // namespace lssar
