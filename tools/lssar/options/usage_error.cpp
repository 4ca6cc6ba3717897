#include "tools/lssar/options/usage_error.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "tools/lssar/terminal/command_spec.h"

namespace lssar::command {
namespace {

// The last subcommand that was chosen. It has the arguments that nothing took.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

// The options of the command and of its parents, because some of the parents' may follow it.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const OptionSpec& option : spec_of(app).options) {
    for (const std::string& name : option.names) {
      if (name.starts_with("--")) names.push_back(name);
    }
  }
  if (app.get_parent() == nullptr) return names;
  const std::vector<std::string> above = option_names(*app.get_parent());
  names.insert(names.end(), above.begin(), above.end());
  return names;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::vector<std::string> similar = similar_words(word, known);
  return similar.empty() ? "" : fmt::format("did you mean {}?", fmt::join(similar, " or "));
}

// The first argument that nothing took; "" if there is none.
std::string first_unknown(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  return unknown.empty() ? "" : unknown.front();
}

}  // namespace

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

std::vector<std::string> similar_words(const std::string& word,
                                       const std::vector<std::string>& known) {
  constexpr size_t kMostSuggestions = 3;
  const size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  const size_t most = std::clamp<size_t>(letters / 3, 1, 3);
  std::vector<std::pair<size_t, std::string>> similar;
  for (const std::string& one : known) {
    // The beginning of a word counts as the word.
    const bool begins = letters >= 2 && one.starts_with(word);
    const size_t distance = begins ? 0 : edit_distance(word, one);
    if (distance <= most) similar.emplace_back(distance, one);
  }
  std::stable_sort(similar.begin(), similar.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> words;
  for (const auto& [distance, one] : similar) {
    if (distance == similar.front().first && words.size() < kMostSuggestions) words.push_back(one);
  }
  return words;
}

std::string unknown_subcommand(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = subcommand_names(app);
  std::string hint = suggestion(word, names);
  if (hint.empty()) hint = fmt::format("allowed are {}", fmt::join(names, ", "));
  return fmt::format("unknown subcommand '{}': {}", word, hint);
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const std::string see = fmt::format("(see {} --help)", spec_of(command).name);
  // A misspelled option is the reason why a required one is missing, so it is reported first.
  const std::string word = first_unknown(app);
  if (word.empty()) return fmt::format("{} {}", error.what(), see);
  if (!word.starts_with('-')) {
    return subcommand_names(command).empty()
               ? fmt::format("'{}': an argument too many {}", word, see)
               : unknown_subcommand(command, word) + " " + see;
  }
  const std::string option = word.substr(0, word.find('='));
  const std::string hint = suggestion(option, option_names(command));
  return fmt::format("unknown option {}{}{} {}", option, hint.empty() ? "" : ": ", hint, see);
}

}  // namespace lssar::command
