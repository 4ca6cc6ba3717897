// Splits PTX text into tokens without copying. Used by the parser alone; one lexer per thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace lssar::vdev {

enum class TokenKind : uint8_t {
  kEnd,
  kWord,       // opcode, label, register or symbol: foo, %r1, $L__BB0_2, ld.param.u64, %tid.x
  kDirective,  // begins with a dot: .reg
  kNumber,     // as written: 42, 0x1f, 0f3F800000, 1.5
  kString,     // with its quotes
  kPunctuation,
  kBad,  // a character that PTX does not have, or an unterminated string or comment
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  uint32_t line = 1;

  bool is(char c) const { return kind == TokenKind::kPunctuation && text[0] == c; }
  bool is(std::string_view s) const { return text == s; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return token_; }
  Token next() {
    Token token = token_;
    advance();
    return token;
  }
  // Goes on at the line after `line`.
  void skip_line(uint32_t line);
  // Byte offset of the token that peek() shows.
  size_t offset() const { return static_cast<size_t>(token_.text.data() - text_.data()); }

 private:
  void advance();
  bool skip_blanks();
  void lex_word();
  void lex_number();
  void lex_string();
  void finish(TokenKind kind, size_t begin);

  std::string_view text_;
  size_t position_ = 0;
  uint32_t line_ = 1;
  Token token_;
};

// An integer as PTX writes it: decimal, 0x, 0b or 0 (octal), with an optional U. False: the text is
// no integer or does not fit 64 bits.
bool parse_integer(std::string_view text, uint64_t& value);

// 0f + 8 hex digits (float bits), 0d + 16 hex digits (double bits), or a decimal with a point or an
// exponent. `is_single`: `bits` holds float bits, not double bits.
bool parse_float(std::string_view text, uint64_t& bits, bool& is_single);

}  // namespace lssar::vdev
