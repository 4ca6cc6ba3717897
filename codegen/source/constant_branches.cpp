#include "codegen/source/constant_branches.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "codegen/source/argument_lists.h"

namespace lssar {
namespace {

using Tokens = std::vector<Token>;

bool is_blank(std::string_view text) { return text.find_first_not_of(" \n") == npos; }

// The index after the statement's last token.
size_t statement_end(const Tokens& t, size_t at) {
  if (at >= t.size()) return at;
  if (t[at].is("{")) return closing(t, at) + 1;
  if (t[at].is("LSSAR_UNROLL")) return statement_end(t, at + 1);
  if (is_one_of(t[at], {"if", "for", "while"})) {
    size_t open = at + 1;
    if (open < t.size() && t[open].is("constexpr")) ++open;
    const size_t body = closing(t, open) + 1;
    const size_t end = statement_end(t, body);
    const bool has_else = t[at].is("if") && end < t.size() && t[end].is("else");
    return has_else ? statement_end(t, end + 1) : end;
  }
  while (at < t.size() && !t[at].is(";"))
    at = is_one_of(t[at], {"(", "[", "{"}) ? closing(t, at) + 1 : at + 1;
  return std::min(at + 1, t.size());
}

// Moves lines after the first by `distance` to the left. Lines with less indent (directives) stay.
std::string moved_left(const std::string& text, size_t distance, bool with_first) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = next_line(text, at);
    const bool moves = (at > 0 || with_first) && text.find_first_not_of(' ', at) >= at + distance;
    result.append(text, at + (moves ? distance : 0), end - at - (moves ? distance : 0));
    at = end;
  }
  return result;
}

// The parts of an `if` statement, as token indices.
struct Branch {
  size_t at;          // `if`
  size_t then_begin;  // statements: [begin, end)
  size_t then_end;
  size_t else_begin = 0;  // 0: there is no else
  size_t end;

  Branch(const Tokens& t, size_t i) : at(i) {
    const size_t open = t[i + 1].is("constexpr") ? i + 2 : i + 1;
    then_begin = closing(t, open) + 1;
    then_end = end = statement_end(t, then_begin);
    if (end < t.size() && t[end].is("else")) {
      else_begin = end + 1;
      end = statement_end(t, else_begin);
    }
  }
};

// The names that the statements of a block declare themselves. It may also return other words.
std::set<std::string_view> declared_names(const Tokens& t, size_t begin, size_t end) {
  std::set<std::string_view> names;
  for (size_t at = begin; at < end; at = statement_end(t, at)) {
    if (is_one_of(t[at], {"return", "if", "for", "while", "LSSAR_UNROLL", "{"})) continue;
    const size_t stop = statement_end(t, at);
    for (size_t i = at + 1; i + 1 < stop; ++i) {
      if (is_one_of(t[i], {"(", "[", "{"})) i = closing(t, i);
      if (i + 1 >= stop) break;
      const bool may_end_type = t[i - 1].is_word() || is_one_of(t[i - 1], {">", "&", "*", ","});
      if (t[i].is_word() && may_end_type && is_one_of(t[i + 1], {"=", ";", "[", "{", "(", ","}))
        names.insert(t[i].text);
    }
  }
  return names;
}

// Whether the statements of the block that takes the place of `branch` may move into the
// surrounding one: they must not declare a name that the rest of the function uses.
bool may_unwrap(const Tokens& t, const Branch& branch, size_t open, size_t close) {
  const auto names = declared_names(t, open + 1, close);
  for (size_t i = 0; i < t.size(); ++i) {
    const bool is_rest = i < branch.at || i >= branch.end;
    if (is_rest && t[i].is_word() && names.contains(t[i].text)) return false;
  }
  return true;
}

bool ends_in_return(const Tokens& t, size_t begin, size_t end) {
  bool is_return = false;
  for (size_t at = begin; at < end; at = statement_end(t, at)) is_return = t[at].is("return");
  return is_return;
}

class Resolver {
 public:
  Resolver(std::string text, const SourceConstants& constants)
      : text_(std::move(text)), constants_(constants) {}

  std::string run() {
    tokens_ = code_tokens(text_);
    while (resolve_if() || resolve_choice() || resolve_type() || shorten_condition() ||
           resolve_local() || drop_unused())
      tokens_ = code_tokens(text_);
    return std::move(text_);
  }

 private:
  std::optional<int64_t> value(size_t begin, size_t end) const {
    return constant_value(std::span(tokens_).subspan(begin, end - begin), constants_);
  }

  std::string text_of(size_t begin, size_t end) const {
    return text_.substr(tokens_[begin].begin, tokens_[end - 1].end - tokens_[begin].begin);
  }

