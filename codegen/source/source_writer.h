// Builds generated source from lines at the current indent with named placeholders. All generated
// source uses it. The output depends only on the calls.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace lssar {

class SourceWriter {
 public:
  using Value = std::pair<std::string_view, std::string>;

  // Writes one line. Each $name$ in `text` is replaced by the value of that name. A placeholder
  // without a value, or a value without a placeholder, is a bug of the generator (assert).
  SourceWriter& line(std::string_view text = "", std::initializer_list<Value> values = {});
  // `text {` and the matching `}` + suffix.
  SourceWriter& open(std::string_view text, std::initializer_list<Value> values = {});
  SourceWriter& close(std::string_view suffix = "");
  // `static constexpr type name = value;`
  SourceWriter& constant(std::string_view type, std::string_view name, const std::string& value);
  // Writes a block of text unchanged.
  SourceWriter& raw(std::string_view text);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int indent_ = 0;
};

}  // namespace lssar
