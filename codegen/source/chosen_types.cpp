#include "codegen/source/chosen_types.h"

#include <map>
#include <string>

#include "codegen/source/constant_branches.h"
#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

// An alias to its type.
using ChosenTypes = std::map<std::string, std::string, std::less<>>;

// The type that the item gives a name to, or "".
std::string chosen_type(const SourceItem& item, const SourceConstants& constants) {
  if (!item.text.starts_with("using ") || item.text.find("Select<") == std::string::npos) return "";
  const std::string text = resolve_branches(item.text, constants);
  const std::vector<Token> tokens = code_tokens(text);
  const bool is_name = tokens.size() == 5 && tokens[3].is_word() && tokens[4].is(";");
  return is_name ? std::string(tokens[3].text) : "";
}

void write_types(std::string& text, const ChosenTypes& types) {
  std::string result;
  size_t done = 0;
  for (const Token& token : code_tokens(text)) {
    const auto found = token.is_word() ? types.find(token.text) : types.end();
    if (found == types.end()) continue;
    result += text.substr(done, token.begin - done) + found->second;
    done = token.end;
  }
  if (done != 0) text = result + text.substr(done);
}

void write_types(std::vector<SourceItem>& items, const ChosenTypes& types) {
  for (SourceItem& item : items) {
    write_types(item.text, types);
    write_types(item.members, types);
  }
}

}  // namespace

void write_chosen_types(std::vector<SourceSection>& sections, const SourceConstants& constants) {
  ChosenTypes types;
  for (SourceSection& section : sections)
    std::erase_if(section.items, [&](const SourceItem& item) {
      const std::string type = chosen_type(item, constants);
      if (!type.empty()) types[item.names[0]] = type;
      return !type.empty();
    });
  if (types.empty()) return;
  for (SourceSection& section : sections) write_types(section.items, types);
}

}  // namespace lssar