  bool resolve_if() {
    for (size_t i = 0; i + 2 < tokens_.size(); ++i) {
      if (!tokens_[i].is("if")) continue;
      const size_t open = tokens_[i + 1].is("constexpr") ? i + 2 : i + 1;
      const auto condition = value(open + 1, closing(tokens_, open));
      if (condition && replace(Branch(tokens_, i), *condition != 0)) return true;
    }
    return false;
  }

  bool replace(const Branch& branch, bool is_then) {
    const size_t begin = is_then ? branch.then_begin : branch.else_begin;
    const size_t end = is_then ? branch.then_end : branch.end;
    const Token* before = branch.at == 0 ? nullptr : &tokens_[branch.at - 1];
    if (before == nullptr) return false;
    if (begin == 0 && before->is("else")) {  // the last one of a chain, and it does nothing
      text_.erase(tokens_[branch.at - 2].end,
                  tokens_[branch.end - 1].end - tokens_[branch.at - 2].end);
      return true;
    }
    if (is_one_of(*before, {"{", "}", ";"})) {
      replace_in_block(branch, begin, end);
      return true;
    }
    if (begin == 0) return false;  // it is the body of a loop
    replace_text(tokens_[branch.at].begin, tokens_[branch.end - 1].end, text_of(begin, end));
    return true;
  }

  void replace_text(size_t begin, size_t end, const std::string& with) {
    text_.replace(begin, end - begin, with);
  }

  // Includes comments on lines of their own right above.
  size_t with_comments_above(size_t line) const {
    while (line > 0) {
      const size_t above = line_start(text_, line - 1);
      const size_t first = text_.find_first_not_of(' ', above);
      if (text_.compare(first, 2, "//") != 0) break;
      line = above;
    }
    return line;
  }

  void replace_in_block(const Branch& branch, size_t begin, size_t end) {
    const size_t start = line_start(text_, tokens_[branch.at].begin);
    const size_t stop = next_line(text_, tokens_[branch.end - 1].end);
    if (begin == 0) {
      const size_t from = with_comments_above(start);
      text_.erase(from, stop - from);
      return;
    }
    const size_t indent = tokens_[branch.at].begin - start;
    const std::string margin(indent, ' ');
    const bool is_block = tokens_[begin].is("{");
    std::string chosen;
    bool leaves = false;
    if (!is_block) {
      chosen = single_statement(begin, end, indent);
      leaves = tokens_[begin].is("return");
    } else {
      const std::string lines = block_lines(begin, end - 1);
      if (may_unwrap(tokens_, branch, begin, end - 1)) {
        chosen = moved_left(lines, 2, true);
        leaves = ends_in_return(tokens_, begin + 1, end - 1);
      } else {
        chosen = margin + "{\n" + lines + margin + "}\n";
      }
    }
    // Code after a return is never reached.
    const size_t last = leaves ? rest_of_block(branch.end) : stop;
    replace_text(start, std::max(stop, last), chosen);
  }

  // The lines between a block's braces.
  std::string block_lines(size_t open, size_t close) const {
    const size_t first = next_line(text_, tokens_[open].end);
    const size_t last = line_start(text_, tokens_[close].begin);
    return first < last ? text_.substr(first, last - first) : "";
  }

  std::string single_statement(size_t begin, size_t end, size_t indent) const {
    // Starts after the condition, because a directive may precede the statement.
    const size_t from = text_.find_first_not_of(" \n", tokens_[begin - 1].end);
    const size_t line = line_start(text_, tokens_[begin].begin);
    // The indent of what follows `else` is that of its line.
    const size_t first =
        tokens_[begin].is("if") ? text_.find_first_not_of(' ', line) : tokens_[begin].begin;
    const size_t column = first - line;
    const std::string text = text_.substr(from, tokens_[end - 1].end - from);
    const bool has_directive = from != tokens_[begin].begin;
    const std::string margin = has_directive ? "" : std::string(indent, ' ');
    const std::string rest =
        text_.substr(tokens_[end - 1].end,
                     next_line(text_, tokens_[end - 1].end) - tokens_[end - 1].end);  // a comment
    return margin + moved_left(text, column - indent, false) +
           (is_blank(rest) || rest.find("//") == npos ? "\n" : rest);
  }

  // The end of the block that holds token `at`: the start of the line of its closing brace.
  size_t rest_of_block(size_t at) const {
    int depth = 0;
    for (; at < tokens_.size(); ++at) {
      if (is_one_of(tokens_[at], {"(", "[", "{"})) ++depth;
      if (is_one_of(tokens_[at], {")", "]", "}"}) && --depth < 0) break;
    }
    return at == tokens_.size() ? text_.size() : line_start(text_, tokens_[at].begin);
  }

