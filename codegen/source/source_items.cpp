#include "codegen/source/source_items.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

constexpr size_t npos = std::string_view::npos;

using Tokens = std::vector<Token>;

bool is_one_of(const Token& token, std::initializer_list<std::string_view> texts) {
  return std::any_of(texts.begin(), texts.end(), [&](auto text) { return token.is(text); });
}
bool is_trivia(const Token& token) {
  return token.kind == TokenKind::kComment || token.kind == TokenKind::kDirective;
}

size_t line_start(std::string_view text, size_t at) {
  const size_t newline = at == 0 ? npos : text.rfind('\n', at - 1);
  return newline == npos ? 0 : newline + 1;
}
size_t next_line(std::string_view text, size_t at) {
  const size_t newline = text.find('\n', at);
  return newline == npos ? text.size() : newline + 1;
}

// Behind the > of the list that tokens[open], a <, opens. In declarations only, where no <
// compares.
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

// How many arguments: of a declaration least and most, of a call the one number.
struct Arguments {
  size_t least = 0;
  size_t most = 0;
};

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

// Counts the list between token open and the one that closes it. In declarations every < opens a
// list.
Arguments count_arguments(const Tokens& t, size_t open, bool is_declaration) {
  const size_t close = closing(t, open);
  Arguments count;
  if (close == open + 1) return count;
  size_t defaults = 0;
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
    }
  }
  count.least = count.most - defaults;
  return count;
}

bool is_number_type(const Token& token) {
  return is_one_of(token, {"u32", "float", "int", "i64", "u64"});
}

// The type of what tokens[at], the name of a type of numbers, declares, and its name: of an array
// "u32[4]", of a reference "u32&"; "" where it is something else.
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

// Types of variables and parameters by name, as far as they are numbers; "" where a name has two.
std::map<std::string_view, std::string> variable_types(const Tokens& t) {
  std::map<std::string_view, std::string> types;
  for (size_t i = 0; i + 1 < t.size(); ++i) {
    if (!is_number_type(t[i])) continue;
    std::string_view name;
    std::string type = declared_type(t, i, &name);
    if (type.ends_with('&')) type.pop_back();
    if (name.empty()) continue;
    const auto [found, is_new] = types.emplace(name, type);
    if (!is_new && found->second != type) found->second.clear();
  }
  return types;
}

// Whether a variable of type `given` may be what the parameter takes. "": any type.
bool may_take(const std::string& parameter, const std::string& given) {
  if (parameter.empty() || given.empty()) return true;
  if (parameter.ends_with('&')) return parameter == given + '&';
  if (parameter.ends_with(']') || given.ends_with(']')) return parameter == given;
  return (parameter == "float") == (given == "float");
}

// A list's arguments: their tokens.
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

// Cuts [begin, end) of `t`, without trivia, into declarations.
class Parser {
 public:
  Parser(std::string_view text, std::string_view class_name) : text_(text), class_(class_name) {}

  std::vector<SourceItem> parse(const Tokens& all, size_t begin, size_t end) {
    std::vector<SourceItem> items;
    size_t at = begin;
    while (at < end) {
      const size_t first = at;
      while (at < end && all[at].kind == TokenKind::kComment) ++at;
      if (at == end) break;  // a comment of nothing
      // A comment with a blank line behind it is about more than the next declaration.
      const size_t last = all[at].kind == TokenKind::kDirective ? end_of_directives(all, at, end)
                                                                : end_of_declaration(all, at, end);
      items.push_back(make_item(all, first, at, last));
      // Behind the comment on its line.
      const size_t line_end = next_line(text_, all[last - 1].end);
      for (at = last; at < end && all[at].begin < line_end;) ++at;
    }
    return items;
  }

 private:
  // #define alone; #if with all up to its #endif.
  size_t end_of_directives(const Tokens& t, size_t at, size_t end) const {
    int depth = 0;
    for (; at < end; ++at) {
      if (t[at].text.starts_with("#if")) ++depth;
      if (t[at].text.starts_with("#endif")) --depth;
      if (depth == 0) return at + 1;
    }
    return end;
  }

  // One past its last token.
  size_t end_of_declaration(const Tokens& t, size_t at, size_t end) const {
    if (is_one_of(t[at], {"private", "public"})) return at + 2;
    if (is_macro_use(t, at)) return closing(t, at + 1) + 1;
    while (at < end) {
      if (t[at].is(";")) return at + 1;
      if (!is_one_of(t[at], {"(", "[", "{"})) {
        ++at;
        continue;
      }
      const bool is_brace = t[at].is("{");
      at = closing(t, at) + 1;
      // A function's body ends it; what goes on are initializers, and classes have a semicolon.
      if (is_brace && (at >= end || !is_one_of(t[at], {";", "{", ",", ")"}))) return at;
    }
    return end;
  }

