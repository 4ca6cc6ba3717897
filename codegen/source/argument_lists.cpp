#include "codegen/source/argument_lists.h"

#include <algorithm>
#include <initializer_list>

namespace lssar {
namespace {

using Tokens = std::vector<Token>;

}  // namespace

size_t after_angles(const Tokens& t, size_t open, size_t end) {
  int depth = 0;
  for (size_t i = open; i < end; ++i) {
    if (is_one_of(t[i], {"(", "[", "{"})) {
      i = closing(t, i);
    } else if (t[i].is("<")) {
      ++depth;
    } else if (t[i].is(">") && --depth == 0) {
      return i + 1;
    }
  }
  return end;
}
bool is_template_list(const Tokens& t, size_t open, size_t* after) {
  int depth = 0;
  for (size_t i = open; i < t.size(); ++i) {
    if (t[i].is("<")) {
      ++depth;
    } else if (t[i].is(">")) {
      if (--depth > 0) continue;
      *after = i + 1;
      return i + 1 < t.size() && is_one_of(t[i + 1], {"(", "{", "::"});
    } else if (t[i].is("(")) {
      i = closing(t, i);
    } else if (!t[i].is_word() && t[i].kind != TokenKind::kNumber &&
               !is_one_of(t[i], {"::", ",", "*", "+", "-", "/", "!", "&&", "||", "==", "?", ":"})) {
      return false;
    }
  }
  return false;
}

ArgumentCount count_arguments(const Tokens& t, size_t open, bool is_declaration) {
  const size_t close = closing(t, open);
  ArgumentCount count;
  if (close == open + 1) return count;
  size_t defaults = 0;
  bool has_pack = false;
  count.most = 1;
  for (size_t i = open + 1; i < close; ++i) {
    size_t after = 0;
    if (is_one_of(t[i], {"(", "[", "{"})) {
      i = closing(t, i);
    } else if (t[i].is("<") && is_declaration) {
      i = after_angles(t, i, close) - 1;
    } else if (t[i].is("<") && is_template_list(t, i, &after)) {
      i = after - 1;
    } else if (t[i].is(",")) {
      ++count.most;
    } else if (t[i].is("=") && is_declaration) {
      ++defaults;
    } else if (t[i].is("...") && is_declaration) {  // any number
      has_pack = true;
    }
  }
  count.least = count.most - defaults - has_pack;
  if (has_pack) count.most = npos;
  return count;
}
std::vector<std::pair<size_t, size_t>> list_parts(const Tokens& t, size_t open) {
  std::vector<std::pair<size_t, size_t>> parts;
  const size_t close = closing(t, open);
  size_t first = open + 1;
  for (size_t i = open + 1; i <= close && i < t.size(); ++i) {
    if (i < close && is_one_of(t[i], {"(", "[", "{"})) i = closing(t, i);
    if (i != close && !t[i].is(",")) continue;
    parts.emplace_back(first, i);
    first = i + 1;
  }
  return parts;
}
bool is_number_type(const Token& token) {
  return is_one_of(token, {"u32", "float", "int", "i64", "u64"});
}
std::string declared_type(const Tokens& t, size_t at, std::string_view* name) {
  std::string type(t[at].text);
  size_t i = at + 1;
  const auto is_at = [&](size_t place, std::string_view text) {
    return place < t.size() && t[place].is(text);
  };
  if (is_at(i, "(") && is_at(i + 1, "&") && is_at(i + 3, ")")) {  // u32 (&name)[4]
    *name = t[i + 2].text;
    return is_at(i + 4, "[") && is_at(i + 6, "]") ? type + "[" + std::string(t[i + 5].text) + "]"
                                                  : "";
  }
  if (is_at(i, "&")) type += t[i++].text;
  if (i + 1 >= t.size() || !t[i].is_word()) return "";
  *name = t[i].text;
  if (is_at(i + 1, "["))
    return is_at(i + 3, "]") ? type + "[" + std::string(t[i + 2].text) + "]" : "";
  return is_one_of(t[i + 1], {";", "=", ",", ")"}) ? type : "";
}

}  // namespace lssar
