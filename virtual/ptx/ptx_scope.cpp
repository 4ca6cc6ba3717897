#include "virtual/ptx/ptx_scope.h"

#include <charconv>

namespace lssar::vdev {
namespace {
constexpr uint32_t kMaxDepth = 64;
constexpr size_t kMaxDigits = 10;                 // of a register's number
constexpr uint64_t kMaxFamilyEntries = 1u << 22;  // bounds memory for hostile text
}  // namespace

void ScopeStack::begin_kernel() {
  scopes_.resize(1);
  current_ = 0;
  push();
}

bool ScopeStack::push() {
  if (scopes_[current_].depth >= kMaxDepth) return false;
  Scope scope;
  scope.parent = current_;
  scope.depth = scopes_[current_].depth + 1;
  current_ = static_cast<uint32_t>(scopes_.size());
  scopes_.push_back(std::move(scope));
  return true;
}

bool ScopeStack::pop() {
  if (current_ == 0) return false;
  current_ = scopes_[current_].parent;
  return true;
}

bool ScopeStack::declare(std::string_view name, Symbol symbol) {
  return scopes_[current_].symbols.emplace(name, symbol).second;
}

bool ScopeStack::declare_family(std::string_view prefix, RegClass reg_class, uint32_t count) {
  return scopes_[current_].families.emplace(prefix, Family{reg_class, count, {}}).second;
}

bool ScopeStack::declare_label(std::string_view name, uint32_t instruction) {
  return scopes_[current_].labels.emplace(name, instruction).second;
}

bool ScopeStack::declare_table(std::string_view name, uint32_t table) {
  return scopes_[current_].tables.emplace(name, table).second;
}

Symbol ScopeStack::find_in_family(Scope& scope, std::string_view name,
                                  std::vector<RegClass>& registers) {
  size_t digits = name.size();
  while (digits > 0 && name.size() - digits < kMaxDigits && name[digits - 1] >= '0' &&
         name[digits - 1] <= '9') {
    --digits;
  }
  // "%r07" is not a register of the family %r. A prefix may itself end in a digit.
  for (size_t split = digits; split < name.size(); ++split) {
    if (name[split] == '0' && split + 1 != name.size()) continue;
    const auto found = scope.families.find(name.substr(0, split));
    if (found == scope.families.end()) continue;
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(name.begin() + split, name.end(), number);
    Family& family = found->second;
    if (error != std::errc() || number >= family.count) continue;
    if (number >= family.indices.size()) {
      family_entries_ += number + 1 - family.indices.size();
      if (family_entries_ > kMaxFamilyEntries) return {};
      family.indices.resize(number + 1);
    }
    if (family.indices[number] == 0) {
      registers.push_back(family.reg_class);
      family.indices[number] = static_cast<uint32_t>(registers.size());
    }
    return {SymbolKind::kRegister, family.indices[number] - 1};
  }
  return {};
}

Symbol ScopeStack::find(std::string_view name, std::vector<RegClass>& registers) {
  for (uint32_t s = current_;; s = scopes_[s].parent) {
    Scope& scope = scopes_[s];
    if (const auto found = scope.symbols.find(name); found != scope.symbols.end()) {
      return found->second;
    }
    if (!scope.families.empty()) {
      const Symbol symbol = find_in_family(scope, name, registers);
      if (symbol.kind != SymbolKind::kNone) return symbol;
    }
    if (s == 0) return {};
  }
}

Operand ScopeStack::find_target(std::string_view name, uint32_t s) const {
  Operand operand;
  operand.text = name;
  for (;; s = scopes_[s].parent) {
    const Scope& scope = scopes_[s];
    if (const auto found = scope.tables.find(name); found != scope.tables.end()) {
      operand.kind = OperandKind::kTable;
      operand.index = found->second;
      return operand;
    }
    if (const auto found = scope.labels.find(name); found != scope.labels.end()) {
      operand.kind = OperandKind::kLabel;
      operand.index = found->second;
      return operand;
    }
    if (s == 0) return operand;
  }
}

}  // namespace lssar::vdev
