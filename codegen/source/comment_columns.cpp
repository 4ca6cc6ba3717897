#include "codegen/source/comment_columns.h"

#include <algorithm>
#include <string>

#include "codegen/source/source_tokens.h"

namespace lssar {
namespace {

// A data member in one line, and the comment beside it.
struct Line {
  std::string code, comment;  // no comment: not such a line

  explicit Line(const SourceItem& item) {
    if (!item.is_data || item.text.find('\n') + 1 != item.text.size()) return;
    const std::vector<Token> tokens = tokenize(item.text);
    if (tokens.size() < 2 || tokens.back().kind != TokenKind::kComment) return;
    code = item.text.substr(0, tokens[tokens.size() - 2].end);
    comment = tokens.back().text;
  }
};

}  // namespace

void align_comments(std::vector<SourceItem>& members) {
  for (size_t first = 0, last; first < members.size(); first = last) {
    std::vector<Line> lines = {Line(members[first])};
    last = first + 1;
    if (lines[0].comment.empty()) continue;
    for (; last < members.size(); ++last) {
      const Line line(members[last]);
      const bool is_apart = members[last].after_blank || !members[last].comment.empty();
      if (is_apart || line.comment.empty()) break;
      lines.push_back(line);
    }
    size_t column = 0, longest = 0;
    for (const Line& line : lines) {
      column = std::max(column, line.code.size() + 2);
      longest = std::max(longest, line.comment.size());
    }
    if (column + longest > kLineWidth) continue;
    for (size_t i = first; i < last; ++i) {
      const Line& line = lines[i - first];
      members[i].text =
          line.code + std::string(column - line.code.size(), ' ') + line.comment + "\n";
    }
  }
}

}  // namespace lssar