  // `const bool NAME = VALUE;`, also with constexpr: replaces the name by the value.
  bool resolve_local() {
    for (size_t i = 1; i + 4 < tokens_.size(); ++i) {
      if (!is_one_of(tokens_[i], {"const", "constexpr"}) || !tokens_[i + 1].is("bool") ||
          !tokens_[i + 3].is("=") || !is_one_of(tokens_[i - 1], {"{", "}", ";"}))
        continue;
      const size_t end = statement_end(tokens_, i);
      const auto known = value(i + 4, end - 1);
      if (!known) continue;
      const std::string name(tokens_[i + 2].text);
      for (size_t use = tokens_.size(); use-- > 0;)
        if (tokens_[use].is(name) && use != i + 2)
          replace_text(tokens_[use].begin, tokens_[use].end, *known ? "true" : "false");
      const size_t start = with_comments_above(line_start(text_, tokens_[i].begin));
      text_.erase(start, next_line(text_, tokens_[end - 1].end) - start);
      return true;
    }
    return false;
  }

  // Replaces a choice, or an initializer without one, by its value.
  bool resolve_choice() {
    for (size_t i = 1; i + 1 < tokens_.size(); ++i) {
      if (!tokens_[i].is("?")) continue;
      size_t begin = i;
      for (int depth = 0; begin > 0; --begin) {
        const Token& token = tokens_[begin - 1];
        if (is_one_of(token, {")", "]", "}"})) ++depth;
        if (is_one_of(token, {"(", "[", "{"}) && --depth < 0) break;
        if (depth == 0 && is_one_of(token, {"=", "+=", "-=", "*=", "return", ",", ";", ":", "?"}))
          break;
      }
      const auto condition = value(begin, i);
      if (!condition) continue;
      const auto [colon, end] = choice_parts(i);
      if (colon == 0) continue;
      const std::string chosen = *condition ? text_of(i + 1, colon) : text_of(colon + 1, end);
      replace_tokens(begin, end, chosen);
      return true;
    }
    return false;
  }

  // The index of the `:` that belongs to the `?` at `question`, and the index after the choice's
  // last token. Zeros if these cannot be determined.
  std::pair<size_t, size_t> choice_parts(size_t question) const {
    size_t colon = 0;
    int nested = 0;
    for (size_t i = question + 1; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (is_one_of(token, {"(", "[", "{"})) {
        i = closing(tokens_, i);
        continue;
      }
      if (token.is("?")) ++nested;
      if (token.is(":") && nested-- == 0) {
        if (colon != 0) return {colon, i};  // the `:` of a surrounding choice
        colon = i;
        nested = 0;
      }
      if (is_one_of(token, {")", "]", "}", ",", ";"})) return {colon, i};
    }
    return {0, 0};
  }

  // Replaces tokens [begin, end) by `with`.
  void replace_tokens(size_t begin, size_t end, const std::string& with) {
    if (is_bracketed_operand(begin, end) && with.find(' ') == npos) {
      --begin;
      ++end;
    }
    const size_t at = tokens_[begin].begin;
    const size_t last = tokens_[end - 1].end;
    replace_text(at, last, with);
  }

  // Whether it is (a ? b : c) in brackets, as an operand and not as the argument of a call.
  bool is_bracketed_operand(size_t begin, size_t end) const {
    return begin >= 2 && end < tokens_.size() && tokens_[begin - 1].is("(") &&
           tokens_[end].is(")") &&
           is_one_of(tokens_[begin - 2], {"+", "-", "*", "/", "=", "&&", "||", "return", ","});
  }

