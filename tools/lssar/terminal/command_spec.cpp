#include "tools/lssar/terminal/command_spec.h"

#include <algorithm>

#include <fmt/format.h>

namespace lssar::command {
namespace {

// CLI11's name of a type. Without one the option's help says what the value is for.
std::string value_name(const CLI::Option& option) {
  if (!option.get_option_text().empty()) return option.get_option_text();
  if (option.get_items_expected_max() == 0) return "";
  // A check appends its own description: ":IsMember ...".
  const std::string type = option.get_type_name();
  const std::string name = type.substr(0, type.find(':'));
  if (name == "TEXT") return "TEXT";
  return name == "INT" || name == "UINT" || name == "FLOAT" ? "N" : name;
}

OptionSpec option_spec(const CLI::Option& option) {
  OptionSpec spec;
  spec.is_positional = option.get_positional();
  if (spec.is_positional) spec.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) spec.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) spec.names.push_back("--" + name);
  spec.value = value_name(option);
  spec.help = option.get_description();
  spec.group = option.get_group();
  if (option.get_required()) spec.help += " (required)";
  if (!option.get_default_str().empty())
    spec.help += fmt::format(" (default {})", option.get_default_str());
  return spec;
}

CommandSpec command_spec(const CLI::App& app, const std::string& parent) {
  CommandSpec spec;
  spec.name = parent.empty() ? app.get_name() : parent + " " + app.get_name();
  spec.summary = app.get_description();
  spec.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) spec.options.push_back(option_spec(*option));
  }
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (!sub->get_group().empty()) spec.subcommands.push_back(command_spec(*sub, spec.name));
  }
  return spec;
}

std::string parents_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "";
  const std::string above = parents_of(*app.get_parent());
  return above.empty() ? app.get_parent()->get_name() : above + " " + app.get_parent()->get_name();
}

}  // namespace

CommandSpec spec_of(const CLI::App& app) { return command_spec(app, parents_of(app)); }

std::vector<std::string> values_of(const OptionSpec& option) {
  std::string list = option.value;
  if (list.starts_with("[=")) list = list.substr(2, list.size() - 3);
  std::vector<std::string> words;
  for (size_t at = 0; list.find('|') != list.npos && at <= list.size();) {
    const size_t end = std::min(list.find('|', at), list.size());
    words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace lssar::command
