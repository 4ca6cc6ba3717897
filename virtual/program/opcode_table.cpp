#include "virtual/program/opcode_table.h"

#include <map>

#include "virtual/program/handler_sets.h"
#include "virtual/program/opcode_order.h"

namespace lssar::vdev {

namespace {

std::string_view base_of(std::string_view opcode) {
  return opcode.substr(0, opcode.find_first_of(".[("));
}

}  // namespace

bool opcode_matches(const char* pattern, std::string_view opcode) {
  while (*pattern != '\0') {
    const char open = *pattern;
    if (open != '[' && open != '(') {
      if (opcode.empty() || opcode[0] != open) return false;
      opcode.remove_prefix(1);
      ++pattern;
      continue;
    }
    const char close = open == '[' ? ']' : ')';
    std::string_view group(pattern + 1);
    group = group.substr(0, group.find(close));
    const char* rest = pattern + 1 + group.size() + 1;
    while (true) {
      const size_t bar = group.find('|');
      const std::string_view choice = group.substr(0, bar);
      if (opcode.substr(0, choice.size()) == choice &&
          opcode_matches(rest, opcode.substr(choice.size()))) {
        return true;
      }
      if (bar == std::string_view::npos) break;
      group.remove_prefix(bar + 1);
    }
    if (open == '(') return false;
    pattern = rest;
  }
  return opcode.empty();
}

bool has_modifier(std::string_view opcode, std::string_view modifier) {
  for (size_t at = opcode.find(modifier); at != std::string_view::npos;
       at = opcode.find(modifier, at + 1)) {
    const size_t end = at + modifier.size();
    if (end == opcode.size() || opcode[end] == '.') return true;
  }
  return false;
}

OpcodeTable::OpcodeTable(const HandlerSet& handlers) : handlers_(handlers) {
  for (uint32_t s = 0; s < handlers.num_spans; ++s) {
    const RowSpan& span = *handlers.spans[s];
    for (uint32_t i = 0; i < span.count; ++i) {
      by_base_[base_of(span.rows[i].opcode)].push_back(&span.rows[i]);
    }
  }
}

std::vector<const Row*> OpcodeTable::find(std::string_view opcode) const {
  std::vector<const Row*> found;
  const auto rows = by_base_.find(base_of(opcode));
  if (rows == by_base_.end()) return found;
  for (const Row* row : rows->second) {
    if (opcode_matches(row->opcode, opcode)) found.push_back(row);
  }
  return found;
}

std::string OpcodeTable::in_row_order(std::string_view opcode) const {
  const auto rows = by_base_.find(base_of(opcode));
  if (rows == by_base_.end() || !find(opcode).empty()) return std::string(opcode);
  for (const Row* row : rows->second) {
    if (const auto ordered = in_order_of(row->opcode, opcode)) return *ordered;
  }
  return std::string(opcode);
}

const OpcodeTable& opcode_table(SimdLevel level) {
  static const std::map<SimdLevel, OpcodeTable> tables = [] {
    std::map<SimdLevel, OpcodeTable> made;
    for (const SimdLevel each : available_simd_levels()) made.emplace(each, *handler_set(each));
    return made;
  }();
  return tables.at(level);
}

}  // namespace lssar::vdev
