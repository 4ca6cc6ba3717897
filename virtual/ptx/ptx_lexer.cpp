#include "virtual/ptx/ptx_lexer.h"

#include <bit>
#include <charconv>

namespace lssar::vdev {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool is_word_part(char c) { return is_word_start(c) || is_digit(c) || c == '.'; }

bool parse_hex(std::string_view digits, uint64_t& value) {
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, 16);
  return error == std::errc() && end == digits.end();
}

}  // namespace

void Lexer::finish(TokenKind kind, size_t begin) {
  token_ = {kind, text_.substr(begin, position_ - begin), line_};
}

void Lexer::skip_line(uint32_t line) {
  while (token_.kind != TokenKind::kEnd && token_.line <= line) advance();
}

// False: a comment does not end.
bool Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      const size_t end = text_.find('\n', position_);
      position_ = end == std::string_view::npos ? text_.size() : end;
    } else if (text_.substr(position_, 2) == "/*") {
      const size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) return false;
      for (size_t i = position_; i < end; ++i) line_ += text_[i] == '\n';
      position_ = end + 2;
    } else {
      return true;
    }
  }
  return true;
}

void Lexer::lex_word() {
  const size_t begin = position_;
  const bool directive = text_[begin] == '.';
  ++position_;
  while (position_ < text_.size()) {
    if (is_word_part(text_[position_])) {
      ++position_;
    } else if (text_.substr(position_, 2) == "::" && position_ + 2 < text_.size() &&
               is_word_part(text_[position_ + 2])) {
      position_ += 2;
    } else {
      break;
    }
  }
  finish(directive ? TokenKind::kDirective : TokenKind::kWord, begin);
}

void Lexer::lex_number() {
  const size_t begin = position_;
  const bool prefixed =
      text_[begin] == '0' && begin + 1 < text_.size() && !is_digit(text_[begin + 1]);
  while (position_ < text_.size()) {
    const char c = text_[position_];
    const bool sign = (c == '+' || c == '-') && !prefixed && position_ > begin &&
                      (text_[position_ - 1] == 'e' || text_[position_ - 1] == 'E');
    if (!sign && (!is_word_part(c) || c == '%' || c == '$')) break;
    ++position_;
  }
  finish(TokenKind::kNumber, begin);
}

void Lexer::lex_string() {
  const size_t begin = position_++;
  while (position_ < text_.size() && text_[position_] != '"' && text_[position_] != '\n') {
    position_ += text_[position_] == '\\' && position_ + 1 < text_.size() ? 2 : 1;
  }
  const bool closed = position_ < text_.size() && text_[position_] == '"';
  if (closed) ++position_;
  finish(closed ? TokenKind::kString : TokenKind::kBad, begin);
}

void Lexer::advance() {
  if (!skip_blanks()) {
    token_ = {TokenKind::kBad, text_.substr(position_, 2), line_};
    position_ = text_.size();
    return;
  }
  if (position_ >= text_.size()) {
    token_ = {TokenKind::kEnd, text_.substr(text_.size()), line_};
    return;
  }
  const char c = text_[position_];
  if (is_word_start(c) ||
      (c == '.' && position_ + 1 < text_.size() && is_word_start(text_[position_ + 1]))) {
    lex_word();
  } else if (is_digit(c)) {
    lex_number();
  } else if (c == '"') {
    lex_string();
  } else {
    const bool known = std::string_view("{}[]()<>,;:=+-*/!@|&~").find(c) != std::string_view::npos;
    const size_t begin = position_++;
    finish(known ? TokenKind::kPunctuation : TokenKind::kBad, begin);
  }
}

bool parse_integer(std::string_view text, uint64_t& value) {
  if (!text.empty() && (text.back() == 'U' || text.back() == 'u')) text.remove_suffix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char c = text[1];
    base = c == 'x' || c == 'X' ? 16 : c == 'b' || c == 'B' ? 2 : 8;
    text.remove_prefix(base == 8 ? 1 : 2);
  }
  if (text.empty()) return false;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value, base);
  return error == std::errc() && end == text.end();
}

bool parse_float(std::string_view text, uint64_t& bits, bool& is_single) {
  const std::string_view prefix = text.substr(0, 2);
  is_single = prefix == "0f" || prefix == "0F";
  if (is_single) return text.size() == 10 && parse_hex(text.substr(2), bits);
  if (prefix == "0d" || prefix == "0D") return text.size() == 18 && parse_hex(text.substr(2), bits);
  if (text.find_first_of(".eE") == std::string_view::npos) return false;
  double value = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  bits = std::bit_cast<uint64_t>(value);
  return error == std::errc() && end == text.end();
}

}  // namespace lssar::vdev
