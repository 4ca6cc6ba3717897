#include "codegen/source/source_writer.h"

#include <cassert>

namespace lssar {
namespace {

std::string substitute(std::string_view text, std::initializer_list<SourceWriter::Value> values) {
  std::string result;
  size_t used = 0;
  size_t at = 0;
  while (at < text.size()) {
    const size_t open = text.find('$', at);
    result += text.substr(at, open - at);
    if (open == std::string_view::npos) break;
    const size_t close = text.find('$', open + 1);
    assert(close != std::string_view::npos && "a placeholder ends with $");
    const std::string_view name = text.substr(open + 1, close - open - 1);
    bool found = false;
    for (const auto& [key, value] : values) {
      if (key != name) continue;
      result += value;
      found = true;
      ++used;
    }
    assert(found && "every placeholder needs a value");
    (void)found;
    at = close + 1;
  }
  assert(used >= values.size() && "every value needs a placeholder");
  return result;
}

}  // namespace

SourceWriter& SourceWriter::line(std::string_view text, std::initializer_list<Value> values) {
  if (!text.empty()) text_ += std::string(2 * indent_, ' ') + substitute(text, values);
  text_ += '\n';
  return *this;
}

SourceWriter& SourceWriter::open(std::string_view text, std::initializer_list<Value> values) {
  line(std::string(text) + " {", values);
  ++indent_;
  return *this;
}

SourceWriter& SourceWriter::close(std::string_view suffix) {
  assert(indent_ > 0 && "close without open");
  --indent_;
  return line("}" + std::string(suffix));
}

SourceWriter& SourceWriter::raw(std::string_view text) {
  text_ += text;
  return *this;
}

SourceWriter& SourceWriter::constant(std::string_view type, std::string_view name,
                                     const std::string& value) {
  return line("static constexpr $type$ $name$ = $value$;",
              {{"type", std::string(type)}, {"name", std::string(name)}, {"value", value}});
}

}  // namespace lssar