  SourceItem make_item(const Tokens& t, size_t comments, size_t first, size_t last) {
    SourceItem item;
    const size_t begin = line_start(text_, t[first].begin);
    const size_t stop = next_line(text_, t[last - 1].end);
    const size_t comment = line_start(text_, t[comments].begin);
    item.comment = std::string(text_.substr(comment, begin - comment));
    item.text = std::string(text_.substr(begin, stop - begin));
    item.after_blank = comment >= 2 && text_[comment - 2] == '\n';
    if (t[first].kind == TokenKind::kDirective) {
      item.kind = ItemKind::kVariable;
      name_macros(t, first, last, item);
      return item;
    }
    Tokens code;
    for (size_t i = first; i < last; ++i)
      if (!is_trivia(t[i])) code.push_back(t[i]);
    classify(code, item);
    if (item.kind == ItemKind::kClass) open_class(t, first, last, item);
    return item;
  }

  // Macros that the lines of [first, last) define, and what is declared between them.
  void name_macros(const Tokens& t, size_t first, size_t last, SourceItem& item) {
    constexpr std::string_view kDefine = "#define ";
    Tokens between;
    for (size_t i = first; i < last; ++i) {
      if (!is_trivia(t[i])) between.push_back(t[i]);
      if (!t[i].text.starts_with(kDefine)) continue;
      const std::string_view rest = t[i].text.substr(kDefine.size());
      item.names.emplace_back(rest.substr(0, rest.find_first_of(" (\n")));
    }
    for (const SourceItem& declared : parse(between, 0, between.size()))
      item.names.insert(item.names.end(), declared.names.begin(), declared.names.end());
  }

  // LSSAR_UNARY(exp2_approx, "ex2.approx.ftz.f32"): declares what it names first.
  static bool is_macro_use(const Tokens& t, size_t at) {
    return at + 1 < t.size() && t[at].text.starts_with("LSSAR_") && t[at + 1].is("(");
  }

  void classify(const Tokens& t, SourceItem& item) const {
    if (is_macro_use(t, 0)) {
      item.kind = ItemKind::kVariable;
      item.names.emplace_back(t[2].text);
      return;
    }
    size_t at = t[0].is("template") ? after_angles(t, 1, t.size()) : 0;
    if (is_one_of(t[at], {"static_assert", "private", "public"})) return;
    if (is_one_of(t[at], {"struct", "class", "enum"})) {
      const bool is_enum = t[at].is("enum");
      while (!t[at].is("{") && !t[at].is(";") && !t[at].is(":") && !t[at].is("<")) {
        if (t[at].is("(")) at = closing(t, at);
        if (t[at].is_word()) item.names = {std::string(t[at].text)};
        ++at;
      }
      item.kind = is_enum || t.back().is(";") == false ? ItemKind::kVariable : ItemKind::kClass;
      if (is_enum) {
        for (; at + 1 < t.size(); ++at)
          if (t[at].is_word() && is_one_of(t[at + 1], {",", "}", "="}))
            item.names.emplace_back(t[at].text);
      } else if (std::none_of(t.begin(), t.end(), [](const Token& x) { return x.is("{"); })) {
        item.kind = ItemKind::kVariable;  // declared only
      }
      return;
    }
    classify_named(t, at, item);
  }

  // A function or a variable.
  void classify_named(const Tokens& t, size_t at, SourceItem& item) const {
    item.kind = ItemKind::kVariable;
    item.is_data = !is_one_of(t[at], {"static", "using", "extern", "inline", "constexpr"});
    for (size_t i = at; i < t.size(); ++i) {
      if (t[i].is("operator")) {
        item.kind = ItemKind::kPermanent;
        return;
      }
      if (t[i].is("<") && i > at && t[i - 1].is_word()) i = after_angles(t, i, t.size());
      if (t[i].is("(") && !(t[i + 1].is("&")) && !is_attribute(t, i)) {
        item.is_data = false;
        item.kind = t[i - 1].is(class_) ? ItemKind::kPermanent : ItemKind::kFunction;
        item.names = {std::string(t[i - 1].text)};
        const Arguments takes = count_arguments(t, i, true);
        item.least_arguments = takes.least;
        item.most_arguments = takes.most;
        if (t[i + 1].is_word()) item.chosen_by = std::string(t[i + 1].text);
        for (auto [first, last] : list_parts(t, i)) {
          if (first < last && t[first].is("const")) ++first;
          std::string_view name;
          const bool is_number = first < last && is_number_type(t[first]);
          item.parameter_types.push_back(is_number ? declared_type(t, first, &name) : "");
        }
        return;
      }
      if (is_one_of(t[i], {"=", "[", ";", "{", ","}) && t[i - 1].is_word()) {
        item.names.emplace_back(t[i - 1].text);
        if (!t[i].is(",")) return;
      }
      if (t[i].is("(")) i = closing(t, i);
    }
  }

