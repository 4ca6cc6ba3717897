#include "codegen/source/known_constants.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codegen/source/plain_source.h"
#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

bool is_config(const SourceItem& item) {
  return item.kind == ItemKind::kClass && item.names[0] == "Config";
}

// Returns VALUE of `static constexpr int kName = VALUE;`.
std::optional<int64_t> initial_value(const SourceItem& item, const SourceConstants& constants) {
  const std::vector<Token> tokens = code_tokens(item.text);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!tokens[i].is("=")) continue;
    return constant_value(std::span(tokens).subspan(i + 1, tokens.size() - i - 2), constants);
  }
  return {};
}

// How many declarations with a plain type each name has.
using DeclarationCounts = std::map<std::string, int, std::less<>>;

void count_declarations(const std::vector<SourceItem>& items, DeclarationCounts& counts) {
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

// Returns TEXT if `using NAME = TEXT;` begins at tokens[at], else "".
std::string alias_text(const std::vector<Token>& tokens, size_t at, std::string_view text) {
  if (at + 3 >= tokens.size() || !tokens[at].is("using") || !tokens[at + 2].is("=")) return "";
  size_t end = at + 3;
  while (end < tokens.size() && !tokens[end].is(";")) ++end;
  if (end == tokens.size()) return "";
  const size_t first = tokens[at + 3].is("typename") && at + 4 < end ? at + 4 : at + 3;
  return std::string(text.substr(tokens[first].begin, tokens[end - 1].end - tokens[first].begin));
}

// Whether the template's parameters include `type`.
bool has_parameter(std::string_view declaration, std::string_view type) {
  const std::vector<Token> tokens = code_tokens(declaration);
  for (size_t i = 2; i + 1 < tokens.size() && !tokens[i].is(">"); ++i)
    if (tokens[i].is("class") && tokens[i + 1].is(type)) return true;
  return false;
}

// Collects aliases. A name that means several things in the source gets "". An alias of a
// template's own parameter has no meaning outside of that class: Tile::Element is not Element.
void read_aliases(const std::vector<SourceItem>& items, const SourceItem* owner,
                  SourceConstants& constants) {
  for (const SourceItem& item : items) {
    const std::vector<Token> tokens = code_tokens(item.text);
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const bool is_parameter = tokens[i].is("class") && !tokens[i + 1].is("=");
      if (!tokens[i].is("using") && !is_parameter) continue;
      const bool is_of_config = owner != nullptr && is_config(*owner);
      const std::string name = (is_of_config ? "Config::" : "") + std::string(tokens[i + 1].text);
      const std::string text = is_parameter ? "" : alias_text(tokens, i, item.text);
      if (owner != nullptr && is_template(owner->text) && has_parameter(owner->text, text)) {
        constants.member_types.insert(name);
        continue;
      }
      const auto [found, is_new] = constants.aliases.emplace(name, text);
      if (!is_new && found->second != text) found->second.clear();
    }
    read_aliases(item.members, &item, constants);
  }
}

// Collects the parameters and constants of class templates.
void read_templates(const std::vector<SourceItem>& items, SourceConstants& constants) {
  for (const SourceItem& item : items) {
    if (item.kind != ItemKind::kClass || !is_template(item.text)) continue;
    ConstantTemplate source;
    const std::vector<Token> tokens = code_tokens(item.text);
    for (size_t i = 2; i < tokens.size() && !tokens[i].is("{"); ++i)
      if (is_one_of(tokens[i], {",", ">"}) && tokens[i - 1].is_word())
        source.parameters.emplace_back(tokens[i - 1].text);
    for (const SourceItem& member : item.members) {
      const std::vector<Token> t = code_tokens(member.text);
      if (member.kind != ItemKind::kVariable || t.size() < 6 || !t[1].is("constexpr")) continue;
      if (!t[4].is("=")) continue;
      source.constants.emplace_back(t[3].text,
                                    member.text.substr(t[5].begin, t.back().begin - t[5].begin));
    }
    constants.templates[item.names[0]] = std::move(source);
  }
}

void read_config(const std::vector<SourceItem>& items, SourceConstants& constants) {
  for (const SourceItem& item : items) {
    if (!is_config(item)) continue;
    for (const SourceItem& member : item.members) {
      if (const auto value = initial_value(member, constants); value && !member.names.empty())
        constants.qualified["Config::" + member.names[0]] = *value;
    }
  }
}

// Returns VALUE if the function has no parameters and its body is `{ return VALUE; }`.
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

void derive(const std::vector<SourceItem>& items, const DeclarationCounts& counts,
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

// Replaces the initializer by its value: `static constexpr int kBytes = 16384;`.
void fold(SourceItem& item, const SourceConstants& constants) {
  const std::vector<Token> tokens = code_tokens(item.text);
  size_t equals = 0;
  while (equals < tokens.size() && !tokens[equals].is("=")) ++equals;
  if (equals + 3 >= tokens.size() || equals < 2 || !tokens.back().is(";")) return;
  const bool is_constant = tokens[0].is("constexpr") || tokens[1].is("constexpr");
  const std::string_view type = tokens[equals - 2].text;
  if (!is_constant || !(type == "int" || type == "bool")) return;
  const auto value = initial_value(item, constants);
  if (!value) return;
  const std::string text = type == "int" ? std::to_string(*value) : *value ? "true" : "false";
  const size_t begin = tokens[equals + 1].begin;
  item.text.replace(begin, tokens.back().begin - begin, text);
}

// Finds the constants of classes that are not templates. Inside a class its own types and constants
// hide those of the same name elsewhere. `folds` also writes the values into the source.
void read_classes(std::vector<SourceItem>& items, bool folds, SourceConstants& constants) {
  for (SourceItem& item : items) {
    if (item.kind == ItemKind::kVariable && folds) fold(item, constants);
    if (item.kind != ItemKind::kClass || is_template(item.text) || is_config(item)) continue;
    SourceConstants inner = constants;
    for (SourceItem& member : item.members) {
      if (member.kind != ItemKind::kVariable || member.names.size() != 1) continue;
      const std::string& name = member.names[0];
      const std::string type = alias_text(code_tokens(member.text), 0, member.text);
      if (!type.empty()) inner.aliases[name] = type;
      if (!type.empty() || member.is_data) continue;
      inner.derived.erase(name);
      if (const auto value = initial_value(member, inner)) {
        inner.qualified[name] = *value;
        constants.qualified[item.names[0] + "::" + name] = *value;
      }
      if (folds) fold(member, inner);
    }
  }
}

}  // namespace

SourceConstants known_constants(std::vector<SourceSection>& sections, bool folds) {
  SourceConstants constants;
  DeclarationCounts counts;
  for (const SourceSection& section : sections) {
    read_config(section.items, constants);
    read_aliases(section.items, nullptr, constants);
    read_templates(section.items, constants);
    count_declarations(section.items, counts);
  }
  std::erase_if(constants.aliases, [](const auto& alias) { return alias.second.empty(); });
  for (const SourceSection& section : sections) derive(section.items, counts, constants);
  for (SourceSection& section : sections) read_classes(section.items, folds, constants);
  return constants;
}

}  // namespace lssar
