#include "codegen/source/source_tokens.h"

#include <algorithm>

namespace lssar {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

size_t end_of_comment(std::string_view text, size_t at) {
  const bool is_line = text[at + 1] == '/';
  const size_t end = is_line ? text.find('\n', at) : text.find("*/", at + 2);
  if (end == text.npos) return text.size();
  return is_line ? end : end + 2;
}

size_t end_of_directive(std::string_view text, size_t at) {
  size_t end = text.find('\n', at);
  while (end != text.npos && text[end - 1] == '\\') end = text.find('\n', end + 1);
  return std::min(end, text.size());
}

size_t end_of_string(std::string_view text, size_t at) {
  const char quote = text[at];
  size_t end = at + 1;
  while (end < text.size() && text[end] != quote) end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

// Handles words and numbers alike. A number may contain a point, and a sign after its exponent's
// letter.
size_t end_of_word(std::string_view text, size_t at, bool is_number) {
  size_t end = at;
  while (end < text.size()) {
    const bool is_sign = is_number && (text[end] == '-' || text[end] == '+') &&
                         (text[end - 1] == 'e' || text[end - 1] == 'E') &&
                         !text.substr(at).starts_with("0x");
    if (!is_word_char(text[end]) && !(is_number && text[end] == '.') && !is_sign) break;
    ++end;
  }
  return end;
}

size_t punctuation_size(std::string_view rest) {
  constexpr std::string_view kAlone = "(){}[];,?~";
  if (rest.size() < 2 || kAlone.find(rest[0]) != kAlone.npos) return 1;
  constexpr std::string_view kSecond = ":>&|=+-.<";
  if (kSecond.find(rest[1]) == kSecond.npos) return 1;
  for (std::string_view three : {"...", "<<="})
    if (rest.starts_with(three)) return 3;
  for (std::string_view two : {"::", "->", "&&", "||", "==", "!=", "<=", ">=", "++", "--",
                               "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<"})
    if (rest.starts_with(two)) return 2;
  return 1;
}

}  // namespace

std::vector<Token> tokenize(std::string_view text) {
  std::vector<Token> tokens;
  tokens.reserve(text.size() / 4);
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == ' ' || c == '\n') {
      ++at;
      continue;
    }
    TokenKind kind = TokenKind::kPunctuation;
    size_t end = 0;
    const bool has_next = at + 1 < text.size();
    if (c == '/' && has_next && (text[at + 1] == '/' || text[at + 1] == '*')) {
      kind = TokenKind::kComment;
      end = end_of_comment(text, at);
    } else if (c == '#') {
      kind = TokenKind::kDirective;
      end = end_of_directive(text, at);
    } else if (c == '"' || c == '\'') {
      kind = TokenKind::kString;
      end = end_of_string(text, at);
    } else if (is_digit(c)) {
      kind = TokenKind::kNumber;
      end = end_of_word(text, at, true);
    } else if (is_word_char(c)) {
      kind = TokenKind::kWord;
      end = end_of_word(text, at, false);
    } else {
      end = at + punctuation_size(text.substr(at));
    }
    tokens.push_back({kind, text.substr(at, end - at), at, end});
    at = end;
  }
  return tokens;
}

std::vector<Token> code_tokens(std::string_view text) {
  std::vector<Token> tokens = tokenize(text);
  std::erase_if(tokens, is_trivia);
  return tokens;
}

size_t closing(const std::vector<Token>& tokens, size_t open) {
  int depth = 0;
  for (size_t i = open; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i].text;
    if (text == "(" || text == "[" || text == "{") ++depth;
    if ((text == ")" || text == "]" || text == "}") && --depth == 0) return i;
  }
  return tokens.size();
}

}  // namespace lssar
