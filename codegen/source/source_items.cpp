#include "codegen/source/source_items.h"

#include <algorithm>
#include <sstream>

#include "codegen/source/argument_lists.h"
#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

using Tokens = std::vector<Token>;

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

  // LSSAR_INSTRUCTION(absolute, float, "=f", (float x), "abs.f32 %0, %1;", "f"(x)): declares its
  // first argument; a list in brackets has the function's parameters.
  static bool is_macro_use(const Tokens& t, size_t at) {
    return at + 1 < t.size() && t[at].text.starts_with("LSSAR_") && t[at + 1].is("(");
  }

  void classify(const Tokens& t, SourceItem& item) const {
    if (is_macro_use(t, 0)) {
      item.names.emplace_back(t[2].text);
      const auto arguments = list_parts(t, 1);
      const auto list = std::find_if(arguments.begin(), arguments.end(), [&](const auto& argument) {
        return t[argument.first].is("(");
      });
      if (list == arguments.end()) {
        item.kind = ItemKind::kVariable;
      } else {
        read_parameters(t, list->first, item);
      }
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
        item.names = {std::string(t[i - 1].text)};
        read_parameters(t, i, item);
        if (t[i - 1].is(class_)) item.kind = ItemKind::kPermanent;
        return;
      }
      if (is_one_of(t[i], {"=", "[", ";", "{", ","}) && t[i - 1].is_word()) {
        item.names.emplace_back(t[i - 1].text);
        if (!t[i].is(",")) return;
      }
      if (t[i].is("(")) i = closing(t, i);
    }
  }

  // The item is a function with the parameters of the list at t[open].
  static void read_parameters(const Tokens& t, size_t open, SourceItem& item) {
    item.kind = ItemKind::kFunction;
    const ArgumentCount takes = count_arguments(t, open, true);
    item.least_arguments = takes.least;
    item.most_arguments = takes.most;
    if (t[open + 1].is_word()) item.chosen_by = std::string(t[open + 1].text);
    for (auto [first, last] : list_parts(t, open)) {
      if (first < last && t[first].is("const")) ++first;
      std::string_view name;
      const bool is_number = first < last && is_number_type(t[first]);
      item.parameter_types.push_back(is_number ? declared_type(t, first, &name) : "");
    }
  }

  static bool is_attribute(const Tokens& t, size_t open) {
    return open > 0 && is_one_of(t[open - 1], {"__attribute__", "alignas"});
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
// The lines of a comment up to an empty one. Further paragraphs are for readers of the templates.
std::string first_paragraph(const std::string& comment) {
  for (size_t at = 0; at < comment.size(); at = next_line(comment, at))
    if (comment.find("//\n", at) == comment.find_first_not_of(' ', at))
      return comment.substr(0, at);
  return comment;
}

// Whether it is a single line without a comment above.
bool is_short(const SourceItem& item) {
  const bool is_line = item.text.find('\n') + 1 == item.text.size() && item.tail.empty();
  return is_line && item.comment.empty() && item.text[0] != '#';
}

void print_items(const std::vector<SourceItem>& items, std::string& out) {
  bool after_short = false;
  for (const SourceItem& item : items) {
    const bool joins = is_short(item) && after_short;
    if (item.after_blank && !joins && !out.ends_with("\n\n") && !out.ends_with("{\n")) out += '\n';
    out += first_paragraph(item.comment) + item.text;
    print_items(item.members, out);
    out += item.tail;
    after_short = is_short(item);
  }
}

// "// ---- ptx/mma.cuh: " and the first paragraph of the section's comment. Further lines are
// indented, so that they differ from the comment of the first declaration.
std::string section_title(const SourceSection& section) {
  const std::string paragraph = first_paragraph(section.comment);
  std::istringstream words(paragraph);
  std::string out, line = "// ---- " + section.title + (paragraph.empty() ? "" : ":");
  for (std::string word; words >> word;) {
    if (word == "//") continue;
    if (line.size() + 1 + word.size() > kLineWidth) {
      out += line + "\n";
      line = "//     ";
    }
    line += " " + word;
  }
  return out + line + "\n";
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
std::string print_sections(const std::vector<SourceSection>& sections) {
  std::string out;
  for (const SourceSection& section : sections) {
    std::string items;
    print_items(section.items, items);
    if (items.empty()) continue;
    out += section_title(section) + items.substr(items.find_first_not_of('\n')) + "\n";
  }
  return out;
}

}  // namespace lssar
