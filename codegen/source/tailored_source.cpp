#include "codegen/source/tailored_source.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "codegen/source/constant_branches.h"
#include "codegen/source/plain_source.h"
#include "codegen/source/source_items.h"
#include "codegen/source/source_tokens.h"
#include "codegen/source/statement_lines.h"

namespace lssar {
namespace {

constexpr const char* kConfig = "Config";

bool is_config(const SourceItem& item) {
  return item.kind == ItemKind::kClass && item.names[0] == kConfig;
}

// VALUE of `static constexpr int kName = VALUE;`.
std::optional<int64_t> initial_value(const SourceItem& item, const SourceConstants& constants) {
  const std::vector<Token> tokens = code_tokens(item.text);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!tokens[i].is("=")) continue;
    return constant_value(std::span(tokens).subspan(i + 1, tokens.size() - i - 2), constants);
  }
  return {};
}

// How often a name is declared with a type of its own.
using Declarations = std::map<std::string, int, std::less<>>;

void count_declarations(const std::vector<SourceItem>& items, Declarations& counts) {
  for (const SourceItem& item : items) {
    if (is_config(item)) continue;
    const std::vector<Token> tokens = code_tokens(item.text);
    for (size_t i = 1; i < tokens.size(); ++i) {
      const std::string_view type = tokens[i - 1].text;
      const bool has_type = type == "int" || type == "bool" || type == "float" || type == "u32" ||
                            type == "i64" || type == "u64" || type == "auto";
      if (has_type && tokens[i].is_word()) ++counts[std::string(tokens[i].text)];
    }
    count_declarations(item.members, counts);
  }
}

void read_config(const std::vector<SourceItem>& items, SourceConstants& constants) {
  for (const SourceItem& item : items) {
    if (!is_config(item)) continue;
    for (const SourceItem& member : item.members) {
      if (const auto value = initial_value(member, constants); value && !member.names.empty())
        constants.qualified[std::string(kConfig) + "::" + member.names[0]] = *value;
    }
  }
}

// VALUE of a function of no arguments whose body is `{ return VALUE; }`.
std::optional<int64_t> returned_value(const SourceItem& item, const SourceConstants& constants) {
  if (item.most_arguments > 0) return {};
  const std::vector<Token> tokens = code_tokens(item.text);
  for (size_t i = 0; i + 4 < tokens.size(); ++i) {
    if (!tokens[i].is("{")) continue;
    if (!tokens[i + 1].is("return")) return {};
    return constant_value(std::span(tokens).subspan(i + 2, tokens.size() - i - 4), constants);
  }
  return {};
}

void derive(const std::vector<SourceItem>& items, const Declarations& counts,
            SourceConstants& constants) {
  for (const SourceItem& item : items) {
    if (is_config(item)) continue;
    derive(item.members, counts, constants);
    if (item.is_data || item.names.size() != 1) continue;
    const auto count = counts.find(item.names[0]);
    if (count == counts.end() || count->second != 1) continue;
    if (item.kind == ItemKind::kVariable) {
      if (const auto value = initial_value(item, constants))
        constants.derived[item.names[0]] = *value;
    } else if (item.kind == ItemKind::kFunction) {
      if (const auto value = returned_value(item, constants))
        constants.calls[item.names[0]] = *value;
    }
  }
}

// Whether it is a static_assert of what the constants say already.
bool is_decided_assert(const SourceItem& item, const SourceConstants& constants) {
  if (item.text.find("static_assert(") == std::string::npos) return false;
  const std::vector<Token> tokens = code_tokens(item.text);
  size_t comma = 0;
  while (comma < tokens.size() && tokens[comma].kind != TokenKind::kString) ++comma;
  if (!tokens[0].is("static_assert") || comma < 4 || comma == tokens.size()) return false;
  return constant_value(std::span(tokens).subspan(2, comma - 3), constants) == 1;
}

