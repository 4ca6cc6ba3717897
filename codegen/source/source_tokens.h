// The tokens of device source, in the detail that codegen/source needs: words, numbers, strings,
// punctuation. Comments and preprocessor lines are tokens too. Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace lssar {

inline constexpr size_t npos = std::string_view::npos;
inline constexpr size_t kLineWidth = 100;  // of emitted sources

enum class TokenKind { kWord, kNumber, kString, kPunctuation, kComment, kDirective };

struct Token {
  TokenKind kind;
  std::string_view text;  // part of the tokenized text
  size_t begin;           // offset in it
  size_t end;

  // `other` is not empty. memcmp of a literal's size needs no call.
  bool is(std::string_view other) const {
    return text[0] == other[0] && text.size() == other.size() &&
           std::memcmp(text.data(), other.data(), other.size()) == 0;
  }
  bool is_word() const { return kind == TokenKind::kWord; }
};

inline bool is_one_of(const Token& token, std::initializer_list<std::string_view> texts) {
  return std::any_of(texts.begin(), texts.end(), [&](auto text) { return token.is(text); });
}
// Whether it is a comment or a directive.
inline bool is_trivia(const Token& token) {
  return token.kind == TokenKind::kComment || token.kind == TokenKind::kDirective;
}

// Whether it may stand in a word: a letter, a digit or _.
bool is_word_char(char c);

// The position at which the line of `at` begins.
size_t line_start(std::string_view text, size_t at);
// The position after its newline.
size_t next_line(std::string_view text, size_t at);

// `text` must outlive the tokens. A directive reaches to the end of its last line. NOTE: ">>" is
// two tokens, because it often closes two template argument lists.
std::vector<Token> tokenize(std::string_view text);
// The same without comments and directives.
std::vector<Token> code_tokens(std::string_view text);

// The token that closes tokens[open], which is one of ( [ {; tokens.size() if there is none.
size_t closing(const std::vector<Token>& tokens, size_t open);

}  // namespace lssar