  static bool is_attribute(const Tokens& t, size_t open) {
    return open > 0 && t[open - 1].is("__attribute__");
  }

  void open_class(const Tokens& t, size_t first, size_t last, SourceItem& item) {
    size_t open = first;
    while (!t[open].is("{")) ++open;
    const size_t close = closing(t, open);
    const size_t begin = line_start(text_, t[first].begin);
    const size_t head_end = next_line(text_, t[open].end);
    if (t[close].begin < head_end) {  // on one line: nothing to choose from
      item.kind = ItemKind::kVariable;
      return;
    }
    const size_t tail = line_start(text_, t[close].begin);
    item.text = std::string(text_.substr(begin, head_end - begin));
    item.tail = std::string(text_.substr(tail, next_line(text_, t[last - 1].end) - tail));
    item.members = Parser(text_, item.names[0]).parse(t, open + 1, close);
    for (SourceItem& member : item.members) {
      member.chosen_by.clear();
      member.parameter_types.clear();
    }
  }

  std::string_view text_;
  std::string_view class_;
};

// What kept source names.
class Names {
 public:
  // `declared`: the function that the text declares, which it does not call by that.
  void add(std::string_view text, std::string_view declared = {}) {
    Tokens t;
    for (const Token& token : tokenize(text)) {
      if (token.kind == TokenKind::kDirective) add(token.text.substr(1));  // #pragma unroll kNumber
      if (!is_trivia(token)) t.push_back(token);
    }
    const auto types = variable_types(t);
    for (size_t i = 0; i < t.size(); ++i) {
      if (!t[i].is_word()) continue;
      used_.emplace(t[i].text);
      size_t open = i + 1;
      if (!declared.empty() && t[i].is(declared) && open < t.size() && t[open].is("(")) {
        declared = {};
        continue;
      }
      if (open < t.size() && t[open].is("<") && !is_template_list(t, open, &open)) {
        calls_[std::string(t[i].text)].insert({kAnyNumber, {}});
      } else if (open < t.size() && t[open].is("(")) {
        Call call = {count_arguments(t, open, false).most, {}};
        for (const auto& [first, last] : list_parts(t, open)) {
          const auto type = last == first + 1 ? types.find(t[first].text) : types.end();
          call.types.push_back(type == types.end() ? "" : type->second);
        }
        calls_[std::string(t[i].text)].insert(std::move(call));
      }
    }
  }

  bool has(const std::string& name) const { return used_.contains(name); }

  // A call of the function that `text` declares.
  bool calls(const SourceItem& function) const {
    const auto found = calls_.find(function.names[0]);
    if (found == calls_.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](const Call& call) {
      if (call.number == kAnyNumber) return true;
      if (call.number < function.least_arguments || call.number > function.most_arguments)
        return false;
      const size_t known = std::min(call.types.size(), function.parameter_types.size());
      return std::equal(
          call.types.begin(), call.types.begin() + known, function.parameter_types.begin(),
          [](const auto& given, const auto& taken) { return may_take(taken, given); });
    });
  }

 private:
  static constexpr size_t kAnyNumber = npos;

  struct Call {
    size_t number;                   // of arguments
    std::vector<std::string> types;  // those of variables

    auto operator<=>(const Call&) const = default;
  };

  std::set<std::string, std::less<>> used_;
  std::map<std::string, std::set<Call>> calls_;
};

bool has_constructor(const SourceItem& item) {
  return std::any_of(item.members.begin(), item.members.end(), [&](const SourceItem& member) {
    return member.kind == ItemKind::kPermanent && !member.names.empty() &&
           member.names[0] == item.names[0];
  });
}