// Template parameters that have the same value wherever the template is named, by the template's
// name: those are decided like constants within it.
//
// Items are visited from the last to the first, so that most templates come after all their users;
// a template that something before it names, too, is left as it is.
class TemplateValues {
 public:
  explicit TemplateValues(const std::vector<SourceSection>& sections) {
    for (const SourceSection& section : sections) count_words(section.items);
  }

  void resolve(std::vector<SourceItem>& items, const SourceConstants& constants) {
    std::erase_if(items,
                  [&](const SourceItem& item) { return is_decided_assert(item, constants); });
    for (auto item = items.rbegin(); item != items.rend(); ++item) {
      const std::optional<SourceConstants> own = with_parameters(*item, constants);
      const SourceConstants& inner = own ? *own : constants;
      resolve(item->members, inner);
      see_words(item->text);
      if (item->members.empty()) item->text = resolve_branches(std::move(item->text), inner);
      see_arguments(item->text, inner);
    }
  }

  // The template arguments that `text` names.
  void see_arguments(std::string_view text, const SourceConstants& constants) {
    const std::vector<Token> tokens = code_tokens(text);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!tokens[i].is_word()) continue;
      Arguments values;
      const bool has_list = i + 1 < tokens.size() && tokens[i + 1].is("<");
      if (const auto list = has_list ? list_at(tokens, i + 1) : std::nullopt)
        for (const auto& argument : split_list(*list))
          values.push_back(constant_value(argument, constants));
      uses_[std::string(tokens[i].text)].lists.push_back(std::move(values));
    }
  }

 private:
  // A list of template arguments: a value for each that has one.
  using Arguments = std::vector<std::optional<int64_t>>;

  struct Use {
    int total = 0;  // of its name
    int seen = 0;
    std::vector<Arguments> lists;
  };

  void count_words(const std::vector<SourceItem>& items) {
    for (const SourceItem& item : items) {
      for (const Token& token : code_tokens(item.text))
        if (token.is_word()) ++uses_[std::string(token.text)].total;
      count_words(item.members);
    }
  }

  void see_words(std::string_view text) {
    for (const Token& token : code_tokens(text))
      if (token.is_word()) ++uses_[std::string(token.text)].seen;
  }

  static std::vector<std::span<const Token>> split_list(std::span<const Token> tokens) {
    std::vector<std::span<const Token>> parts;
    int depth = 0;
    size_t first = 0;
    for (size_t i = 0; i <= tokens.size(); ++i) {
      if (i < tokens.size() && !(depth == 0 && tokens[i].is(","))) {
        const std::string_view text = tokens[i].text;
        if (text == "<" || text == "(" || text == "{") ++depth;
        if (text == ">" || text == ")" || text == "}") --depth;
        continue;
      }
      if (i > first) parts.push_back(tokens.subspan(first, i - first));
      first = i + 1;
    }
    return parts;
  }

  // The list that tokens[open], a <, opens; nothing where it compares.
  static std::optional<std::span<const Token>> list_at(const std::vector<Token>& tokens,
                                                       size_t open) {
    int depth = 0;
    for (size_t i = open; i < tokens.size(); ++i) {
      const std::string_view text = tokens[i].text;
      if (text == "<") ++depth;
      if (text == ">" && --depth == 0) return std::span(tokens).subspan(open + 1, i - open - 1);
      if (text == ";" || text == "{") return {};
    }
    return {};
  }

  static int own_mentions(const std::vector<SourceItem>& members, std::string_view name) {
    int count = 0;
    for (const SourceItem& member : members) {
      for (const Token& token : code_tokens(member.text)) count += token.is(name);
      count += own_mentions(member.members, name);
    }
    return count;
  }

  // The constants with the item's parameters that have a value; nothing where none has.
  std::optional<SourceConstants> with_parameters(const SourceItem& item,
                                                 const SourceConstants& constants) {
    if (item.text.find("template <") == std::string::npos || item.names.size() != 1) return {};
    const std::vector<Token> tokens = code_tokens(item.text);
    if (tokens.size() < 2 || !tokens[0].is("template")) return {};
    const auto list = list_at(tokens, 1);
    const Use& use = uses_[item.names[0]];
    if (!list || use.seen != use.total - 1 - own_mentions(item.members, item.names[0])) return {};
    std::optional<SourceConstants> inner;
    const auto parameters = split_list(*list);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto& parameter = parameters[i];
      if (parameter.size() < 2 || !(parameter[0].is("bool") || parameter[0].is("int"))) continue;
      const bool has_default = parameter.size() > 3 && parameter[2].is("=");
      const auto fallback =
          has_default ? constant_value(parameter.subspan(3), constants) : std::optional<int64_t>();
      const bool is_explicit = !fallback && !is_deduced(tokens, *list, parameter[1].text);
      const auto value = same_value(use, i, fallback, is_explicit);
      if (!value) continue;
      if (!inner) inner = constants;
      inner->qualified[std::string(parameter[1].text)] = *value;
    }
    return inner;
  }

  // Whether a call may leave the parameter out, since what is called or its class names it too.
  static bool is_deduced(const std::vector<Token>& tokens, std::span<const Token> list,
                         std::string_view parameter) {
    size_t open = static_cast<size_t>(list.data() - tokens.data()) + list.size();
    while (open < tokens.size() && !tokens[open].is("(") && !tokens[open].is("{")) ++open;
    if (open == tokens.size() || tokens[open].is("{")) return true;
    const size_t close = closing(tokens, open);
    return std::any_of(tokens.begin() + open, tokens.begin() + close,
                       [&](const Token& token) { return token.is(parameter); });
  }

  // `is_explicit`: a use without a list is of another function of the name.
  static std::optional<int64_t> same_value(const Use& use, size_t place,
                                           std::optional<int64_t> fallback, bool is_explicit) {
    std::optional<int64_t> value;
    for (const Arguments& list : use.lists) {
      if (is_explicit && list.empty()) continue;
      const auto given = place < list.size() ? list[place] : fallback;
      if (!given || (value && *value != *given)) return {};
      value = given;
    }
    return value;
  }

  std::map<std::string, Use, std::less<>> uses_;
};

