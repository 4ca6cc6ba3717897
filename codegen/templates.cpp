#include "codegen/templates.h"

#include <cassert>
#include <set>
#include <utility>

namespace lssar {
namespace {

constexpr std::string_view kInclude = "#include \"";

std::string_view find_template(std::string_view path) {
  for (const TemplateFile& file : template_files())
    if (file.path == path) return file.text;
  assert(false && "a template includes a file that is not embedded");
  return {};
}

void append_file(std::string_view path, std::set<std::string>& done,
                 std::vector<SourcePart>& parts) {
  if (!done.insert(std::string(path)).second) return;
  std::string body;
  std::string_view rest = find_template(path);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.starts_with(kInclude)) {
      const std::string_view name = line.substr(kInclude.size());
      append_file(name.substr(0, name.find('"')), done, parts);
    } else if (line != "#pragma once") {
      // Removed lines must not leave two blank lines behind.
      if (line.empty() && (body.empty() || body.ends_with("\n\n"))) continue;
      body += line;
      body += '\n';
    }
  }
  parts.push_back({std::string(path.substr(path.find('/') + 1)), std::move(body)});
}

}  // namespace

std::vector<SourcePart> template_parts(const std::vector<std::string>& roots) {
  std::set<std::string> done;
  std::vector<SourcePart> parts;
  for (const std::string& root : roots) append_file(root, done, parts);
  return parts;
}

}  // namespace lssar
