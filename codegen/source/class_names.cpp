#include "codegen/source/class_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "codegen/source/plain_source.h"
#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

using Tokens = std::vector<Token>;

// A name to the name that takes its place.
using Renames = std::map<std::string, std::string, std::less<>>;

// Returns the index of the semicolon if `using NAME =` begins at tokens[at], else 0.
size_t alias_end(const Tokens& t, size_t at) {
  if (at + 3 >= t.size() || !t[at].is("using") || !t[at + 2].is("=")) return 0;
  size_t end = at + 3;
  while (end < t.size() && !t[end].is(";")) ++end;
  return end == t.size() ? 0 : end;
}

// What the source declares.
struct Declarations {
  std::set<std::string, std::less<>> classes;  // not templates, not members
  std::set<std::string, std::less<>> others;   // everything but those and aliases
  // The classes that each alias means. "" is anything else.
  std::map<std::string, std::set<std::string>, std::less<>> aliases;

  // The class that tokens [first, last) name: `Shape`, `typename Consumer::Shape`. Else "".
  static std::string named_class(const Tokens& t, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      if (!t[i].is_word() && !t[i].is("::")) return "";
    return std::string(t[last - 1].text);
  }

  void read_text(std::string_view text) {
    const Tokens t = code_tokens(text);
    for (size_t i = 0; i + 1 < t.size(); ++i) {
      if (t[i].is("class") && t[i + 1].is_word()) others.insert(std::string(t[i + 1].text));
      const size_t end = alias_end(t, i);
      if (end == 0) continue;
      const std::string name(t[i + 1].text);
      const std::string target = named_class(t, i + 3, end);
      // `using Shape = Consumer::Shape;` adds no meaning.
      if (target != name) aliases[name].insert(target);
    }
  }

  void read(const std::vector<SourceItem>& items, bool is_member) {
    for (const SourceItem& item : items) {
      const bool is_class = item.kind == ItemKind::kClass;
      const bool is_alias = item.text.find("using ") != std::string::npos;
      if (is_class && !is_member && !is_template(item.text)) {
        classes.insert(item.names[0]);
      } else if (is_class || !is_alias) {
        if (item.kind != ItemKind::kPermanent) others.insert(item.names.begin(), item.names.end());
      }
      read_text(item.text);
      read(item.members, true);
    }
  }
};

// The class that the name means everywhere, or "".
std::string class_of(const std::string& name, const Declarations& declared) {
  if (declared.classes.contains(name)) return name;
  const auto found = declared.aliases.find(name);
  if (found == declared.aliases.end() || found->second.size() != 1) return "";
  if (declared.others.contains(name)) return "";
  return class_of(*found->second.begin(), declared);
}

Renames find_renames(const Declarations& declared) {
  std::map<std::string, std::vector<std::string>> names;  // of each class
  for (const auto& [alias, targets] : declared.aliases) {
    const std::string own = class_of(alias, declared);
    if (!own.empty()) names[own].push_back(alias);
  }
  Renames renames;
  for (auto& [own, all] : names) {
    all.push_back(own);
    const std::string shortest = *std::min_element(
        all.begin(), all.end(),
        [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
    for (const std::string& name : all) renames[name] = shortest;
  }
  return renames;
}

// Replaces the words of a comment.
std::string renamed_comment(std::string_view text, const Renames& renames) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word_char(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    const auto found = renames.find(word);
    result += found == renames.end() ? std::string(word) : found->second;
    if (end < text.size()) result += text[end++];
    at = end;
  }
  return result;
}

// What takes the place of names.
struct NewNames {
  Renames classes;
  std::set<std::string, std::less<>> of_config;  // aliases that were members of Config

  // Whether `X::` at t[at] goes: a renamed class is no member of another.
  bool drops_qualifier(const Tokens& t, size_t at) const {
    if (at + 2 >= t.size() || !t[at].is_word() || !t[at + 1].is("::")) return false;
    if (t[at].is("Config")) return of_config.contains(t[at + 2].text);
    return !t[at].is("lssar_device") && classes.contains(t[at + 2].text);
  }
};

std::string renamed_text(std::string_view text, const NewNames& names) {
  const Tokens t = tokenize(text);
  std::string result;
  size_t done = 0;
  const auto replace = [&](size_t first, size_t last, const std::string& replacement) {
    result += text.substr(done, t[first].begin - done);
    result += replacement;
    done = last < t.size() && replacement.empty() ? t[last].begin : t[last - 1].end;
  };
  for (size_t i = 0; i < t.size(); ++i) {
    const bool has_typename = t[i].is("typename");
    if (names.drops_qualifier(t, i + has_typename)) {
      replace(i, i + has_typename + 2, "");
      i += has_typename + 1;
    } else if (t[i].kind == TokenKind::kComment) {
      replace(i, i + 1, renamed_comment(t[i].text, names.classes));
    } else if (const auto found = names.classes.find(t[i].text);
               t[i].is_word() && found != names.classes.end()) {
      replace(i, i + 1, found->second);
    }
  }
  return result += text.substr(done);
}

// Removes the lines of `using Shape = Shape;`.
void drop_own_aliases(std::string& text) {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    const Tokens t = code_tokens(text);
    for (size_t i = 0; i < t.size() && !has_changed; ++i) {
      const size_t end = alias_end(t, i);
      const size_t target = i + 3 + (end != 0 && t[i + 3].is("typename"));
      if (end != target + 1 || !t[i + 1].is(t[target].text)) continue;
      const size_t begin = text.rfind('\n', t[i].begin) + 1;  // 0 in the first line
      text.erase(begin, text.find('\n', t[end].begin) + 1 - begin);
      has_changed = true;
    }
  }
}

void rename(std::vector<SourceItem>& items, const NewNames& names) {
  for (SourceItem& item : items) {
    item.text = renamed_text(item.text, names);
    item.comment = renamed_comment(item.comment, names.classes);
    for (std::string& name : item.names)
      if (const auto found = names.classes.find(name); found != names.classes.end())
        name = found->second;
    drop_own_aliases(item.text);
    rename(item.members, names);
  }
  std::erase_if(items, [](const SourceItem& item) { return item.text.empty(); });
}

// Moves the aliases of Config out of it, to the lines above it. Returns their names.
std::set<std::string, std::less<>> move_aliases_of_config(std::vector<SourceItem>& items) {
  std::set<std::string, std::less<>> names;
  const auto config = std::find_if(items.begin(), items.end(), [](const SourceItem& item) {
    return item.kind == ItemKind::kClass && item.names[0] == "Config";
  });
  if (config == items.end()) return names;
  std::vector<SourceItem> moved;
  std::erase_if(config->members, [&](SourceItem& member) {
    if (!member.text.starts_with("  using ")) return false;
    names.insert(member.names[0]);
    member.text.erase(0, 2);
    moved.push_back(std::move(member));
    return true;
  });
  if (!moved.empty()) moved[0].after_blank = true;
  items.insert(config, moved.begin(), moved.end());
  return names;
}

}  // namespace

void shorten_class_names(std::vector<SourceSection>& sections, std::string& roots) {
  NewNames names;
  for (SourceSection& section : sections)
    names.of_config.merge(move_aliases_of_config(section.items));
  Declarations declared;
  for (const SourceSection& section : sections) declared.read(section.items, false);
  names.classes = find_renames(declared);
  for (SourceSection& section : sections) rename(section.items, names);
  roots = renamed_text(roots, names);
}

}  // namespace lssar
