#include "codegen/source/tailored_source.h"

#include <algorithm>

#include "codegen/source/known_constants.h"
#include "codegen/source/plain_source.h"
#include "codegen/source/source_items.h"
#include "codegen/source/source_tokens.h"
#include "codegen/source/statement_lines.h"
#include "codegen/source/template_values.h"

namespace lssar {
namespace {

// `using Base::member;`, which a class needs only if its base is a template's.
bool names_member_of_base(const SourceItem& item) {
  const std::vector<Token> tokens = code_tokens(item.text);
  if (tokens.size() < 3 || !tokens[0].is("using")) return false;
  return std::none_of(tokens.begin(), tokens.end(), [](const Token& t) { return t.is("="); });
}

// Without what only templates need, and with lines as long as they may be.
void tidy(std::vector<SourceItem>& items, bool within_template) {
  if (!within_template) std::erase_if(items, names_member_of_base);
  for (SourceItem& item : items) {
    const bool is_of_template = within_template || is_template(item.text);
    if (!is_of_template) item.text = without_template_words(item.text);
    item.text = joined_statements(item.text);
    tidy(item.members, is_of_template);
  }
}

}  // namespace

std::string tailor_source(const std::vector<SourcePart>& parts, std::string_view roots) {
  std::vector<SourceSection> sections;
  for (const SourcePart& part : parts)
    sections.push_back(parse_section(part.title, with_unroll_words(without_config(part.text))));
  resolve_constants(sections, roots, known_constants(sections, false));
  keep_reached(sections, roots);
  // Names that meant several things may mean one in what is left.
  resolve_constants(sections, roots, known_constants(sections, true));
  keep_reached(sections, roots);
  for (SourceSection& section : sections) tidy(section.items, false);
  return "namespace lssar_device {\n\n" + print_sections(sections);
}

}  // namespace lssar
