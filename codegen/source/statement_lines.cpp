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

bool is_one_of_chars(char c, std::string_view chars) { return chars.find(c) != npos; }

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

// Whether it ends a list in braces: "};".
bool is_closing(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size())) == "};";
}

bool begins_template(std::string_view line) {
  return line.find("template <") == std::min(line.find_first_not_of(' '), line.size());
}

// Breaks a statement's line after commas of its last argument list, the further lines below the
// first argument. Nothing if that does not help.
std::vector<std::string> filled_lines(std::string_view joined) {
  size_t open = npos, close = npos;
  int depth = 0;
  for (size_t i = 0; i < joined.size(); ++i) {
    if (joined[i] == '"') return {};
    if ((joined[i] == '(' || joined[i] == '{') && depth++ == 0 && i + 1 < joined.size()) open = i;
    if ((joined[i] == ')' || joined[i] == '}') && --depth == 0) close = i;
    if (close != npos && close > kLineWidth) break;
  }
  if (open == npos || close == npos || close < open || open >= kLineWidth) return {};
  const std::string margin(open + 1, ' ');
  std::vector<std::string> lines = {std::string(joined.substr(0, open + 1))};
  for (size_t at = open + 1; at < joined.size();) {
    size_t end = at;
    for (depth = 0; end < close && !(depth == 0 && joined[end] == ','); ++end) {
      if (is_one_of_chars(joined[end], "([{")) ++depth;
      if (is_one_of_chars(joined[end], ")]}")) --depth;
    }
    end = end < close ? end + 1 : joined.size();
    const std::string_view argument = joined.substr(at, end - at);
    const bool is_first = at == open + 1;
    if (lines.back().size() + !is_first + argument.size() <= kLineWidth) {
      lines.back() += (is_first ? "" : " ") + std::string(argument);
    } else {
      lines.push_back(margin + std::string(argument));
    }
    if (lines.back().size() > kLineWidth) return {};
    at = end + (end < joined.size() && joined[end] == ' ');
  }
  return lines;
}

// The position of the last bracket that the line opens and does not close, or npos.
size_t open_bracket(std::string_view line) {
  std::vector<size_t> open;
  for (size_t i = 0; i < line.size(); ++i) {
    if (is_one_of_chars(line[i], "([{")) open.push_back(i);
    if (is_one_of_chars(line[i], ")]}") && !open.empty()) open.pop_back();
  }
  return open.empty() ? npos : open.back();
}

// The statement in lines that have more room, or in its place: words before its arguments may have
// been removed. Nothing if it is well as it is.
std::vector<std::string> better_lines(const std::string* lines, size_t count,
                                      std::string_view joined) {
  const size_t open = open_bracket(lines[0]);
  if (open == npos || begins_template(joined)) return {};
  std::vector<std::string> filled = filled_lines(joined);
  const bool is_out_of_place =
      open + 1 < lines[0].size() && lines[1].find_first_not_of(' ') > open + 1;
  const bool is_better = filled.size() < count || (filled.size() == count && is_out_of_place);
  return is_better ? filled : std::vector<std::string>();
}

std::string joined_lines(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  std::string result;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string joined = lines[i];
    size_t last = i;
    const bool is_header = begins_loop_header(joined);
    const auto closes_next = [&] { return last + 1 < lines.size() && is_closing(lines[last + 1]); };
    const auto is_whole = [&] {
      return is_header ? !has_open_bracket(joined) : ends_line(joined) || closes_next();
    };
    bool may_join = true;
    while (last + 1 < lines.size() && !is_whole() && may_join) {
      const std::string_view next = lines[++last];
      may_join = next.find("//") == npos && !next.starts_with('#') && !next.empty() &&
                 !begins_statement(next);
      if (!joined.ends_with('(')) joined += ' ';
      joined += next.substr(std::min(next.find_first_not_of(' '), next.size()));
    }
    may_join = may_join && last > i && is_whole();
    if (may_join && joined.size() <= kLineWidth) {
      i = last;
      result += joined + '\n';
      continue;
    }
    const std::vector<std::string> better =
        may_join ? better_lines(&lines[i], last - i + 1, joined) : std::vector<std::string>();
    if (better.empty()) {
      result += lines[i] + '\n';
      continue;
    }
    i = last;
    for (const std::string& line : better) result += line + '\n';
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
