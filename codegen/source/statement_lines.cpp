#include "codegen/source/statement_lines.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

bool has_open_bracket(std::string_view line) {
  return std::count(line.begin(), line.end(), '(') > std::count(line.begin(), line.end(), ')');
}

// Whether the next line begins a new statement. Lines of assembly stay as they are.
bool ends_line(std::string_view line) {
  return line.empty() || line.find("//") != npos || line.starts_with('#') || line.ends_with(';') ||
         line.ends_with('{') || line.ends_with('}') || line.ends_with(':') ||
         line.ends_with('\\') || line.ends_with('"') || line.find("asm volatile(") != npos;
}

// Whether it is the first line of a loop's header that goes on in the next line.
bool begins_loop_header(std::string_view line) {
  const std::string_view code = line.substr(std::min(line.find_first_not_of(' '), line.size()));
  return code.starts_with("for (") && code.ends_with(';') && has_open_bracket(code);
}

bool begins_statement(std::string_view line) {
  const std::string_view code = line.substr(std::min(line.find_first_not_of(' '), line.size()));
  return code.starts_with("if (") || code.starts_with("for (") || code.starts_with("while (") ||
         code.starts_with("LSSAR_UNROLL ");
}

std::string joined_lines(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  std::string result;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string joined = lines[i];
    size_t last = i;
    const bool is_header = begins_loop_header(joined);
    const auto is_whole = [&] { return is_header ? !has_open_bracket(joined) : ends_line(joined); };
    while (last + 1 < lines.size() && !is_whole() && joined.size() <= kLineWidth) {
      const std::string_view next = lines[++last];
      if (next.find("//") != npos || next.starts_with('#') || next.empty() ||
          begins_statement(next))
        joined.append(200, ' ');
      if (!joined.ends_with('(')) joined += ' ';
      joined += next.substr(std::min(next.find_first_not_of(' '), next.size()));
    }
    const bool fits = last > i && joined.size() <= kLineWidth && is_whole();
    if (fits) i = last;
    result += (fits ? joined : lines[i]) + '\n';
  }
  return result;
}

std::string joined_body(const std::string& text) {
  const size_t open = text.find(" {\n");
  if (open == npos) return text;
  const size_t body = open + 3;
  const size_t end = text.find('\n', body);
  const size_t first = text.find_first_not_of(' ', body);
  const size_t head = line_start(text, open);
  if (end == npos || text.find_first_not_of(' ', end + 1) == npos) return text;
  const std::string rest = text.substr(text.find_first_not_of(' ', end + 1));
  const std::string statement = text.substr(first, end - first);
  const bool fits = open - head + 3 + statement.size() + 2 <= kLineWidth;
  if (rest != "}\n" || begins_statement(statement) || !statement.ends_with(';') ||
      statement.starts_with("asm") || !fits || statement.find("//") != npos)
    return text;
  return text.substr(0, open) + " { " + statement + " }\n";
}

}  // namespace

std::string joined_statements(const std::string& text) { return joined_body(joined_lines(text)); }

}  // namespace lssar
