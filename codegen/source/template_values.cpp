#include "codegen/source/template_values.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "codegen/source/constant_branches.h"
#include "codegen/source/plain_source.h"
#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

// Whether the item is a static_assert that the constants make true.
bool is_decided_assert(const SourceItem& item, const SourceConstants& constants) {
  if (item.text.find("static_assert(") == std::string::npos) return false;
  const std::vector<Token> tokens = code_tokens(item.text);
  size_t comma = 0;
  while (comma < tokens.size() && tokens[comma].kind != TokenKind::kString) ++comma;
  if (!tokens[0].is("static_assert") || comma < 4 || comma == tokens.size()) return false;
  return constant_value(std::span(tokens).subspan(2, comma - 3), constants) == 1;
}

// Finds template parameters that have the same value in every use of their template. Within the
// template they count as constants.
//
// Items are visited from last to first, so most templates are visited after all of their uses. A
// template that is also used above its own declaration is left as it is.
class TemplateValues {
 public:
  explicit TemplateValues(const std::vector<SourceSection>& sections) {
    for (const SourceSection& section : sections) count_words(section.items);
  }

  void resolve(std::vector<SourceItem>& items, const SourceConstants& constants) {
    std::erase_if(items,
                  [&](const SourceItem& item) { return is_decided_assert(item, constants); });
    for (auto item = items.rbegin(); item != items.rend(); ++item) {
      std::optional<SourceConstants> own = with_parameters(*item, constants);
      hide_outer_types(*item, constants, own);
      const SourceConstants& inner = own ? *own : constants;
      drop_decided_asserts(*item, constants);
      resolve(item->members, inner);
      see_words(item->text);
      if (item->members.empty()) item->text = resolve_branches(std::move(item->text), inner);
      see_arguments(item->text, inner);
    }
  }

