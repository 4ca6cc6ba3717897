// Functions that are not kernels are skipped; a kernel that calls one cannot be launched. Calls of
// the functions that every device has, vprintf and __assertfail, are rewritten: a call's parameter
// becomes a register, and the call becomes an instruction with the function's name.
#include <algorithm>

#include "virtual/ptx/ptx_parser_impl.h"

namespace lssar::vdev {
namespace {

struct DeviceFunction {
  std::string_view name;
  std::string_view opcode;
  size_t num_params;
  size_t num_used;  // how many of them are used
};
constexpr DeviceFunction kDeviceFunctions[] = {
    {"vprintf", "call.vprintf", 2, 2},
    {"__assertfail", "call.__assertfail", 5, 4},
};

}  // namespace

Status Parser::skip_parentheses() {
  const uint32_t line = lexer_.next().line;
  while (!lexer_.peek().is(')')) {
    if (lexer_.next().kind == TokenKind::kEnd) return error(line, "the .func does not end");
  }
  return expect(')', "after parameters");
}

// .func [.attribute(...)] [(.param .b32 result)] name [(parameters)] [.noreturn] ; or a body.
Status Parser::parse_function() {
  const uint32_t line = lexer_.peek().line;
  while (lexer_.peek().kind == TokenKind::kDirective || lexer_.peek().is('(')) {
    if (lexer_.peek().is('(')) {
      LSSAR_RETURN_IF_ERROR(skip_parentheses());
    } else {
      lexer_.next();
    }
  }
  const Token name = lexer_.next();
  if (name.kind != TokenKind::kWord) return unexpected(name, "a function's name is expected");
  functions_.insert(name.text);
  while (!lexer_.peek().is(';') && !lexer_.peek().is('{')) {
    if (lexer_.next().kind == TokenKind::kEnd) return error(line, "the .func does not end");
  }
  if (accept(';')) return {};
  for (int depth = 0;;) {
    const Token token = lexer_.next();
    if (token.kind == TokenKind::kEnd) return error(line, "the .func does not end");
    depth += token.is('{') ? 1 : token.is('}') ? -1 : 0;
    if (depth == 0) return {};
  }
}

// .param .b64 name; within { } around a call.
Status Parser::parse_call_param(ParsedKernel& kernel) {
  const uint32_t line = lexer_.next().line;
  Token type = lexer_.next();
  if (type.is(".align")) {
    uint64_t align = 0;
    LSSAR_RETURN_IF_ERROR(parse_number(align));
    type = lexer_.next();
  }
  const uint32_t bytes = type_bytes(type.text);
  const Token name = lexer_.next();
  if (name.kind != TokenKind::kWord) return unexpected(name, "a parameter's name is expected");
  if (bytes != 4 && bytes != 8) {
    return unknown(".param {} {}: only numbers of 4 and 8 bytes are passed to functions", type.text,
                   name.text);
  }
  const auto index = static_cast<uint32_t>(kernel.registers.size());
  if (!scopes_.declare(name.text, {SymbolKind::kRegister, index})) {
    return error(line, "{} is declared twice", name.text);
  }
  kernel.registers.push_back(bytes == 4 ? RegClass::k32 : RegClass::k64);
  call_params_.push_back(index);
  return expect(';', "after .param");
}

bool Parser::is_call_param(const Operand& o) const {
  return o.kind == OperandKind::kRegister &&
         std::binary_search(call_params_.begin(), call_params_.end(), o.index);
}

// st.param.b64 [name+0], x and ld.param.b32 x, [name+0] become mov.
Status Parser::rewrite_call_param(const ParsedKernel& kernel, Instruction& in,
                                  std::vector<Operand>& operands) {
  const bool stores = in.opcode.starts_with("st.param.");
  if (!stores && !in.opcode.starts_with("ld.param.")) return {};
  const auto address = std::find_if(operands.begin(), operands.end(), [](const Operand& o) {
    return o.kind == OperandKind::kAddress;
  });
  if (address == operands.end() || operands.size() != 2 || address->count != 1) return {};
  const Operand base = kernel.operands[address->index];
  if (!is_call_param(base)) return {};
  const uint32_t bytes = type_bytes(in.opcode.substr(in.opcode.rfind('.')));
  const bool is_wide = kernel.registers[base.index] == RegClass::k64;
  if (address->value != 0 || bytes != (is_wide ? 8 : 4)) {
    return error(in.line, "{}: all {} bytes of {} are expected", in.opcode, is_wide ? 8 : 4,
                 base.text);
  }
  *address = base;
  in.opcode = is_wide ? "mov.b64" : "mov.b32";
  return {};
}

// (a, b, ...)
Status Parser::parse_call_list(ParsedKernel& kernel, std::vector<Operand>& operands) {
  LSSAR_RETURN_IF_ERROR(expect('(', "before a call's parameters"));
  if (accept(')')) return {};
  do {
    const Token name = lexer_.peek();
    LSSAR_RETURN_IF_ERROR(parse_simple_operand(kernel, operands.emplace_back()));
    if (!is_call_param(operands.back())) {
      return error(name.line, "'{}' is no .param declared for the call", name.text);
    }
  } while (accept(','));
  return expect(')', "after a call's parameters");
}

// call[.uni] [(result),] function [, (parameters)];
Status Parser::parse_call(ParsedKernel& kernel, Instruction in, size_t begin) {
  std::vector<Operand> operands;
  if (lexer_.peek().is('(')) {
    LSSAR_RETURN_IF_ERROR(parse_call_list(kernel, operands));
    LSSAR_RETURN_IF_ERROR(expect(',', "after a call's result"));
  }
  if (operands.size() > 1) return error(in.line, "a call with {} results", operands.size());
  if (operands.empty()) operands.emplace_back();  // a sink
  const Token name = lexer_.next();
  const auto* function = std::find_if(std::begin(kDeviceFunctions), std::end(kDeviceFunctions),
                                      [&](const DeviceFunction& f) { return f.name == name.text; });
  if (function == std::end(kDeviceFunctions)) {
    return unknown("call of {}: functions besides kernels are not supported; inline them",
                   name.text.substr(0, 80));
  }
  if (accept(',')) LSSAR_RETURN_IF_ERROR(parse_call_list(kernel, operands));
  in.text = std::string_view(module_.text).substr(begin, lexer_.offset() - begin + 1);
  LSSAR_RETURN_IF_ERROR(expect(';', "after a call"));
  if (operands.size() != 1 + function->num_params) {
    return error(in.line, "{} has {} parameters, not {}", name.text, function->num_params,
                 operands.size() - 1);
  }
  operands.resize(1 + function->num_used);
  in.opcode = function->opcode;
  add_instruction(kernel, in, operands);
  return {};
}

}  // namespace lssar::vdev
