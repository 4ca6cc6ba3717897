// The tokens of device source, as far as codegen/constant_branches and codegen/source_items look at
// them: words, numbers, strings, punctuation. Comments and preprocessor lines are tokens too.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace lssar {

enum class TokenKind { kWord, kNumber, kString, kPunctuation, kComment, kDirective };

struct Token {
  TokenKind kind;
  std::string_view text;  // of the text that was cut
  size_t begin;           // bytes in it
  size_t end;

  bool is(std::string_view other) const { return text[0] == other[0] && text == other; }
  bool is_word() const { return kind == TokenKind::kWord; }
};

// `text` has to outlive them. A directive goes to the end of its last line. NOTE: ">>" is two
// tokens, since it closes two template argument lists as often as not.
std::vector<Token> tokenize(std::string_view text);
// The same without comments and directives.
std::vector<Token> code_tokens(std::string_view text);

// The token that closes what tokens[open], one of ( [ {, opens; tokens.size() where none does.
size_t closing(const std::vector<Token>& tokens, size_t open);

}  // namespace lssar