// `of_initialized`: a member of a class without a constructor, where each has its place.
bool is_reached(const SourceItem& item, const Names& names, bool of_aggregate) {
  if (item.kind == ItemKind::kPermanent) return true;
  if (item.kind == ItemKind::kFunction)
    return names.calls(item) && (item.chosen_by.empty() || names.has(item.chosen_by));
  if (item.is_data && of_aggregate) return true;
  return std::any_of(item.names.begin(), item.names.end(),
                     [&](const std::string& name) { return names.has(name); });
}

bool mark_items(std::vector<SourceItem>& items, Names& names, bool of_aggregate) {
  bool has_changed = false;
  for (SourceItem& item : items) {
    if (!item.is_kept && is_reached(item, names, of_aggregate)) {
      item.is_kept = has_changed = true;
      names.add(item.text, item.kind == ItemKind::kFunction ? item.names[0] : std::string());
    }
    if (item.is_kept && !item.members.empty())
      has_changed = mark_items(item.members, names, !has_constructor(item)) || has_changed;
  }
  return has_changed;
}

// Leaves chosen_by to functions of one name that begin with arguments of different classes, and
// parameter_types to functions that share their name.
void find_overloads(std::vector<SourceSection>& sections) {
  std::set<std::string> classes;
  std::map<std::string, int> functions;
  for (const SourceSection& section : sections) {
    for (const SourceItem& item : section.items) {
      if (item.kind == ItemKind::kClass) classes.insert(item.names[0]);
      if (item.kind == ItemKind::kFunction) ++functions[item.names[0]];
    }
  }
  for (SourceSection& section : sections) {
    for (SourceItem& item : section.items) {
      const bool is_overload = item.kind == ItemKind::kFunction && functions[item.names[0]] > 1;
      if (!is_overload) item.parameter_types.clear();
      if (!is_overload || !classes.contains(item.chosen_by)) item.chosen_by.clear();
    }
  }
}

void erase_unreached(std::vector<SourceItem>& items) {
  std::erase_if(items, [](const SourceItem& item) { return !item.is_kept; });
  for (SourceItem& item : items) {
    item.is_kept = false;
    erase_unreached(item.members);
  }
}

void print_items(const std::vector<SourceItem>& items, std::string& out) {
  for (const SourceItem& item : items) {
    if (item.after_blank && !out.ends_with("\n\n") && !out.ends_with("{\n")) out += '\n';
    out += item.comment + item.text;
    print_items(item.members, out);
    out += item.tail;
  }
}

}  // namespace

SourceSection parse_section(std::string title, std::string_view text) {
  SourceSection section;
  section.title = std::move(title);
  const Tokens all = tokenize(text);
  size_t at = 0;
  size_t end_of_comment = 0;
  while (at < all.size() && all[at].kind == TokenKind::kComment) {
    const bool is_next = at == 0 || text.substr(all[at - 1].end, 2) != "\n\n";
    if (!is_next) break;
    end_of_comment = next_line(text, all[at++].end);
  }
  section.comment = std::string(text.substr(0, end_of_comment));
  Tokens rest;
  int depth = 0;
  for (; at < all.size(); ++at) {
    if (all[at].is("using") && at + 3 < all.size() && all[at + 1].is("namespace")) {
      at += 3;  // of another part, whose own lines are left out too
      continue;
    }
    if (all[at].is("namespace")) {  // namespace lssar_device {
      at += 2;
      depth = 1;
      continue;
    }
    if (all[at].is("{")) ++depth;
    const bool closes = all[at].is("}") && --depth == 0 && at + 1 < all.size() + 1;
    if (closes && at + 1 < all.size() && all[at + 1].text.starts_with("// namespace")) {
      ++at;
      continue;
    }
    rest.push_back(all[at]);
  }
  section.items = Parser(text, "").parse(rest, 0, rest.size());
  return section;
}

void keep_reached(std::vector<SourceSection>& sections, std::string_view roots) {
  find_overloads(sections);
  Names names;
  names.add(roots);
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    for (SourceSection& section : sections)
      has_changed = mark_items(section.items, names, false) || has_changed;
  }
  for (SourceSection& section : sections) erase_unreached(section.items);
}

std::string print_sections(const std::vector<SourceSection>& sections) {
  std::string out;
  for (const SourceSection& section : sections) {
    std::string items;
    print_items(section.items, items);
    if (items.empty()) continue;
    out +=
        "// ---- " + section.title + "\n" + section.comment.substr(0, section.comment.find("//\n"));
    // A blank line parts the section's comment from that of its first declaration.
    const size_t first = items.find_first_not_of('\n');
    if (items.compare(first, 2, "//") == 0) out += '\n';
    out += items.substr(first) + "\n";
  }
  return out;
}

}  // namespace lssar
