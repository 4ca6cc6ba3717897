#include "tools/lssar/terminal/help_text.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tools/lssar/terminal/terminal.h"

namespace lssar::command {
namespace {

constexpr size_t kHelpColumn = 28;  // where descriptions begin
constexpr size_t kDefaultColumns = 80;
constexpr size_t kMostColumns = 120;  // longer lines are hard to read
constexpr size_t kLeastColumns = 50;  // room for descriptions

// A list of values that does not fit continues on the next line, after one of its bars.
std::string broken_at_bars(std::string left, size_t columns) {
  for (size_t begin = 0; left.size() - begin > columns;) {
    const size_t bar = left.rfind('|', begin + columns - 1);
    if (bar == left.npos || bar <= begin) break;
    left.insert(bar + 1, "\n      ");
    begin = bar + 2;
  }
  return left;
}

// `left`, with `text` in a column beside it.
std::string row(std::string left, const std::string& text, size_t columns) {
  left = broken_at_bars(std::move(left), columns);
  if (text.empty()) return left + "\n";
  const std::string indent(kHelpColumn, ' ');
  const std::string lines = wrapped(indent + text, columns, kHelpColumn);
  if (left.size() + 2 > kHelpColumn) return left + "\n" + lines + "\n";
  return left + lines.substr(left.size()) + "\n";
}

// A command that is too long continues after a backslash. Other lines are tables.
std::string indented_line(const std::string& line, size_t columns) {
  constexpr size_t kMoreIndent = 4;
  const size_t indent = line.find_first_not_of(' ');
  const bool is_command = indent != line.npos && line.compare(indent, 6, "lssar ") == 0;
  if (!is_command || line.size() <= columns) return line + "\n";
  return wrapped_command(line, columns, indent + kMoreIndent) + "\n";
}

// Paragraphs are filled; lines that begin with spaces are examples and tables.
std::string footer_text(const std::string& footer, size_t columns) {
  std::string text, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) text += wrapped(paragraph, columns) + "\n";
    paragraph.clear();
  };
  for (size_t at = 0; at < footer.size();) {
    const size_t end = std::min(footer.find('\n', at), footer.size());
    const std::string line = footer.substr(at, end - at);
    at = end + 1;
    if (line.empty() || line[0] == ' ') {
      end_paragraph();
      text += line.empty() ? "\n" : indented_line(line, columns);
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + line;
      if (line.back() == ':') end_paragraph();  // what follows is a list
    }
  }
  end_paragraph();
  return text;
}

std::string usage_line(const CommandSpec& command, size_t columns) {
  std::string text = "Usage: " + command.name + " [OPTIONS]";
  for (const OptionSpec& option : command.options) {
    if (!option.is_positional) continue;
    const bool is_required = option.help.find("(required)") != option.help.npos;
    text += is_required ? " " + option_text(option) : " [" + option_text(option) + "]";
  }
  if (!command.subcommands.empty()) text += " [SUBCOMMAND]";
  return wrapped(text, columns, 4) + "\n";
}

class Formatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    return help_text(spec_of(*app), help_columns());
  }
};

}  // namespace

std::string option_text(const OptionSpec& option) {
  std::string text = fmt::format("{}", fmt::join(option.names, ", "));
  if (option.value.empty()) return text;
  if (option.is_positional) return option.value;
  if (option.value[0] == '[') return text + option.value;
  return text + " " + option.value;
}

std::string help_text(const CommandSpec& command, size_t columns) {
  std::string text = usage_line(command, columns) + "\n" + wrapped(command.summary, columns) + "\n";
  // In the order of their first options; --help's group comes last.
  std::vector<std::string> groups;
  for (const OptionSpec& option : command.options) {
    const std::string& group = option.is_positional ? "Arguments" : option.group;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != "Options"; });
  for (const std::string& group : groups) {
    text += "\n" + group + ":\n";
    for (const OptionSpec& option : command.options) {
      if ((option.is_positional ? "Arguments" : option.group) != group) continue;
      text += row("  " + option_text(option), option.help, columns);
    }
  }
  if (!command.subcommands.empty()) text += "\nSubcommands:\n";
  for (const CommandSpec& sub : command.subcommands) {
    text += row("  " + sub.name.substr(command.name.size() + 1), sub.summary, columns);
  }
  return text + footer_text(command.footer, columns);
}

size_t help_columns() {
  const size_t columns = terminal_columns(stdout);
  return columns == 0 ? kDefaultColumns : std::clamp(columns, kLeastColumns, kMostColumns);
}

void use_help_text(CLI::App& app) { app.formatter(std::make_shared<Formatter>()); }

}  // namespace lssar::command
