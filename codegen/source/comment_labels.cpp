#include "codegen/source/comment_labels.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

using CodeWords = std::set<std::string, std::less<>>;

size_t word_end(std::string_view text, size_t at) {
  while (at < text.size() && is_word_char(text[at])) ++at;
  return at;
}

void add_words(std::string_view text, CodeWords& words) {
  for (const Token& token : tokenize(text)) {
    if (token.is_word()) words.emplace(token.text);
    if (token.kind == TokenKind::kDirective) add_words(token.text.substr(1), words);
  }
}

void add_words(const std::vector<SourceItem>& items, CodeWords& words) {
  for (const SourceItem& item : items) {
    add_words(item.text, words);
    add_words(item.members, words);
  }
}

bool is_constant(std::string_view word) {
  return word.size() > 1 && word[0] == 'k' && std::isupper(static_cast<unsigned char>(word[1]));
}

// Whether a word of a sentence begins there, not a name or a formula. Names of one or two letters
// are usual: dk.
bool is_plain_word(std::string_view text, size_t at) {
  constexpr size_t kLeastLetters = 3;
  const size_t end = word_end(text, at);
  const std::string_view word = text.substr(at, end - at);
  const bool is_alone = end < text.size() && (text[end] == ' ' || text[end] == ',');
  return is_alone && word.size() >= kLeastLetters &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

std::string without_labels(std::string text, const CodeWords& words) {
  const std::vector<Token> tokens = tokenize(std::string_view(text));
  for (size_t i = tokens.size(); i-- > 0;) {
    if (tokens[i].kind != TokenKind::kComment) continue;
    const size_t comment = tokens[i].begin, end = tokens[i].end;
    const size_t name = std::min(text.find_first_not_of("/ ", comment), end);
    const size_t name_end = word_end(text, name);
    const std::string_view word = std::string_view(text).substr(name, name_end - name);
    if (!is_constant(word) || words.contains(word)) continue;
    const size_t line = line_start(text, comment);
    const bool has_own_line = text.find_first_not_of(' ', line) == comment;
    if (name_end == end && has_own_line) {
      text.erase(line, next_line(text, end) - line);
    } else if (name_end == end) {
      const size_t code_end = text.find_last_not_of(' ', comment - 1) + 1;
      text.erase(code_end, end - code_end);
    } else if (text.compare(name_end, 2, ": ") == 0) {
      text.erase(name, name_end + 2 - name);
      if (has_own_line && is_plain_word(text, name))
        text[name] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[name])));
    }
  }
  return text;
}

void drop_labels(std::vector<SourceItem>& items, const CodeWords& words) {
  for (SourceItem& item : items) {
    item.comment = without_labels(std::move(item.comment), words);
    item.text = without_labels(std::move(item.text), words);
    drop_labels(item.members, words);
  }
}

}  // namespace

void drop_absent_labels(std::vector<SourceSection>& sections, std::string_view roots) {
  CodeWords words;
  add_words(roots, words);
  for (const SourceSection& section : sections) add_words(section.items, words);
  for (SourceSection& section : sections) drop_labels(section.items, words);
}

}  // namespace lssar
