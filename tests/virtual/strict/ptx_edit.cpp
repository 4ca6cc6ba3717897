#include "tests/virtual/strict/ptx_edit.h"

namespace lssar::test {
namespace {

// The offset after the brace that ends the entry which begins at `at`.
size_t end_of_entry(std::string_view module, size_t at) {
  int depth = 0;
  for (size_t i = module.find('{', at); i < module.size(); ++i) {
    if (module[i] == '{') ++depth;
    if (module[i] == '}' && --depth == 0) return i + 1;
  }
  return module.size();
}

bool is_taken_away(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  return first != std::string_view::npos && line.substr(first, 2) == "//";
}
bool ends_with_mark(std::string_view line, std::string_view mark) {
  const std::string tail = "// @" + std::string(mark);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
  return line.ends_with(tail);
}
size_t find_put_in(std::string_view line, std::string_view mark) {
  return line.find("// @" + std::string(mark) + " ");
}

bool edit_line(std::string& line, const Edit& edit) {
  if (edit.kind == Edit::Kind::kPutIn) {
    const size_t at = find_put_in(line, edit.mark);
    if (at == std::string::npos) return false;
    line.erase(at, edit.mark.size() + 5);
    line += " // @" + edit.mark;
    return true;
  }
  if (!ends_with_mark(line, edit.mark)) return false;
  if (edit.kind == Edit::Kind::kTakeAway) {
    if (is_taken_away(line)) return false;
    line.insert(0, "// ");
    return true;
  }
  const size_t at = line.find(edit.from);
  if (at == std::string::npos || at >= line.find("//")) return false;
  line.replace(at, edit.from.size(), edit.to);
  return true;
}

}  // namespace

std::string extract_entry(std::string_view module, std::string_view entry) {
  // Before it on its line there may be a linkage: ".visible", ".weak".
  const std::string_view begin_word = ".entry ";
  const auto line_of = [&](size_t at) { return module.rfind('\n', at) + 1; };
  const size_t first = module.find(begin_word);
  for (size_t at = first; at != std::string_view::npos; at = module.find(begin_word, at + 1)) {
    const std::string_view rest = module.substr(at + begin_word.size());
    if (!rest.starts_with(entry) || rest.size() == entry.size() || rest[entry.size()] != '(') {
      continue;
    }
    const size_t begin = line_of(at), end = end_of_entry(module, at);
    return std::string(module.substr(0, line_of(first))) +
           std::string(module.substr(begin, end - begin)) + "\n";
  }
  return {};
}

Edit take_away(std::string mark) { return {Edit::Kind::kTakeAway, std::move(mark), {}, {}}; }
Edit put_in(std::string mark) { return {Edit::Kind::kPutIn, std::move(mark), {}, {}}; }
Edit change(std::string mark, std::string from, std::string to) {
  return {Edit::Kind::kChange, std::move(mark), std::move(from), std::move(to)};
}

std::vector<int> marked_lines(std::string_view text, std::string_view mark) {
  std::vector<int> lines;
  int number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (ends_with_mark(line, mark) || find_put_in(line, mark) != std::string_view::npos) {
      lines.push_back(number);
    }
    at = end + 1;
  }
  return lines;
}

bool apply_edit(std::string& text, const Edit& edit) {
  std::string edited;
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    any |= edit_line(line, edit);
    edited += line + "\n";
    at = end + 1;
  }
  text = std::move(edited);
  return any;
}

}  // namespace lssar::test