  // Records the template arguments in `text`.
  void see_arguments(std::string_view text, const SourceConstants& constants) {
    const std::vector<Token> tokens = code_tokens(text);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!tokens[i].is_word()) continue;
      Arguments values;
      const bool has_list = i + 1 < tokens.size() && tokens[i + 1].is("<");
      if (const auto list = has_list ? list_at(tokens, i + 1) : std::nullopt)
        for (const auto& argument : split_list(*list))
          values.push_back(argument_of(argument, constants));
      uses_[std::string(tokens[i].text)].lists.push_back(std::move(values));
    }
  }

 private:
  // A template argument: its value, or the name of a type that is not a template's.
  struct Argument {
    std::optional<int64_t> value;
    std::string type;

    bool is_known() const { return value || !type.empty(); }
    bool operator==(const Argument&) const = default;
  };
  using Arguments = std::vector<Argument>;

  struct Use {
    int total = 0;  // occurrences of its name
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

  static Argument argument_of(std::span<const Token> tokens, const SourceConstants& constants) {
    Argument argument = {constant_value(tokens, constants), ""};
    if (argument.value) return argument;
    std::string name;
    for (const Token& token : tokens)
      if (!token.is("typename") && !token.is("const")) name += token.text;
    name = type_named(name, constants);
    if (name == "Bf16" || name == "Fp16" || name == "float") argument.type = name;
    return argument;
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

  // The list that the < at tokens[open] opens. Nothing if that < is a comparison.
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

  // Whether all uses of the template come after it and have been seen.
  bool has_seen_uses(const SourceItem& item) {
    const Use& use = uses_[item.names[0]];
    return use.seen == use.total - 1 - own_mentions(item.members, item.names[0]);
  }

  static void bind(std::string_view name, const Argument& argument, SourceConstants& constants) {
    if (argument.value) constants.qualified[std::string(name)] = *argument.value;
    if (!argument.type.empty()) constants.aliases[std::string(name)] = argument.type;
  }

  // Removes static_asserts of a class template that hold for all arguments it is used with.
  void drop_decided_asserts(SourceItem& item, const SourceConstants& constants) {
    if (item.kind != ItemKind::kClass || !is_template(item.text) || !has_seen_uses(item)) return;
    const std::vector<Token> tokens = code_tokens(item.text);
    const auto list = list_at(tokens, 1);
    if (!list) return;
    const auto parameters = split_list(*list);
    std::vector<SourceConstants> uses;
    for (const Arguments& arguments : uses_[item.names[0]].lists) {
      if (arguments.empty()) continue;  // the class names itself
      SourceConstants& use = uses.emplace_back(constants);
      if (arguments.size() != parameters.size()) return;
      for (size_t i = 0; i < arguments.size(); ++i)
        bind(parameters[i].back().text, arguments[i], use);
    }
    if (uses.empty()) return;
    std::erase_if(item.members, [&](const SourceItem& member) {
      return std::all_of(uses.begin(), uses.end(), [&](const SourceConstants& use) {
        return is_decided_assert(member, use);
      });
    });
  }

  // The constants, with those parameters of the item that have a value. Nothing if none has one.
  std::optional<SourceConstants> with_parameters(const SourceItem& item,
                                                 const SourceConstants& constants) {
    if (item.text.find("template <") == std::string::npos || item.names.size() != 1) return {};
    const std::vector<Token> tokens = code_tokens(item.text);
    if (tokens.size() < 2 || !tokens[0].is("template")) return {};
    const auto list = list_at(tokens, 1);
    if (!list || !has_seen_uses(item)) return {};
    const Use& use = uses_[item.names[0]];
    std::optional<SourceConstants> inner;
    const auto parameters = split_list(*list);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto& parameter = parameters[i];
      if (parameter.size() < 2) continue;
      const bool has_default = parameter.size() > 3 && parameter[2].is("=");
      const Argument fallback =
          has_default ? argument_of(parameter.subspan(3), constants) : Argument();
      const bool is_explicit =
          !fallback.is_known() && !is_deduced(tokens, *list, parameter[1].text);
      const Argument argument = same_argument(use, i, fallback, is_explicit);
      if (!argument.is_known()) continue;
      if (!inner) inner = constants;
      bind(parameter[1].text, argument, *inner);
    }
    return inner;
  }

  // Within a class, its own Element hides the one outside.
  static void hide_outer_types(const SourceItem& item, const SourceConstants& constants,
                               std::optional<SourceConstants>& own) {
    if (item.kind != ItemKind::kClass || !is_template(item.text)) return;
    for (const SourceItem& member : item.members) {
      const bool hides = member.names.size() == 1 && member.text.find("using ") != npos &&
                         constants.member_types.contains(member.names[0]);
      if (!hides) continue;
      if (!own) own = constants;
      own->aliases.erase(member.names[0]);
    }
  }

  // Whether a use may omit the argument: the template is a class, or a function that names the
  // template parameter in the types of its own parameters.
  static bool is_deduced(const std::vector<Token>& tokens, std::span<const Token> list,
                         std::string_view parameter) {
    size_t open = static_cast<size_t>(list.data() - tokens.data()) + list.size();
    while (open < tokens.size() && !tokens[open].is("(") && !tokens[open].is("{")) ++open;
    if (open == tokens.size() || tokens[open].is("{")) return true;
    const size_t close = closing(tokens, open);
    return std::any_of(tokens.begin() + open, tokens.begin() + close,
                       [&](const Token& token) { return token.is(parameter); });
  }

  // The argument that all uses give, or none. With `is_explicit`, uses without `<...>` do not
  // count: they call another function of that name.
  static Argument same_argument(const Use& use, size_t place, const Argument& fallback,
                                bool is_explicit) {
    Argument same;
    for (const Arguments& list : use.lists) {
      if (is_explicit && list.empty()) continue;
      const Argument& given = place < list.size() ? list[place] : fallback;
      if (!given.is_known() || (same.is_known() && same != given)) return {};
      same = given;
    }
    return same;
  }

  std::map<std::string, Use, std::less<>> uses_;
};

}  // namespace

void resolve_constants(std::vector<SourceSection>& sections, std::string_view roots,
                       const SourceConstants& constants) {
  TemplateValues values(sections);
  values.see_arguments(roots, constants);
  for (auto section = sections.rbegin(); section != sections.rend(); ++section)
    values.resolve(section->items, constants);
}

}  // namespace lssar
