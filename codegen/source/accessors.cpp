#include "codegen/source/accessors.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "codegen/source/argument_lists.h"
#include "codegen/source/plain_source.h"
#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

using Tokens = std::vector<Token>;

// A function `{ return PATH; }`, where PATH names a parameter or a member of one.
//
// NOTE: an argument of another type than the parameter would lose its conversion. No template has
// one.
struct Accessor {
  size_t num_parameters = 0;
  size_t parameter = 0;  // its place in the list
  std::string rest;      // of PATH, after the parameter
};

using Accessors = std::map<std::string, Accessor, std::less<>>;

// Whether tokens [begin, end) are names with ., -> and :: between them.
bool is_path(const Tokens& t, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const bool is_place_of_name = (i - begin) % 2 == 0;
    const bool fits = is_place_of_name ? t[i].is_word() : is_one_of(t[i], {".", "->", "::"});
    if (!fits) return false;
  }
  return (end - begin) % 2 == 1;
}

std::optional<Accessor> read_accessor(const SourceItem& item) {
  if (item.kind != ItemKind::kFunction || is_template(item.text)) return {};
  const Tokens t = code_tokens(item.text);
  size_t open = 1;
  while (open < t.size() && !(t[open].is("(") && t[open - 1].is(item.names[0]))) ++open;
  if (open == t.size()) return {};
  const size_t close = closing(t, open);
  size_t body = close + 1;
  if (body < t.size() && t[body].is("const")) ++body;
  const size_t end = t.size() - 2;  // of the statement
  if (body + 4 > t.size() || !t[body].is("{") || !t[body + 1].is("return") || !t[end].is(";"))
    return {};
  if (!is_path(t, body + 2, end)) return {};
  const auto parameters = list_parts(t, open);
  const auto used = std::find_if(parameters.begin(), parameters.end(), [&](const auto& list) {
    return list.first < list.second && t[list.second - 1].is(t[body + 2].text);
  });
  if (used == parameters.end()) return {};
  const size_t rest = t[body + 2].end;
  return Accessor{parameters.size(), static_cast<size_t>(used - parameters.begin()),
                  item.text.substr(rest, t[end - 1].end - rest)};
}

// How many functions each name has, and the accessors among them.
struct Found {
  std::map<std::string, int, std::less<>> functions;
  Accessors accessors;

  void read(const std::vector<SourceItem>& items) {
    for (const SourceItem& item : items) {
      if (item.kind == ItemKind::kFunction) ++functions[item.names[0]];
      if (auto accessor = read_accessor(item)) accessors[item.names[0]] = std::move(*accessor);
      read(item.members);
    }
  }
};

// The first token of the call at t[at], with the object that it is called for.
size_t call_begin(const Tokens& t, size_t at) {
  while (at >= 2 && is_one_of(t[at - 1], {".", "->"}) && t[at - 2].is_word()) at -= 2;
  return at;
}

// The accessor that t[at] calls, or end().
Accessors::const_iterator called(const Tokens& t, size_t at, const Accessors& accessors) {
  const bool is_call = t[at].is_word() && at + 1 < t.size() && t[at + 1].is("(");
  return is_call ? accessors.find(t[at].text) : accessors.end();
}

// Whether tokens [first, last) are a name or a number.
bool is_plain(const Tokens& t, size_t first, size_t last) {
  return is_path(t, first, last) || (last == first + 1 && t[first].kind == TokenKind::kNumber);
}

// Whether tokens [first, last) call nothing, and may stand where the call at t[at] stands.
bool may_stand_for(const Tokens& t, size_t at, size_t first, size_t last) {
  const size_t close = closing(t, at + 1);
  return at > 0 && is_one_of(t[at - 1], {"(", "{", "[", ",", "=", "return"}) &&
         close + 1 < t.size() && is_one_of(t[close + 1], {")", "}", "]", ",", ";"}) &&
         std::none_of(t.begin() + first, t.begin() + last,
                      [](const Token& token) { return token.is("("); });
}

// Whether the call at t[at] can be replaced.
bool may_replace(const Tokens& t, size_t at, const Accessor& accessor) {
  const auto arguments = list_parts(t, at + 1);
  const size_t begin = call_begin(t, at);
  if (begin > 0 && is_one_of(t[begin - 1], {".", "->", "::"})) return false;
  if (arguments.size() != accessor.num_parameters) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto [first, last] = arguments[i];
    const bool is_whole = i == accessor.parameter && accessor.rest.empty();
    if (!is_plain(t, first, last) && !(is_whole && may_stand_for(t, at, first, last))) return false;
  }
  return true;
}

template <class Visit>
void for_each_item(std::vector<SourceItem>& items, const Visit& visit) {
  for (SourceItem& item : items) {
    visit(item);
    for_each_item(item.members, visit);
  }
}

void replace_calls(std::string& text, const Accessors& accessors) {
  const Tokens t = code_tokens(text);
  std::string result;
  size_t done = 0;
  for (size_t i = 0; i < t.size(); ++i) {
    const auto found = called(t, i, accessors);
    if (found == accessors.end()) continue;
    const Accessor& accessor = found->second;
    result += text.substr(done, t[call_begin(t, i)].begin - done);
    const auto [first, last] = list_parts(t, i + 1)[accessor.parameter];
    result += text.substr(t[first].begin, t[last - 1].end - t[first].begin) + accessor.rest;
    i = closing(t, i + 1);
    done = t[i].end;
  }
  if (done != 0) text = result + text.substr(done);
}

}  // namespace

void inline_accessors(std::vector<SourceSection>& sections, std::string_view roots) {
  Found found;
  for (const SourceSection& section : sections) found.read(section.items);
  Accessors& accessors = found.accessors;
  std::erase_if(accessors,
                [&](const auto& accessor) { return found.functions[accessor.first] != 1; });
  for (const Token& token : code_tokens(roots)) accessors.erase(std::string(token.text));
  const auto is_accessor = [&](const SourceItem& item) {
    return item.kind == ItemKind::kFunction && accessors.contains(item.names[0]);
  };
  for (SourceSection& section : sections)
    for_each_item(section.items, [&](const SourceItem& item) {
      const Tokens t = code_tokens(item.text);
      for (size_t i = 0; i < t.size(); ++i) {
        const auto used = called(t, i, accessors);
        const bool is_own = item.kind == ItemKind::kFunction && t[i].is(item.names[0]);
        if (used != accessors.end() && !is_own && !may_replace(t, i, used->second))
          accessors.erase(used);
      }
    });
  if (accessors.empty()) return;
  for (SourceSection& section : sections) {
    std::erase_if(section.items, is_accessor);
    for_each_item(section.items, [&](SourceItem& item) {
      std::erase_if(item.members, is_accessor);
      replace_calls(item.text, accessors);
    });
  }
}

}  // namespace lssar
