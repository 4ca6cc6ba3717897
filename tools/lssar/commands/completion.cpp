// lssar completion: scripts by which a shell completes command lines, made from the option
// definitions.
#include "tools/lssar/commands/completion.h"

#include <functional>
#include <memory>

#include <fmt/format.h>

#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/terminal/exit_code.h"

namespace lssar::command {
namespace {

bool is_file(const OptionSpec& option) {
  return option.value.find("FILE") != option.value.npos || option.value == "DIR" ||
         option.value == "PATH" || option.value == "PACK" || option.value.starts_with("KERNEL");
}

void visit(const CommandSpec& command, const std::function<void(const CommandSpec&)>& each) {
  each(command);
  for (const CommandSpec& sub : command.subcommands) visit(sub, each);
}

// The words that may follow `command`.
std::string next_words(const CommandSpec& command, const CommandSpec* parent) {
  std::string words;
  for (const CommandSpec* one : {parent, &command}) {
    if (one == nullptr) continue;
    for (const OptionSpec& option : one->options) {
      for (const std::string& name : option.names) {
        if (!option.is_positional && (one == &command || name != "--help")) words += " " + name;
      }
    }
  }
  for (const CommandSpec& sub : command.subcommands) {
    words += sub.name.substr(sub.name.rfind(' '));
  }
  return words.empty() ? words : words.substr(1);
}

// Cases of "COMMAND OPTION": its values, or files.
std::string value_cases(const CommandSpec& command, const std::string& names_of) {
  std::string cases;
  for (const OptionSpec& option : command.options) {
    if (option.is_positional || option.value.empty()) continue;
    std::string pattern;
    for (const std::string& name : option.names)
      pattern += fmt::format("{}'{} {}'", pattern.empty() ? "" : " | ", names_of, name);
    const std::vector<std::string> values = values_of(option);
    const std::string reply = !values.empty()   ? fmt::format("words='{}'", fmt::join(values, " "))
                              : is_file(option) ? "files=1"
                                                : "nothing=1";
    cases += fmt::format("    {}) {} ;;\n", pattern, reply);
  }
  return cases;
}

constexpr char kBashHead[] = R"(# Completion of lssar for bash, made by `lssar completion bash`:
#   source <(lssar completion bash)
_lssar() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=lssar words='' files='' nothing='' i
  # NAME=VALUE is three words.
  if [[ $current == '=' ]]; then current=''
  elif [[ $previous == '=' ]]; then previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
)";

constexpr char kBashTail[] = R"(  if [[ $files ]]; then
    compopt -o default 2>/dev/null
  elif [[ ! $nothing ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}
complete -F _lssar lssar
)";

}  // namespace

std::string bash_completion(const CommandSpec& root) {
  std::string subcommands, values, words;
  visit(root, [&](const CommandSpec& command) {
    if (&command != &root) subcommands += (subcommands.empty() ? "'" : " | '") + command.name + "'";
  });
  const auto add = [&](const CommandSpec& command, const CommandSpec* parent) {
    values += value_cases(command, command.name);
    if (parent != nullptr) values += value_cases(*parent, command.name);
    bool takes_file = false;
    for (const OptionSpec& option : command.options)
      takes_file = takes_file || (option.is_positional && is_file(option));
    words += fmt::format("    '{}') words='{}'{} ;;\n", command.name, next_words(command, parent),
                         takes_file ? "; [[ $current == -* ]] || files=1" : "");
  };
  add(root, nullptr);
  for (const CommandSpec& command : root.subcommands) {
    add(command, nullptr);
    // Options of `lssar cache` may also follow `lssar cache ls`.
    for (const CommandSpec& sub : command.subcommands) add(sub, &command);
  }
  return kBashHead + fmt::format("      {}) command+=\" ${{COMP_WORDS[i]}}\" ;;\n", subcommands) +
         "    esac\n  done\n  case \"$command $previous\" in\n" + values +
         "    *) case \"$command\" in\n" + words + "    esac ;;\n  esac\n" + kBashTail;
}

std::string zsh_completion(const CommandSpec& root) {
  return "#compdef lssar\n# bash's completion, which zsh runs.\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion(root);
}

void add_completion(CLI::App& app, Action* action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("completion", "Print a script that completes command lines");
  sub->add_option("SHELL", *shell, "bash or zsh")->required()->type_name("bash|zsh");
  sub->footer(
      "\nExample, in ~/.bashrc:\n"
      "  source <(lssar completion bash)\n\n" +
      exit_code_help());
  sub->callback([&app, shell, action] {
    *action = [&app, shell]() -> Result<int> {
      if (*shell != "bash" && *shell != "zsh")
        return invalid_argument(fmt::format("completion {}: allowed are bash and zsh", *shell));
      const CommandSpec root = spec_of(app);
      fmt::print("{}", *shell == "bash" ? bash_completion(root) : zsh_completion(root));
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace lssar::command
