#include "codegen/source/constant_value.h"

#include <cctype>
#include <cstdlib>
#include <vector>

namespace lssar {
namespace {

using Tokens = std::span<const Token>;
using Value = std::optional<int64_t>;

int depth_change(const Token& token) {
  if (token.is("(") || token.is("[") || token.is("{")) return 1;
  return token.is(")") || token.is("]") || token.is("}") ? -1 : 0;
}

// The first `op` outside of brackets, or all.size() if there is none.
size_t find_operator(Tokens all, std::string_view op) {
  int depth = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    depth += depth_change(all[i]);
    if (depth == 0 && all[i].is(op)) return i;
  }
  return all.size();
}

// Evaluates operators that bind more tightly than && by precedence. Any other word fails.
class Arithmetic {
 public:
  Arithmetic(Tokens tokens, const SourceConstants& constants)
      : tokens_(tokens), constants_(constants) {}

  Value whole() {
    const Value value = binary(0);
    return at_ == tokens_.size() ? value : std::nullopt;
  }

 private:
  static int precedence(const Token& token) {
    if (token.is("==") || token.is("!=")) return 1;
    if (token.is("<") || token.is(">") || token.is("<=") || token.is(">=")) return 2;
    if (token.is("+") || token.is("-")) return 3;
    return token.is("*") || token.is("/") || token.is("%") ? 4 : 0;
  }

  static Value apply(std::string_view op, int64_t a, int64_t b) {
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "<") return a < b;
    if (op == ">") return a > b;
    if (op == "<=") return a <= b;
    if (op == ">=") return a >= b;
    if (op == "+") return a + b;
    if (op == "-") return a - b;
    if (op == "*") return a * b;
    if (b == 0) return std::nullopt;
    return op == "/" ? a / b : a % b;
  }

  Value binary(int least) {
    Value left = unary();
    while (left && at_ < tokens_.size()) {
      const int level = precedence(tokens_[at_]);
      if (level <= least) break;
      const std::string_view op = tokens_[at_++].text;
      const Value right = binary(level);
      if (!right) return {};
      left = apply(op, *left, *right);
    }
    return left;
  }

  Value unary() {
    if (at_ == tokens_.size()) return {};
    if (tokens_[at_].is("!")) {
      ++at_;
      const Value value = unary();
      return value ? Value(*value == 0) : value;
    }
    if (tokens_[at_].is("-")) {
      ++at_;
      const Value value = unary();
      return value ? Value(-*value) : value;
    }
    return primary();
  }

  Value primary() {
    const Token& token = tokens_[at_];
    if (token.is("(")) return bracketed();
    if (token.kind == TokenKind::kNumber) return literal();
    if (!token.is_word()) return {};
    // i64{1}: the value itself.
    if (token.is("i64") && at_ + 1 < tokens_.size() && tokens_[at_ + 1].is("{")) {
      ++at_;
      return bracketed();
    }
    return name();
  }

  Value bracketed() {
    int depth = 0;
    for (size_t end = at_; end < tokens_.size(); ++end) {
      depth += depth_change(tokens_[end]);
      if (depth != 0) continue;
      const Value value = constant_value(tokens_.subspan(at_ + 1, end - at_ - 1), constants_);
      at_ = end + 1;
      return value;
    }
    return {};
  }

  Value literal() {
    const std::string text(tokens_[at_++].text);
    if (text.find_first_of(".'") != text.npos) return {};
    char* end = nullptr;
    const int64_t value = std::strtoll(text.c_str(), &end, 0);
    return *end == '\0' || (*end == 'u' && end[1] == '\0') ? Value(value) : std::nullopt;
  }

  Value name() {
    std::string full(tokens_[at_].text);
    std::string_view last = tokens_[at_].text;
    while (at_ + 2 < tokens_.size() && tokens_[at_ + 1].is("::") && tokens_[at_ + 2].is_word()) {
      at_ += 2;
      last = tokens_[at_].text;
      full += "::";
      full += last;
    }
    ++at_;
    bool is_member = false;
    for (; at_ + 1 < tokens_.size() && tokens_[at_].is("."); at_ += 2) {  // rows.is_packed()
      last = tokens_[at_ + 1].text;
      is_member = true;
    }
    if (at_ + 1 < tokens_.size() && tokens_[at_].is("(") && tokens_[at_ + 1].is(")")) {
      at_ += 2;
      return value_in(constants_.calls, last);
    }
    if (is_member) return {};
    if (full == "true" || full == "false") return full == "true";
    if (const Value value = value_in(constants_.qualified, full)) return value;
    if (full.starts_with("Config::")) return {};
    return value_in(constants_.derived, last);
  }

  static Value value_in(const std::map<std::string, int64_t, std::less<>>& values,
                        std::string_view name) {
    const auto found = values.find(name);
    return found == values.end() ? Value() : Value(found->second);
  }

  Tokens tokens_;
  const SourceConstants& constants_;
  size_t at_ = 0;
};

// `a op b op ...`, where a 0 decides && and any other value decides ||.
Value logical(Tokens all, std::string_view op, const SourceConstants& constants) {
  const bool deciding = op == "||";
  bool all_known = true;
  while (true) {
    const size_t end = find_operator(all, op);
    const Value value = constant_value(all.first(end), constants);
    if (value && (*value != 0) == deciding) return deciding;
    all_known = all_known && value;
    if (end == all.size()) break;
    all = all.subspan(end + 1);
  }
  return all_known ? Value(!deciding) : std::nullopt;
}

}  // namespace

Value constant_value(Tokens expression, const SourceConstants& constants) {
  if (const size_t question = find_operator(expression, "?"); question < expression.size()) {
    const Value condition = constant_value(expression.first(question), constants);
    if (!condition) return {};
    const Tokens rest = expression.subspan(question + 1);
    int nested = 0;
    int depth = 0;
    for (size_t i = 0; i < rest.size(); ++i) {
      depth += depth_change(rest[i]);
      if (depth != 0) continue;
      if (rest[i].is("?")) ++nested;
      if (!rest[i].is(":") || nested-- > 0) continue;
      return constant_value(*condition ? rest.first(i) : rest.subspan(i + 1), constants);
    }
    return {};
  }
  for (std::string_view op : {"||", "&&"})
    if (find_operator(expression, op) < expression.size())
      return logical(expression, op, constants);
  return Arithmetic(expression, constants).whole();
}

}  // namespace lssar
