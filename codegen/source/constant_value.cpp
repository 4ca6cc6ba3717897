#include "codegen/source/constant_value.h"

#include <cctype>
#include <cstdlib>
#include <vector>

namespace lssar {
namespace {

using TokenSpan = std::span<const Token>;
using Value = std::optional<int64_t>;

int depth_change(const Token& token) {
  if (token.is("(") || token.is("[") || token.is("{")) return 1;
  return token.is(")") || token.is("]") || token.is("}") ? -1 : 0;
}

// The first `op` outside of brackets, or all.size() if there is none.
size_t find_operator(TokenSpan all, std::string_view op) {
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
  Arithmetic(TokenSpan tokens, const SourceConstants& constants)
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
    if (token.is("sizeof")) return size();
    if (token.is("static_cast")) return cast();
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

  // sizeof(T)
  Value size() {
    if (at_ + 3 >= tokens_.size() || !tokens_[at_ + 1].is("(")) return {};
    std::string type;
    size_t close = at_ + 2;
    for (; close < tokens_.size() && !tokens_[close].is(")"); ++close) type += tokens_[close].text;
    at_ = close + 1;
    const std::string name = type_named(type, constants_);
    if (name == "Bf16" || name == "Fp16") return 2;
    return name == "float" ? Value(4) : std::nullopt;
  }

  // static_cast<int>(...), if the operand fits in an int.
  Value cast() {
    if (at_ + 4 >= tokens_.size() || !tokens_[at_ + 2].is("int") || !tokens_[at_ + 4].is("("))
      return {};
    at_ += 4;
    return bracketed();
  }

  // SwizzledTile<Element, 64, 128>::kBytes, from the < on.
  Value template_constant(std::string_view name) {
    const auto found = constants_.templates.find(name);
    if (found == constants_.templates.end()) return {};
    const ConstantTemplate& source = found->second;
    SourceConstants inner = constants_;
    size_t first = at_ + 1, close = at_, number = 0;
    for (int depth = 0; close < tokens_.size(); ++close) {
      if (tokens_[close].is("<") || tokens_[close].is("(")) ++depth;
      if (tokens_[close].is(")")) --depth;
      const bool ends = tokens_[close].is(">") && --depth == 0;
      if (!ends && !(depth == 1 && tokens_[close].is(","))) continue;
      if (number == source.parameters.size() || close == first) return {};
      bind(source.parameters[number++], tokens_.subspan(first, close - first), inner);
      first = close + 1;
      if (ends) break;
    }
    if (close + 2 >= tokens_.size() || !tokens_[close + 1].is("::")) return {};
    const std::string_view wanted = tokens_[close + 2].text;
    at_ = close + 3;
    for (const auto& [constant, text] : source.constants) {
      const std::vector<Token> expression = code_tokens(text);
      const Value value = constant_value(expression, inner);
      if (constant == wanted) return value;
      inner.derived.erase(constant);
      if (value) inner.qualified[constant] = *value;
    }
    return {};
  }

  void bind(const std::string& parameter, TokenSpan argument, SourceConstants& inner) const {
    inner.derived.erase(parameter);
    inner.qualified.erase(parameter);
    if (const Value value = constant_value(argument, constants_)) {
      inner.qualified[parameter] = *value;
      return;
    }
    std::string type;
    for (const Token& token : argument)
      if (!token.is("typename") && !token.is("const")) type += token.text;
    inner.aliases[parameter] = type_named(type, constants_);
  }

  Value name() {
    if (at_ + 1 < tokens_.size() && tokens_[at_ + 1].is("<") &&
        constants_.templates.contains(tokens_[at_].text)) {
      const std::string_view name = tokens_[at_++].text;
      return template_constant(name);
    }
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
    if (const Value value = alias_constant(full)) return value;
    return value_in(constants_.derived, last);
  }

  // KeyTile::kBytes
  Value alias_constant(std::string_view full) const {
    const size_t colons = full.rfind("::");
    if (colons == full.npos) return {};
    std::string_view owner = full.substr(0, colons);
    if (const size_t outer = owner.rfind("::"); outer != owner.npos) owner.remove_prefix(outer + 2);
    const std::string type = type_named(owner, constants_);
    if (type.find('<') == type.npos)
      return value_in(constants_.qualified, type + std::string(full.substr(colons)));
    const std::string text = type + std::string(full.substr(colons));
    const std::vector<Token> expression = code_tokens(text);
    return constant_value(expression, constants_);
  }

  static Value value_in(const std::map<std::string, int64_t, std::less<>>& values,
                        std::string_view name) {
    const auto found = values.find(name);
    return found == values.end() ? Value() : Value(found->second);
  }

  TokenSpan tokens_;
  const SourceConstants& constants_;
  size_t at_ = 0;
};

// `a op b op ...`, where a 0 decides && and any other value decides ||.
Value logical(TokenSpan all, std::string_view op, const SourceConstants& constants) {
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

std::string type_named(std::string_view name, const SourceConstants& constants) {
  std::string type(name);
  for (int i = 0; i < 8; ++i) {
    auto found = constants.aliases.find(type);
    if (found == constants.aliases.end() && type.find('<') == type.npos) {
      const size_t colons = type.rfind("::");
      if (colons != type.npos && !type.starts_with("Config::")) {
        const std::string_view last = std::string_view(type).substr(colons + 2);
        if (!constants.member_types.contains(last)) found = constants.aliases.find(last);
      }
    }
    if (found == constants.aliases.end()) break;
    type = found->second;
  }
  return type;
}

Value constant_value(TokenSpan expression, const SourceConstants& constants) {
  if (const size_t question = find_operator(expression, "?"); question < expression.size()) {
    const Value condition = constant_value(expression.first(question), constants);
    if (!condition) return {};
    const TokenSpan rest = expression.subspan(question + 1);
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