  // Resolves typename Select<CONDITION, A, B>::Type.
  bool resolve_type() {
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (!tokens_[i].is("Select") || !tokens_[i + 1].is("<")) continue;
      size_t commas[2] = {}, count = 0, end = i + 1;
      for (int depth = 0; end < tokens_.size(); ++end) {
        if (tokens_[end].is("<")) ++depth;
        if (tokens_[end].is(">") && --depth == 0) break;
        if (depth == 1 && tokens_[end].is(",") && count < 2) commas[count++] = end;
      }
      if (end + 2 >= tokens_.size() || count < 2 || !tokens_[end + 2].is("Type")) continue;
      const auto condition = value(i + 2, commas[0]);
      if (!condition) continue;
      const std::string chosen =
          *condition ? text_of(commas[0] + 1, commas[1]) : text_of(commas[1] + 1, end);
      replace_tokens(i > 0 && tokens_[i - 1].is("typename") ? i - 1 : i, end + 3, chosen);
      return true;
    }
    return false;
  }

  // Removes an unused local variable: a number, or one whose initializer calls nothing.
  bool drop_unused() {
    for (size_t i = 1; i + 2 < tokens_.size(); ++i) {
      if (!is_one_of(tokens_[i - 1], {"{", "}", ";"}) || !tokens_[i].is_word()) continue;
      if (is_one_of(tokens_[i], {"else", "return", "using", "do"})) continue;
      const size_t end = statement_end(tokens_, i);
      std::string_view number;
      if (is_number_type(tokens_[i]) && !declared_type(tokens_, i, &number).empty() &&
          is_one_of(tokens_[end - 2], {"]", number}) && mentions(number) == 1) {
        erase_statement(i, end);
        return true;
      }
      size_t name = i + 1;  // after a type; otherwise it is not a declaration
      while (name + 1 < end && (tokens_[name].is_word() || is_one_of(tokens_[name], {"*", "&"})) &&
             !tokens_[name + 1].is("="))
        ++name;
      if (name + 1 >= end || !tokens_[name + 1].is("=")) continue;
      if (!tokens_[name].is_word() || has_call(name + 2, end)) continue;
      if (mentions(tokens_[name].text) > 1) continue;
      erase_statement(i, end);
      return true;
    }
    return false;
  }
  void erase_statement(size_t begin, size_t end) {
    const size_t from = with_comments_above(line_start(text_, tokens_[begin].begin));
    text_.erase(from, next_line(text_, tokens_[end - 1].end) - from);
  }
  // Counts uses in directives too: #pragma unroll kUnroll.
  size_t mentions(std::string_view word) const {
    size_t count = 0;
    for (const Token& token : tokenize(text_)) {
      if (token.is(word)) ++count;
      if (token.kind == TokenKind::kDirective && token.text.find(word) != npos) ++count;
    }
    return count;
  }
  bool has_call(size_t begin, size_t end) const {
    for (size_t i = begin + 1; i < end; ++i)
      if (tokens_[i].is("(") && tokens_[i - 1].is_word()) return true;
    return false;
  }

  // Removes operands of && that are true and operands of || that are false.
  bool shorten_condition() {
    for (size_t i = 1; i + 1 < tokens_.size(); ++i) {
      if (!is_one_of(tokens_[i], {"&&", "||"})) continue;
      const bool neutral = tokens_[i].is("&&");
      const size_t left = operand_begin(i), right = operand_end(i);
      const auto before = value(left, i), after = value(i + 1, right);
      if (before && (*before != 0) == neutral && stands_alone(left, right)) {
        replace_tokens(left, right, text_of(i + 1, right));
        return true;
      }
      if (after && (*after != 0) == neutral && stands_alone(left, right)) {
        replace_tokens(left, right, text_of(left, i));
        return true;
      }
    }
    return false;
  }

  static bool ends_operand(const Token& token) {
    return is_one_of(token, {"&&", "||", "=", "return", ",", ";", ":", "?"});
  }
  size_t operand_begin(size_t at) const {
    for (int depth = 0; at > 0; --at) {
      const Token& token = tokens_[at - 1];
      if (is_one_of(token, {")", "]", "}"})) ++depth;
      if (is_one_of(token, {"(", "[", "{"}) && --depth < 0) break;
      if (depth == 0 && ends_operand(token)) break;
    }
    return at;
  }
  size_t operand_end(size_t at) const {
    int depth = 0;
    for (++at; at < tokens_.size(); ++at) {
      if (is_one_of(tokens_[at], {"(", "[", "{"})) ++depth;
      if (is_one_of(tokens_[at], {")", "]", "}"}) && --depth < 0) break;
      if (depth == 0 && ends_operand(tokens_[at])) break;
    }
    return at;
  }
  // Whether tokens [begin, end) make up a whole condition or initializer, or are surrounded by
  // operators of one kind. What remains then binds as before.
  bool stands_alone(size_t begin, size_t end) const {
    const auto delimits = [](const Token& token) {
      return is_one_of(token, {"(", ")", "=", "return", ",", ";", "?"});
    };
    const std::string_view op = tokens_[operator_within(begin, end)].text;
    const bool left = begin == 0 || delimits(tokens_[begin - 1]) || tokens_[begin - 1].is(op);
    const bool right = end == tokens_.size() || delimits(tokens_[end]) || tokens_[end].is(op);
    return left && right;
  }
  size_t operator_within(size_t begin, size_t end) const {
    int depth = 0;
    for (size_t i = begin; i < end; ++i) {
      if (is_one_of(tokens_[i], {"(", "[", "{"})) ++depth;
      if (is_one_of(tokens_[i], {")", "]", "}"})) --depth;
      if (depth == 0 && is_one_of(tokens_[i], {"&&", "||"})) return i;
    }
    return begin;
  }

  std::string text_;
  const SourceConstants& constants_;
  Tokens tokens_;
};

}  // namespace

std::string resolve_branches(std::string text, const SourceConstants& constants) {
  const bool has_branch = text.find("if ") != npos || text.find('?') != npos ||
                          text.find("&&") != npos || text.find("||") != npos ||
                          text.find("Select<") != npos || text.find("  const ") != npos;
  if (!has_branch) return text;
  return Resolver(std::move(text), constants).run();
}

}  // namespace lssar
