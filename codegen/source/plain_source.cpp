#include "codegen/source/plain_source.h"

#include <vector>

#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

using Tokens = std::vector<Token>;

bool has(const Tokens& t, size_t at, std::string_view text) {
  return at < t.size() && t[at].is(text);
}

// A range of bytes to leave out of the text.
struct Cut {
  size_t begin = 0;
  size_t end = 0;
};

// Cuts tokens [first, last) and the spaces after them.
Cut cut(const Tokens& t, size_t first, size_t last, size_t size) {
  return {t[first].begin, last < t.size() ? t[last].begin : size};
}

// What to cut if tokens[at] is a < and its list begins with Config or `class Config`: that
// argument, or the whole list if it has no other, together with the word `template` before it. An
// empty cut otherwise.
Cut config_cut(const Tokens& t, size_t at, size_t size) {
  const bool is_parameter = has(t, at + 1, "class");
  const size_t config = is_parameter ? at + 2 : at + 1;
  if (!has(t, config, "Config")) return {};
  if (has(t, config + 1, ",")) return cut(t, at + 1, config + 2, size);
  if (!has(t, config + 1, ">")) return {};  // Config::kHeadDim
  return is_parameter ? cut(t, at - 1, config + 2, size) : Cut{t[at].begin, t[config + 1].end};
}

std::string without(std::string_view text, const std::vector<Cut>& cuts) {
  std::string result;
  size_t at = 0;
  for (const Cut& cut : cuts) {
    result += text.substr(at, cut.begin - at);
    at = cut.end;
  }
  return result += text.substr(at);
}

}  // namespace

std::string without_config(std::string_view text) {
  const Tokens tokens = tokenize(text);
  std::vector<Cut> cuts;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].is("<") || i == 0) continue;
    const Cut cut = config_cut(tokens, i, text.size());
    if (cut.end == 0) continue;
    // After the cut, `x.template f<Config>()` no longer names a template.
    const bool is_all = cut.begin == tokens[i].begin;
    if (is_all && i >= 2 && tokens[i - 2].is("template"))
      cuts.push_back({tokens[i - 2].begin, tokens[i - 1].begin});
    cuts.push_back(cut);
  }
  return without(text, cuts);
}

std::string with_unroll_words(std::string_view text) {
  constexpr std::string_view kDirective = "#pragma unroll\n", kWord = "LSSAR_UNROLL ";
  std::string result;
  size_t done = 0;
  for (size_t at = 0; (at = text.find(kDirective, at)) != text.npos; at = done) {
    const size_t line = at + kDirective.size();
    const size_t loop = text.find_first_not_of(' ', line);
    const size_t end = text.find('\n', loop);
    result += text.substr(done, at - done);
    result += text.substr(line, loop - line);
    result += kWord;
    done = loop;
    if (end - line + kWord.size() <= kLineWidth) continue;
    // Puts the loop's statement on a line of its own.
    const size_t body = text.find(") ", text.find("++", loop));
    if (body >= end) continue;
    result += text.substr(loop, body + 1 - loop);
    result += "\n" + std::string(loop - line + 2, ' ');
    done = body + 2;
  }
  return result += text.substr(done);
}

bool is_template(std::string_view declaration) {
  const size_t first = declaration.find_first_not_of(" \n");
  return first != declaration.npos && declaration.substr(first).starts_with("template <");
}

std::string without_template_words(std::string_view text) {
  const Tokens tokens = tokenize(text);
  std::vector<Cut> cuts;
  for (size_t i = 0; i + 1 < tokens.size(); ++i)
    if (tokens[i].is("typename") || tokens[i].is("template"))
      cuts.push_back({tokens[i].begin, tokens[i + 1].begin});
  return without(text, cuts);
}

}  // namespace lssar
