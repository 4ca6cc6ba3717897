#include "score/parse.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/printable.h"
#include "score/names.h"

namespace lssar {

namespace {

struct NamedConstant {
  std::string_view name;
  double value;
};
constexpr NamedConstant kConstants[] = {{"pi", std::numbers::pi}, {"e", std::numbers::e}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// A recursive-descent parser. After an error every function returns nothing; error_ holds the
// first.
class Parser {
 public:
  Parser(std::string_view text, const std::vector<Variable>& variables)
      : text_(text), variables_(variables) {}

  Result<Expression> parse() {
    std::optional<Expression> e = sum();
    if (e && !at_end()) e = fail(at_, fmt::format("an operator expected, not {}", shown()));
    if (!e) return error_;
    return *e;
  }

 private:
  using Maybe = std::optional<Expression>;

  // The next character that is not a space, or 0 at the end.
  char next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool at_end() {
    next();
    return at_ == text_.size();
  }

  bool take(std::string_view token) {
    next();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  // The text at at_, for messages.
  std::string shown() {
    if (at_end()) return "the end";
    return "\"" + printable_field(text_.substr(at_, 1)) + "\"";
  }

  std::nullopt_t fail(size_t where, const std::string& message) {
    if (!error_.ok()) return std::nullopt;
    // Shows the text around the character, and a mark below it.
    constexpr size_t kAround = 30;
    const size_t begin = where > kAround ? where - kAround : 0;
    const std::string before = printable_field(text_.substr(begin, where - begin));
    const std::string after = printable_field(text_.substr(where, kAround));
    error_ = invalid_argument(fmt::format("character {}: {}\n  {}{}\n  {}^", where + 1, message,
                                          before, after, std::string(before.size(), ' ')));
    return std::nullopt;
  }

  // Counts a number, variable or operation at `where`. Refuses a constant that is not finite.
  Maybe checked(size_t where, Expression e) {
    if (++num_terms_ > kMaxExpressionTerms)
      return fail(where, fmt::format("more than {} numbers, variables and operations",
                                     kMaxExpressionTerms));
    if (e.is_constant() && !std::isfinite(e.constant()))
      return fail(where, "this has no finite value");
    return e;
  }

  Maybe sum() {
    Maybe e = product();
    while (e && (next() == '+' || next() == '-')) {
      const size_t where = at_;
      const char sign = text_[at_++];
      const Maybe right = product();
      if (!right) return right;
      e = checked(where, sign == '+' ? *e + *right : *e - *right);
    }
    return e;
  }

  Maybe product() {
    Maybe e = signed_factor();
    while (e && (next() == '*' || next() == '/')) {
      const size_t where = at_;
      const char sign = text_[at_++];
      if (sign == '*' && next() == '*') return fail(where, "a power is written a ^ b");
      const Maybe right = signed_factor();
      if (!right) return right;
      if (sign == '/' && right->is_constant(0)) return fail(where, "division by 0");
      e = checked(where, sign == '*' ? *e * *right : *e / *right);
    }
    return e;
  }

  Maybe signed_factor() {
    const DepthGuard guard(*this);
    if (depth_ > kMaxExpressionDepth)
      return fail(at_, fmt::format("nested deeper than {}", kMaxExpressionDepth));
    if (next() == '+') {
      ++at_;
      return signed_factor();
    }
    if (next() == '-') {
      const size_t where = at_++;
      const Maybe e = signed_factor();
      return e ? checked(where, -*e) : e;
    }
    return power();
  }

  Maybe power() {
    const Maybe base = atom();
    if (!base || next() != '^') return base;
    const size_t where = at_++;
    const Maybe exponent = signed_factor();
    return exponent ? checked(where, pow(*base, *exponent)) : exponent;
  }

  Maybe atom() {
    const char c = next();
    if (is_digit(c) || c == '.') return number();
    if (is_letter(c)) return name();
    if (c != '(') return fail(at_, fmt::format("a value expected, not {}", shown()));
    const size_t opened = at_++;
    const Maybe e = sum();
    if (!e || take(")")) return e;
    return fail(at_, fmt::format("\")\" expected, not {}: the bracket was opened at character {}",
                                 shown(), opened + 1));
  }

  Maybe number() {
    const size_t where = at_;
    double value = 0;
    const auto [end, status] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc()) return fail(where, "not a number that a double holds");
    at_ = end - text_.data();
    return checked(where, value);
  }

  Maybe name() {
    const size_t where = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(where, at_ - where);
    if (next() == '(') return call(where, name);
    for (const Variable variable : variables_)
      if (name == variable_name(variable)) return checked(where, variable);
    for (const NamedConstant& constant : kConstants)
      if (name == constant.name) return checked(where, constant.value);
    if (find_function(name) != nullptr || name == "where")
      return fail(at_, fmt::format("\"(\" expected after {}", name));
    return fail(where, fmt::format("\"{}\" is not known: allowed are {}pi, e, and the functions {}",
                                   shown_name(name), variable_names(), all_function_names()));
  }

  std::string variable_names() const {
    std::string names;
    for (const Variable variable : variables_) names += std::string(variable_name(variable)) + ", ";
    return names;
  }

  Maybe call(size_t where, std::string_view name) {
    const NamedFunction* function = find_function(name);
    if (function == nullptr && name != "where")
      return fail(where, fmt::format("no function is called \"{}\": allowed are {}",
                                     shown_name(name), all_function_names()));
    ++at_;  // the closing bracket
    if (function == nullptr) return where_call(where);
    std::vector<Expression> operands;
    while (operands.size() < function->num_operands) {
      if (!operands.empty() && !comma(name, function->num_operands)) return std::nullopt;
      const Maybe operand = sum();
      if (!operand) return operand;
      operands.push_back(*operand);
    }
    if (!closes(name, function->num_operands)) return std::nullopt;
    return checked(where, function->make(operands.data()));
  }

  bool comma(std::string_view name, size_t num_operands) {
    if (take(",")) return true;
    fail(at_,
         fmt::format("\",\" expected, not {}: {} has {} operands", shown(), name, num_operands));
    return false;
  }

  bool closes(std::string_view name, size_t num_operands) {
    if (take(")")) return true;
    fail(at_, fmt::format("\")\" expected, not {}: {} has {} operand{}", shown(), name,
                          num_operands, num_operands == 1 ? "" : "s"));
    return false;
  }

  Maybe where_call(size_t where_at) {
    const Maybe left = sum();
    if (!left) return left;
    const std::optional<std::string_view> sign = comparison_sign();
    if (!sign)
      return fail(at_,
                  fmt::format("a comparison (<, <=, >, >=, ==, !=) expected, not {}", shown()));
    const Maybe right = sum();
    if (!right || !comma("where", 3)) return std::nullopt;
    const Maybe value = sum();
    if (!value || !comma("where", 3)) return std::nullopt;
    const Maybe other = sum();
    if (!other || !closes("where", 3)) return std::nullopt;
    return checked(where_at, compared(*sign, *left, *right, *value, *other));
  }

  std::optional<std::string_view> comparison_sign() {
    for (const std::string_view sign : {"<=", ">=", "==", "!=", "<", ">"})
      if (take(sign)) return sign;
    return std::nullopt;
  }

  static Expression compared(std::string_view sign, const Expression& a, const Expression& b,
                             const Expression& value, const Expression& other) {
    if (sign == "<") return where(Comparison::kLess, a, b, value, other);
    if (sign == "<=") return where(Comparison::kLessEqual, a, b, value, other);
    if (sign == ">") return where(Comparison::kLess, b, a, value, other);
    if (sign == ">=") return where(Comparison::kLessEqual, b, a, value, other);
    if (sign == "==") return where(Comparison::kEqual, a, b, value, other);
    return where(Comparison::kEqual, a, b, other, value);
  }

  struct DepthGuard {
    explicit DepthGuard(Parser& of) : parser(of) { ++parser.depth_; }
    ~DepthGuard() { --parser.depth_; }
    Parser& parser;
  };

  std::string_view text_;
  const std::vector<Variable>& variables_;
  size_t at_ = 0;
  int num_terms_ = 0;
  int depth_ = 0;
  Status error_;
};

}  // namespace

Result<Expression> parse_expression(std::string_view text, const std::vector<Variable>& variables) {
  return Parser(text, variables).parse();
}

}  // namespace lssar
