#include "tools/lssar/terminal/man_page.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/lssar/terminal/help_text.h"

namespace lssar::command {
namespace {

// Text in the form that roff prints unchanged.
std::string plain(const std::string& text) {
  std::string roff = !text.empty() && (text[0] == '.' || text[0] == '\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\') {
      roff += "\\e";
    } else if (c == '-') {
      roff += "\\-";
    } else {
      roff += c;
    }
  }
  return roff;
}

void append_options(const CommandSpec& command, std::string* page) {
  std::string group;
  for (const OptionSpec& option : command.options) {
    if (option.names[0] == "-h") continue;  // said once for all commands
    const std::string& its = option.is_positional ? "Arguments" : option.group;
    if (its != group && its != "Options") *page += fmt::format(".PP\n{}:\n", plain(its));
    group = its;
    *page += fmt::format(".TP\n.B {}\n{}\n", plain(option_text(option)), plain(option.help));
  }
}

// Appends paragraphs, and examples unchanged. The table of exit codes appears once for all
// commands.
void append_footer(const std::string& footer, std::string* page) {
  bool is_example = false;
  for (size_t at = 0; at < footer.size();) {
    const size_t end = std::min(footer.find('\n', at), footer.size());
    const std::string line = footer.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("Exit codes:")) break;
    const bool is_indented = line.starts_with(' ');
    if (is_indented != is_example) *page += is_indented ? ".PP\n.nf\n" : ".fi\n";
    is_example = is_indented;
    *page += line.empty() ? ".PP\n" : plain(line) + "\n";
  }
  if (is_example) *page += ".fi\n";
}

void append_command(const CommandSpec& command, std::string* page) {
  *page += fmt::format(".SS {}\n{}.\n", plain(command.name), plain(command.summary));
  append_options(command, page);
  append_footer(command.footer, page);
  for (const CommandSpec& sub : command.subcommands) append_command(sub, page);
}

}  // namespace

std::string man_page(const CommandSpec& root) {
  std::string page = fmt::format(
      ".TH LSSAR 1 \"\" \"lssar {0}\" \"User Commands\"\n"
      ".SH NAME\nlssar \\- {1}\n"
      ".SH SYNOPSIS\n.B lssar\n.I SUBCOMMAND\n[\\fIOPTIONS\\fR]\n"
      ".SH DESCRIPTION\n{2}\nEvery subcommand has\n.B \\-\\-help\nwith an example.\n"
      ".SH SUBCOMMANDS\n",
      LSSAR_COMMAND_VERSION, "CUDA kernels for LSSAR attention", plain(root.summary));
  for (const CommandSpec& command : root.subcommands) append_command(command, &page);
  page += ".SH EXIT STATUS\n";
  const size_t codes = root.footer.find("Exit codes:");
  std::string text = codes == root.footer.npos ? "" : root.footer.substr(codes);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return page + plain(text) + "\n";
}

}  // namespace lssar::command