// `using Base::member;`, which a class needs only if its base is a template's.
bool names_member_of_base(const SourceItem& item) {
  const std::vector<Token> tokens = code_tokens(item.text);
  if (tokens.size() < 3 || !tokens[0].is("using")) return false;
  return std::none_of(tokens.begin(), tokens.end(), [](const Token& t) { return t.is("="); });
}

// Without what only templates need, and with lines as long as they may be.
void tidy_kept(std::vector<SourceItem>& items, bool within_template) {
  for (SourceItem& item : items) {
    if (!item.is_kept) continue;
    const bool is_of_template = within_template || is_template(item.text);
    if (!is_of_template && names_member_of_base(item)) {
      item.is_kept = false;
      continue;
    }
    if (!is_of_template) item.text = without_template_words(item.text);
    item.text = joined_statements(item.text);
    tidy_kept(item.members, is_of_template);
  }
}

}  // namespace

std::string tailor_source(const std::vector<SourcePart>& parts, std::string_view roots) {
  std::vector<SourceSection> sections;
  for (const SourcePart& part : parts)
    sections.push_back(parse_section(part.title, with_unroll_words(without_config(part.text))));
  SourceConstants constants;
  Declarations counts;
  for (const SourceSection& section : sections) {
    read_config(section.items, constants);
    count_declarations(section.items, counts);
  }
  for (const SourceSection& section : sections) derive(section.items, counts, constants);
  TemplateValues values(sections);
  values.see_arguments(roots, constants);
  for (auto section = sections.rbegin(); section != sections.rend(); ++section)
    values.resolve(section->items, constants);
  mark_reached(sections, roots);
  for (SourceSection& section : sections) tidy_kept(section.items, false);
  return "namespace lssar_device {\n\n" + print_reached(sections);
}

}  // namespace lssar
