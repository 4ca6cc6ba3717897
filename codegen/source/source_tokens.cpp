#include "codegen/source/source_tokens.h"

#include <algorithm>
#include <array>

namespace lssar {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::array<bool, 256> word_chars() {
  std::array<bool, 256> is_word = {};
  for (char c = '0'; c <= '9'; ++c) is_word[static_cast<size_t>(c)] = true;
  for (char c = 'a'; c <= 'z'; ++c) is_word[static_cast<size_t>(c)] = true;
  for (char c = 'A'; c <= 'Z'; ++c) is_word[static_cast<size_t>(c)] = true;
  is_word['_'] = true;
  return is_word;
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

size_t end_of_word(std::string_view text, size_t at) {
  while (at < text.size() && is_word_char(text[at])) ++at;
  return at;
}

// A number may contain a point, and a sign after its exponent's letter.
size_t end_of_number(std::string_view text, size_t at) {
  const bool is_hexadecimal = text.substr(at).starts_with("0x");
  size_t end = at;
  for (; end < text.size(); ++end) {
    const char c = text[end];
    if (is_word_char(c) || c == '.') continue;
    const bool is_sign =
        (c == '-' || c == '+') && !is_hexadecimal && (text[end - 1] == 'e' || text[end - 1] == 'E');
    if (!is_sign) break;
  }
  return end;
}

size_t punctuation_size(std::string_view rest) {
  if (rest.size() < 2) return 1;
  const char second = rest[1];
  switch (rest[0]) {
    case '.':
      return rest.starts_with("...") ? 3 : 1;
    case '<':
      if (second == '<') return rest.starts_with("<<=") ? 3 : 2;
      return second == '=' ? 2 : 1;
    case ':':
      return second == ':' ? 2 : 1;
    case '-':
      return second == '>' || second == '-' || second == '=' ? 2 : 1;
    case '&':
    case '|':
    case '+':
      return second == rest[0] || second == '=' ? 2 : 1;
    case '=':
    case '!':
    case '>':
    case '*':
    case '/':
    case '%':
    case '^':
      return second == '=' ? 2 : 1;
    default:
      return 1;
  }
}

// With `trivia` also comments and directives.
std::vector<Token> cut_tokens(std::string_view text, bool trivia) {
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
    if (is_digit(c)) {
      kind = TokenKind::kNumber;
      end = end_of_number(text, at);
    } else if (is_word_char(c)) {
      kind = TokenKind::kWord;
      end = end_of_word(text, at);
    } else if (c == '/' && has_next && (text[at + 1] == '/' || text[at + 1] == '*')) {
      kind = TokenKind::kComment;
      end = end_of_comment(text, at);
    } else if (c == '#') {
      kind = TokenKind::kDirective;
      end = end_of_directive(text, at);
    } else if (c == '"' || c == '\'') {
      kind = TokenKind::kString;
      end = end_of_string(text, at);
    } else {
      end = at + punctuation_size(text.substr(at));
    }
    const Token token = {kind, text.substr(at, end - at), at, end};
    if (trivia || !is_trivia(token)) tokens.push_back(token);
    at = end;
  }
  return tokens;
}

}  // namespace

// A table, because an emission asks this a few million times.
bool is_word_char(char c) {
  static constexpr std::array<bool, 256> kIsWord = word_chars();
  return kIsWord[static_cast<unsigned char>(c)];
}

size_t line_start(std::string_view text, size_t at) {
  const size_t newline = at == 0 ? npos : text.rfind('\n', at - 1);
  return newline == npos ? 0 : newline + 1;
}

size_t next_line(std::string_view text, size_t at) {
  const size_t newline = text.find('\n', at);
  return newline == npos ? text.size() : newline + 1;
}

std::vector<Token> tokenize(std::string_view text) { return cut_tokens(text, true); }

std::vector<Token> code_tokens(std::string_view text) { return cut_tokens(text, false); }

size_t closing(const std::vector<Token>& tokens, size_t open) {
  int depth = 0;
  for (size_t i = open; i < tokens.size(); ++i) {
    if (tokens[i].kind != TokenKind::kPunctuation) continue;
    const char c = tokens[i].text[0];  // no longer token begins with a bracket
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && --depth == 0) return i;
  }
  return tokens.size();
}

}  // namespace lssar
