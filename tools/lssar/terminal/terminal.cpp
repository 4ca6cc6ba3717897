#include "tools/lssar/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/printable.h"

namespace lssar::command {
namespace {

constexpr size_t kMessageIndent = 2;
constexpr size_t kLeastColumns = 20;

// Not with fmt, which throws: lost output is reported once, at the end (standard_streams.h).
void print_line(std::FILE* stream, const std::string& text) {
  const std::string line = printable(text) + '\n';
  std::fwrite(line.data(), 1, line.size(), stream);
}

}  // namespace

size_t terminal_columns(std::FILE* stream) {
  const int file = fileno(stream);
  winsize size = {};
  if (isatty(file) == 0 || ioctl(file, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;  // 0 if the terminal does not know
}

std::string wrapped(const std::string& text, size_t columns, size_t indent) {
  std::string all;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(' ', at);
    if (begin == text.npos) break;
    const size_t end = std::min(text.find(' ', begin), text.size());
    const size_t spaces = at == 0 ? begin : 1;  // spaces before the text stay
    if (at != 0 && column + spaces + end - begin > std::max(columns, kLeastColumns)) {
      all += "\n" + std::string(indent, ' ');
      column = indent;
    } else {
      all.append(spaces, ' ');
      column += spaces;
    }
    all.append(text, begin, end - begin);
    column += end - begin;
    at = end;
  }
  return all;
}

std::string wrapped_command(const std::string& command, size_t columns, size_t indent) {
  std::string text = wrapped(command, columns - 2, indent);
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 3)) {
    text.insert(at, " \\");
  }
  return text;
}

void print_command(std::FILE* stream, const std::string& command) {
  const size_t columns = terminal_columns(stream);
  print_line(stream, columns == 0 ? command : wrapped_command(command, columns, kMessageIndent));
}

void print_message(std::FILE* stream, const std::string& text) {
  const size_t columns = terminal_columns(stream);
  print_line(stream, columns == 0 ? text : wrapped(text, columns, kMessageIndent));
}

}  // namespace lssar::command
