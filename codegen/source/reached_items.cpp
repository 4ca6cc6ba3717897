#include "codegen/source/reached_items.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "codegen/source/argument_lists.h"
#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

using Tokens = std::vector<Token>;

// The types of numeric variables and parameters by name. A name with two types gets "".
std::map<std::string_view, std::string> variable_types(const Tokens& t) {
  std::map<std::string_view, std::string> types;
  for (size_t i = 0; i + 1 < t.size(); ++i) {
    if (!is_number_type(t[i])) continue;
    std::string_view name;
    std::string type = declared_type(t, i, &name);
    if (type.ends_with('&')) type.pop_back();
    if (name.empty()) continue;
    const auto [found, is_new] = types.emplace(name, type);
    if (!is_new && found->second != type) found->second.clear();
  }
  return types;
}

// Whether the parameter may take a variable of type `given`. "" stands for any type.
bool may_take(const std::string& parameter, const std::string& given) {
  if (parameter.empty() || given.empty()) return true;
  if (parameter.ends_with('&')) return parameter == given + '&';
  if (parameter.ends_with(']') || given.ends_with(']')) return parameter == given;
  return (parameter == "float") == (given == "float");
}
// The names that kept source uses, and its calls.
class Names {
 public:
  // `declared` is the function that the text declares. Its declaration is not a call.
  void add(std::string_view text, std::string_view declared = {}) {
    Tokens t;
    for (const Token& token : tokenize(text)) {
      if (token.kind == TokenKind::kDirective) add(token.text.substr(1));  // #pragma unroll kNumber
      if (!is_trivia(token)) t.push_back(token);
    }
    const auto types = variable_types(t);
    for (size_t i = 0; i < t.size(); ++i) {
      if (!t[i].is_word()) continue;
      used_.emplace(t[i].text);
      size_t open = i + 1;
      if (!declared.empty() && t[i].is(declared) && open < t.size() && t[open].is("(")) {
        declared = {};
        continue;
      }
      if (open < t.size() && t[open].is("<") && !is_template_list(t, open, &open)) {
        calls_[std::string(t[i].text)].insert({kAnyNumber, {}});
      } else if (open < t.size() && t[open].is("(")) {
        Call call = {count_arguments(t, open, false).most, {}};
        for (const auto& [first, last] : list_parts(t, open)) {
          const auto type = last == first + 1 ? types.find(t[first].text) : types.end();
          call.types.push_back(type == types.end() ? "" : type->second);
        }
        calls_[std::string(t[i].text)].insert(std::move(call));
      }
    }
  }

  bool has(const std::string& name) const { return used_.contains(name); }

  // Whether the kept source calls the function.
  bool calls(const SourceItem& function) const {
    const auto found = calls_.find(function.names[0]);
    if (found == calls_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](const Call& call) {
      if (call.number == kAnyNumber) return true;
      if (call.number < function.least_arguments || call.number > function.most_arguments)
        return false;
      const size_t known = std::min(call.types.size(), function.parameter_types.size());
      return std::equal(
          call.types.begin(), call.types.begin() + known, function.parameter_types.begin(),
          [](const auto& given, const auto& taken) { return may_take(taken, given); });
    });
  }

 private:
  static constexpr size_t kAnyNumber = std::string_view::npos;

  struct Call {
    size_t number;                   // of its arguments
    std::vector<std::string> types;  // of arguments that are variables

    auto operator<=>(const Call&) const = default;
  };

  std::set<std::string, std::less<>> used_;
  std::map<std::string, std::set<Call>> calls_;
};

bool has_constructor(const SourceItem& item) {
  return std::any_of(item.members.begin(), item.members.end(), [&](const SourceItem& member) {
    return member.kind == ItemKind::kPermanent && !member.names.empty() &&
           member.names[0] == item.names[0];
  });
}

// `of_aggregate`: the item belongs to a class without a constructor. Such a class keeps all of its
// data members, because initializers depend on their order.
bool is_reached(const SourceItem& item, const Names& names, bool of_aggregate) {
  if (item.kind == ItemKind::kPermanent) return true;
  if (item.kind == ItemKind::kFunction)
    return names.calls(item) && (item.chosen_by.empty() || names.has(item.chosen_by));
  if (item.is_data && of_aggregate) return true;
  return std::any_of(item.names.begin(), item.names.end(),
                     [&](const std::string& name) { return names.has(name); });
}

bool mark_items(std::vector<SourceItem>& items, Names& names, bool of_aggregate) {
  bool has_changed = false;
  for (SourceItem& item : items) {
    if (!item.is_kept && is_reached(item, names, of_aggregate)) {
      item.is_kept = has_changed = true;
      names.add(item.text, item.kind == ItemKind::kFunction ? item.names[0] : std::string());
    }
    if (item.is_kept && !item.members.empty())
      has_changed = mark_items(item.members, names, !has_constructor(item)) || has_changed;
  }
  return has_changed;
}

// Only functions of one name whose first parameters are of different classes keep chosen_by. Only
// functions that share their name keep parameter_types.
void find_overloads(std::vector<SourceSection>& sections) {
  std::set<std::string> classes;
  std::map<std::string, int> functions;
  for (const SourceSection& section : sections) {
    for (const SourceItem& item : section.items) {
      if (item.kind == ItemKind::kClass) classes.insert(item.names[0]);
      if (item.kind == ItemKind::kFunction) ++functions[item.names[0]];
    }
  }
  for (SourceSection& section : sections) {
    for (SourceItem& item : section.items) {
      const bool is_overload = item.kind == ItemKind::kFunction && functions[item.names[0]] > 1;
      if (!is_overload) item.parameter_types.clear();
      if (!is_overload || !classes.contains(item.chosen_by)) item.chosen_by.clear();
    }
  }
}

void erase_unreached(std::vector<SourceItem>& items) {
  std::erase_if(items, [](const SourceItem& item) { return !item.is_kept; });
  for (SourceItem& item : items) {
    item.is_kept = false;
    erase_unreached(item.members);
  }
}

}  // namespace

void keep_reached(std::vector<SourceSection>& sections, std::string_view roots) {
  find_overloads(sections);
  Names names;
  names.add(roots);
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    for (SourceSection& section : sections)
      has_changed = mark_items(section.items, names, false) || has_changed;
  }
  for (SourceSection& section : sections) erase_unreached(section.items);
}
}  // namespace lssar
