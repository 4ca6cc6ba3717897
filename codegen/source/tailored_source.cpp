#include "codegen/source/tailored_source.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "codegen/source/accessors.h"
#include "codegen/source/chosen_types.h"
#include "codegen/source/class_names.h"
#include "codegen/source/comment_columns.h"
#include "codegen/source/comment_labels.h"
#include "codegen/source/known_constants.h"
#include "codegen/source/plain_source.h"
#include "codegen/source/reached_items.h"
#include "codegen/source/source_items.h"
#include "codegen/source/source_tokens.h"
#include "codegen/source/statement_lines.h"
#include "codegen/source/template_values.h"

namespace lssar {
namespace {

// How often each word occurs in the source.
using Words = std::map<std::string, int, std::less<>>;

// Whether it is `using Base::member;`, which a class needs only if its base depends on a template.
bool names_member_of_base(const SourceItem& item) {
  const std::vector<Token> tokens = code_tokens(item.text);
  if (tokens.size() < 3 || !tokens[0].is("using")) return false;
  return std::none_of(tokens.begin(), tokens.end(), [](const Token& t) { return t.is("="); });
}

// Whether it is `Name() = default;`, which templates have to keep data members in any order.
bool is_default_constructor(const SourceItem& item) {
  return item.text.ends_with("() = default;\n");
}

// Removes what only templates need, and joins lines as far as the line length allows.
void tidy(std::vector<SourceItem>& items, bool within_template) {
  if (!within_template) std::erase_if(items, names_member_of_base);
  std::erase_if(items, is_default_constructor);
  for (SourceItem& item : items) {
    const bool is_of_template = within_template || is_template(item.text);
    if (!is_of_template) item.text = without_template_words(item.text);
    item.text = joined_statements(item.text);
    tidy(item.members, is_of_template);
    align_comments(item.members);
  }
}

// Removes declarations that repeat an earlier one word for word.
void drop_repeated(std::vector<SourceSection>& sections) {
  std::set<std::string> declared;
  for (SourceSection& section : sections)
    std::erase_if(section.items, [&](const SourceItem& item) {
      return item.kind == ItemKind::kVariable && item.text.find("struct ") != std::string::npos &&
             item.text.ends_with(";\n") && !declared.insert(item.text).second;
    });
}

void count_words(const std::vector<SourceItem>& items, Words& words) {
  for (const SourceItem& item : items) {
    for (const Token& token : code_tokens(item.text))
      if (token.is_word()) ++words[std::string(token.text)];
    count_words(item.members, words);
  }
}

int member_bytes(const SourceItem& member) {
  const std::vector<Token> tokens = code_tokens(member.text);
  const bool is_pointer =
      std::any_of(tokens.begin(), tokens.end(), [](const Token& t) { return t.is("*"); });
  if (is_pointer || tokens[0].is("long")) return 8;
  return tokens[0].is("TensorRef") ? 4 * 8 : 4;
}

// Replaces members of the kernels' argument that nothing reads by bytes, one array for neighbours.
void hide_unread(SourceItem& argument, const Words& words) {
  std::vector<SourceItem> members;
  int bytes = 0, number = 0;
  for (SourceItem& member : argument.members) {
    const bool is_unread = member.names.size() == 1 && words.at(member.names[0]) == 1;
    if (!is_unread) {
      bytes = 0;
      members.push_back(std::move(member));
      continue;
    }
    const int own = member_bytes(member);
    if (bytes == 0) {
      member.names = {"unread_" + std::to_string(++number)};
      member.comment.clear();
      members.push_back(std::move(member));
    }
    bytes += own;
    members.back().text =
        "  unsigned char " + members.back().names[0] + "[" + std::to_string(bytes) + "];\n";
  }
  argument.members = std::move(members);
}

void hide_unread_parameters(std::vector<SourceSection>& sections) {
  Words words;
  for (const SourceSection& section : sections) count_words(section.items, words);
  for (SourceSection& section : sections)
    for (SourceItem& item : section.items)
      if (item.kind == ItemKind::kClass && item.names[0] == "AttentionParams")
        hide_unread(item, words);
}

std::vector<SourceSection> reached_sections(const std::vector<SourcePart>& parts,
                                            std::string_view roots) {
  std::vector<SourceSection> sections;
  for (const SourcePart& part : parts)
    sections.push_back(parse_section(part.title, with_unroll_words(without_config(part.text))));
  write_chosen_types(sections, known_constants(sections, false));
  resolve_constants(sections, roots, known_constants(sections, false));
  keep_reached(sections, roots);
  inline_accessors(sections, roots);
  // A name that meant several things may mean only one in the source that is left.
  resolve_constants(sections, roots, known_constants(sections, true));
  keep_reached(sections, roots);
  drop_repeated(sections);
  hide_unread_parameters(sections);
  return sections;
}

std::string print_tidily(std::vector<SourceSection>& sections, std::string_view roots) {
  drop_absent_labels(sections, roots);
  for (SourceSection& section : sections) tidy(section.items, false);
  return "namespace lssar_device {\n\n" + print_sections(sections);
}

}  // namespace

std::string tailor_source(const std::vector<SourcePart>& parts, std::string_view roots) {
  std::vector<SourceSection> sections = reached_sections(parts, roots);
  return print_tidily(sections, roots);
}

std::string tailor_kernels(const std::vector<SourcePart>& parts, std::string entries,
                           std::string_view constants) {
  std::vector<SourceSection> sections = reached_sections(parts, entries + std::string(constants));
  shorten_class_names(sections, entries);
  return print_tidily(sections, entries) + entries;
}

}  // namespace lssar
