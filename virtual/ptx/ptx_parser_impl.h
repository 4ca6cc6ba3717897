// The parser's class, shared by ptx_parser.cpp (module level), ptx_statements.cpp (kernel bodies)
// and ptx_calls.cpp (calls of the functions that every device has).
#pragma once

#include <string_view>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "base/status.h"
#include "virtual/ptx/ptx_ast.h"
#include "virtual/ptx/ptx_lexer.h"
#include "virtual/ptx/ptx_scope.h"

namespace lssar::vdev {

class Parser {
 public:
  explicit Parser(ParsedModule& module) : module_(module), lexer_(module.text) {}
  Status parse_module();

 private:
  // ptx_parser.cpp
  Status parse_top_level();
  Status parse_section();
  Status parse_entry();
  Status parse_params(ParsedKernel& kernel);
  Status parse_param(ParsedKernel& kernel);
  Status parse_kernel_directives(ParsedKernel& kernel);
  Status parse_variable(bool is_extern);
  Status parse_variable_name(Variable variable, uint64_t elem_bytes);
  Status parse_initializer(Variable& variable, uint64_t elem_bytes);
  Status parse_initial_value(Variable& variable, uint64_t elem_bytes);
  Status parse_dimensions(uint64_t& elements, bool& unsized);
  Status parse_number(uint64_t& value);
  Status resolve_relocations();

  // ptx_statements.cpp
  Status parse_body(ParsedKernel& kernel);
  Status parse_statement(ParsedKernel& kernel);
  Status skip_unknown(ParsedKernel& kernel, const Token& first, Status status);
  Status parse_directive(ParsedKernel& kernel);
  Status parse_registers(ParsedKernel& kernel);
  Status parse_label(ParsedKernel& kernel, const Token& name);
  Status parse_branch_targets(ParsedKernel& kernel);
  Status parse_instruction(ParsedKernel& kernel);
  Status parse_guard(ParsedKernel& kernel, Instruction& instruction);
  Status parse_operand(ParsedKernel& kernel, Operand& operand);
  Status parse_simple_operand(ParsedKernel& kernel, Operand& operand);
  Status parse_vector(ParsedKernel& kernel, Operand& operand);
  Status parse_address(ParsedKernel& kernel, Operand& operand);
  Status parse_pair(ParsedKernel& kernel, Operand& operand);
  Status parse_offset(int64_t& offset);
  void classify_name(ParsedKernel& kernel, const Token& token, Operand& operand);
  void append(ParsedKernel& kernel, const std::vector<Operand>& elements, Operand& operand);
  Status resolve_labels(ParsedKernel& kernel);

  // ptx_calls.cpp
  Status parse_function();
  Status skip_parentheses();
  Status parse_call_param(ParsedKernel& kernel);
  Status parse_call(ParsedKernel& kernel, Instruction instruction, size_t begin);
  Status parse_call_list(ParsedKernel& kernel, std::vector<Operand>& operands);
  bool is_call_param(const Operand& operand) const;
  Status rewrite_call_param(const ParsedKernel& kernel, Instruction& instruction,
                            std::vector<Operand>& operands);

  void add_instruction(ParsedKernel& kernel, Instruction& instruction,
                       const std::vector<Operand>& operands);
  Status expect(char c, const char* where);
  bool accept(char c) {
    if (!lexer_.peek().is(c)) return false;
    lexer_.next();
    return true;
  }
  template <class... Args>
  Status error(uint32_t line, fmt::format_string<Args...> format, Args&&... args) {
    return device_error(
        fmt::format("PTX line {}: {}", line, fmt::format(format, std::forward<Args>(args)...)));
  }
  Status unexpected(const Token& token, const char* wanted);
  // A statement that this device does not know. The kernel that has it cannot be launched; the rest
  // of the module can.
  template <class... Args>
  Status unknown(fmt::format_string<Args...> format, Args&&... args) {
    return unsupported(fmt::format(format, std::forward<Args>(args)...));
  }

  ParsedModule& module_;
  Lexer lexer_;
  ScopeStack scopes_;
  bool in_kernel_ = false;

  // A name in the operand pool or in a branch table. It is looked up when the kernel ends.
  struct PendingTarget {
    std::string_view name;
    uint32_t scope;
    uint32_t line;
    uint32_t operand;  // pool index, or
    int32_t table;     // table >= 0: entry `operand` of that table
  };
  std::vector<PendingTarget> pending_;
  std::unordered_set<std::string_view> functions_;  // .func, by name
  std::vector<uint32_t> call_params_;  // of this kernel: the registers of call parameters
  std::string_view last_label_;
};

// Bytes of .b8 ... .f64, .pred; 0 for an unknown type.
uint32_t type_bytes(std::string_view type);

}  // namespace lssar::vdev
