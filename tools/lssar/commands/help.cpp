// lssar help: the help of a subcommand, and all of them as a manual page.
#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/usage_error.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/help_text.h"
#include "tools/lssar/terminal/man_page.h"

namespace lssar::command {
namespace {

struct HelpOptions {
  std::vector<std::string> words;
  bool man = false;
};

Result<int> help(const CLI::App& root, const HelpOptions& options) {
  if (options.man) {
    fmt::print("{}", man_page(spec_of(root)));
    return static_cast<int>(kDone);
  }
  const CLI::App* app = &root;
  for (const std::string& word : options.words) {
    const auto subs = app->get_subcommands({});
    const auto named = std::find_if(subs.begin(), subs.end(),
                                    [&](const CLI::App* one) { return one->get_name() == word; });
    if (named == subs.end()) return invalid_argument(unknown_subcommand(*app, word));
    app = *named;
  }
  fmt::print("{}", help_text(spec_of(*app), help_columns()));
  return static_cast<int>(kDone);
}

}  // namespace

void add_help(CLI::App& app, Action* action) {
  auto options = std::make_shared<HelpOptions>();
  CLI::App* sub = app.add_subcommand("help", "The help of a subcommand");
  sub->add_option("SUBCOMMAND", options->words, "as in \"cache ls\"; none: what there is")
      ->type_name("SUBCOMMAND...");
  sub->add_flag("--man", options->man, "all of it, as a manual page in roff");
  sub->footer("\nExample:\n  lssar help cache ls\n\n" + exit_code_help());
  sub->callback(
      [&app, options, action] { *action = [&app, options] { return help(app, *options); }; });
}

}  // namespace lssar::command
