// Names while a kernel is parsed: registers (also %r<100> families), variables, parameters, labels
// and branch tables, in nested {} scopes. Used by the parser alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "virtual/ptx/ptx_ast.h"

namespace lssar::vdev {

enum class SymbolKind : uint8_t { kNone, kRegister, kVariable, kParam };

struct Symbol {
  SymbolKind kind = SymbolKind::kNone;
  uint32_t index = 0;
};

class ScopeStack {
 public:
  // Forgets every kernel's names; module variables stay.
  void begin_kernel();
  void end_kernel() { current_ = 0; }
  // False: nested too deeply.
  bool push();
  // False: there is no scope to close.
  bool pop();
  uint32_t current() const { return current_; }

  // Each returns false if the innermost scope already has the name.
  bool declare(std::string_view name, Symbol symbol);
  // Declares `count` registers name0, name1, ...; each gets an index when it is first used.
  bool declare_family(std::string_view prefix, RegClass reg_class, uint32_t count);
  bool declare_label(std::string_view name, uint32_t instruction);
  bool declare_table(std::string_view name, uint32_t table);

  // Looks from the innermost scope outwards. A family's register is appended to `registers` when it
  // is first used.
  Symbol find(std::string_view name, std::vector<RegClass>& registers);
  // Looks outwards from `scope`, which may be closed already. kLabel or kTable; kSink: unknown.
  Operand find_target(std::string_view name, uint32_t scope) const;

 private:
  struct Family {
    RegClass reg_class;
    uint32_t count;
    std::vector<uint32_t> indices;  // 0: not used yet, else index + 1
  };
  struct Scope {
    uint32_t parent = 0;
    uint32_t depth = 0;
    std::unordered_map<std::string_view, Symbol> symbols;
    std::unordered_map<std::string_view, Family> families;
    std::unordered_map<std::string_view, uint32_t> labels;
    std::unordered_map<std::string_view, uint32_t> tables;
  };
  Symbol find_in_family(Scope& scope, std::string_view name, std::vector<RegClass>& registers);

  std::vector<Scope> scopes_ = std::vector<Scope>(1);  // 0: the module
  uint32_t current_ = 0;
  uint64_t family_entries_ = 0;  // over all families
};

}  // namespace lssar::vdev
