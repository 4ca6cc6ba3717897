#include "inspect/source_lines.h"

#include <algorithm>
#include <charconv>

namespace lssar {
namespace {

// The second number after `word`, as in `.loc FILE LINE COLUMN`; -1 if the word is missing.
int second_number(std::string_view text, std::string_view word) {
  const size_t first = text.find(word);
  if (first == text.npos) return -1;
  const char* at = text.data() + first + word.size();
  const char* const end = text.data() + text.size();
  int file = 0, line = -1;
  for (int* const value : {&file, &line}) {
    while (at != end && (*at == ' ' || *at == '\t')) ++at;
    at = std::from_chars(at, end, *value).ptr;
  }
  return line;
}

}  // namespace

std::vector<SourcePlace> places_of_ptx(std::string_view ptx) {
  std::vector<SourcePlace> places = {{}};
  SourcePlace now;
  while (!ptx.empty()) {
    const size_t end = std::min(ptx.find('\n'), ptx.size());
    const std::string_view text = ptx.substr(0, end);
    if (text.rfind("}", 0) == 0) now = {};  // a function's end
    if (const int line = second_number(text, ".loc"); line >= 0)
      now = {line, std::max(0, second_number(text, "inlined_at"))};
    places.push_back(now);
    ptx.remove_prefix(std::min(end + 1, ptx.size()));
  }
  return places;
}

std::map<SourcePlace, LineActivity> activity_by_place(const std::vector<LineCounters>& lines,
                                                      const std::vector<SourcePlace>& places) {
  std::map<SourcePlace, LineActivity> activity;
  for (const LineCounters& one : lines) {
    LineActivity& sum = activity[one.line < places.size() ? places[one.line] : SourcePlace()];
    sum.warp_instructions += one.executed.warps;
    sum.lanes += one.executed.lanes;
    sum.global.add(one.global);
    sum.global_excess += one.global_excess;
    sum.shared.add(one.shared);
  }
  return activity;
}

}  // namespace lssar
