// Kernel bodies: registers, labels, instructions and their operands.
#include <bit>

#include "virtual/ptx/ptx_parser_impl.h"

namespace lssar::vdev {
namespace {

constexpr uint64_t kMaxFamily = 1u << 20;  // registers of one .reg declaration
constexpr size_t kMaxVector = 256;         // elements between braces
constexpr size_t kMaxOperands = 16;
constexpr const char* kNoFunctions = "functions besides kernels are not supported; inline them";

bool parse_class(std::string_view type, RegClass& reg_class) {
  if (type == ".pred") {
    reg_class = RegClass::kPred;
    return true;
  }
  switch (type_bytes(type)) {
    case 1:  // lies in the low bits of a wider one
    case 2:
      reg_class = RegClass::k16;
      return true;
    case 4:
      reg_class = RegClass::k32;
      return true;
    case 8:
      reg_class = RegClass::k64;
      return true;
    default:
      return false;
  }
}

}  // namespace

Status Parser::parse_body(ParsedKernel& kernel) {
  LSSAR_RETURN_IF_ERROR(expect('{', "before the kernel's body"));
  int depth = 1;
  while (depth > 0) {
    const Token token = lexer_.peek();
    if (token.kind == TokenKind::kEnd) {
      return error(token.line, "kernel {} does not end: '}}' is missing", kernel.name);
    }
    if (accept('{')) {
      if (!scopes_.push()) return error(token.line, "blocks are nested too deeply");
      ++depth;
    } else if (accept('}')) {
      if (--depth > 0) scopes_.pop();
    } else {
      Status status = parse_statement(kernel);
      if (!status.ok()) LSSAR_RETURN_IF_ERROR(skip_unknown(kernel, token, std::move(status)));
    }
  }
  return resolve_labels(kernel);
}

// The device does not know a statement: the kernel goes on after it. Later errors may come from
// names that the statement would have declared, so they are ignored; calls are still listed. An
// error before any such statement is an error of the module.
Status Parser::skip_unknown(ParsedKernel& kernel, const Token& first, Status status) {
  const bool is_known = status.code() != StatusCode::kUnsupported;
  if (is_known && kernel.unknown.empty()) return status;
  while (lexer_.peek().kind != TokenKind::kEnd && !lexer_.peek().is(';')) lexer_.next();
  const size_t begin = static_cast<size_t>(first.text.data() - module_.text.data());
  const std::string_view text =
      std::string_view(module_.text).substr(begin, lexer_.offset() - begin + 1);
  const bool is_call = text.starts_with("call") || text.find(" call") != text.npos;
  if (!is_known) {
    kernel.unknown.push_back({first.line, text, status.message()});
  } else if (is_call) {  // its parameter is unknown
    kernel.unknown.push_back({first.line, text, kNoFunctions});
  }
  return expect(';', "after a statement");
}

Status Parser::parse_statement(ParsedKernel& kernel) {
  const Token token = lexer_.peek();
  if (token.kind == TokenKind::kDirective) return parse_directive(kernel);
  if (accept(';')) return {};
  if (token.is('@') || token.kind == TokenKind::kWord) return parse_instruction(kernel);
  return unexpected(token, "a statement is expected");
}

Status Parser::parse_directive(ParsedKernel& kernel) {
  const Token token = lexer_.peek();
  if (token.is(".reg") || token.text.starts_with(".reg.")) return parse_registers(kernel);
  if (token.is(".shared") || token.is(".local") || token.is(".global") || token.is(".const")) {
    return parse_variable(false);
  }
  if (token.is(".param")) return parse_call_param(kernel);
  lexer_.next();
  if (token.is(".loc") || token.is(".file")) {
    lexer_.skip_line(token.line);
    return {};
  }
  if (token.is(".pragma")) {
    lexer_.next();
    return expect(';', "after .pragma");
  }
  if (token.is(".branchtargets")) return parse_branch_targets(kernel);
  return unknown("directive '{}' is not supported", token.text);
}

Status Parser::parse_registers(ParsedKernel& kernel) {
  Token type = lexer_.next();
  type.text.remove_prefix(std::string_view(".reg").size());
  if (type.text.empty()) type = lexer_.next();  // otherwise .reg.b32, as inline assembly writes it
  RegClass reg_class;
  if (!parse_class(type.text, reg_class)) {
    return unknown(".reg {}: not a supported register type", type.text);
  }
  do {
    const Token name = lexer_.next();
    if (name.kind != TokenKind::kWord) return unexpected(name, "a register's name is expected");
    bool declared;
    if (accept('<')) {
      uint64_t count = 0;
      LSSAR_RETURN_IF_ERROR(parse_number(count));
      if (count > kMaxFamily) {
        return error(name.line, "{}<{}>: at most {} registers", name.text, count, kMaxFamily);
      }
      LSSAR_RETURN_IF_ERROR(expect('>', "after the number of registers"));
      declared = scopes_.declare_family(name.text, reg_class, static_cast<uint32_t>(count));
    } else {
      declared = scopes_.declare(
          name.text, {SymbolKind::kRegister, static_cast<uint32_t>(kernel.registers.size())});
      kernel.registers.push_back(reg_class);
    }
    if (!declared) return error(name.line, "{} is declared twice", name.text);
  } while (accept(','));
  return expect(';', "after .reg");
}

Status Parser::parse_label(ParsedKernel& kernel, const Token& name) {
  last_label_ = name.text;
  if (scopes_.declare_label(name.text, static_cast<uint32_t>(kernel.instructions.size())))
    return {};
  return error(name.line, "label {} is defined twice", name.text);
}

Status Parser::parse_branch_targets(ParsedKernel& kernel) {
  const uint32_t line = lexer_.peek().line;
  const auto table = static_cast<int32_t>(kernel.branch_tables.size());
  if (last_label_.empty() || !scopes_.declare_table(last_label_, static_cast<uint32_t>(table))) {
    return error(line, ".branchtargets must follow a label of its own");
  }
  kernel.branch_tables.emplace_back();
  do {
    const Token name = lexer_.next();
    if (name.kind != TokenKind::kWord) return unexpected(name, "a label is expected");
    auto& entries = kernel.branch_tables.back();
    pending_.push_back(
        {name.text, scopes_.current(), name.line, static_cast<uint32_t>(entries.size()), table});
    entries.push_back(0);
  } while (accept(','));
  return expect(';', "after .branchtargets");
}

Status Parser::parse_guard(ParsedKernel& kernel, Instruction& instruction) {
  lexer_.next();  // @
  instruction.guard_negated = accept('!');
  const Token name = lexer_.next();
  const Symbol symbol = scopes_.find(name.text, kernel.registers);
  if (symbol.kind != SymbolKind::kRegister || kernel.registers[symbol.index] != RegClass::kPred) {
    return error(name.line, "@{}: not a predicate register", name.text);
  }
  instruction.guard = static_cast<int32_t>(symbol.index);
  return {};
}

Status Parser::parse_instruction(ParsedKernel& kernel) {
  Instruction instruction;
  const size_t begin = lexer_.offset();
  const bool guarded = lexer_.peek().is('@');
  if (guarded) LSSAR_RETURN_IF_ERROR(parse_guard(kernel, instruction));
  const Token opcode = lexer_.next();
  if (opcode.kind != TokenKind::kWord) return unexpected(opcode, "an instruction is expected");
  if (!guarded && accept(':')) return parse_label(kernel, opcode);
  instruction.opcode = opcode.text;
  instruction.line = opcode.line;
  if (opcode.is("call") || opcode.text.starts_with("call.")) {
    return parse_call(kernel, instruction, begin);
  }

  std::vector<Operand> operands;
  if (!lexer_.peek().is(';')) {
    do {
      if (operands.size() == kMaxOperands) return error(opcode.line, "too many operands");
      LSSAR_RETURN_IF_ERROR(parse_operand(kernel, operands.emplace_back()));
    } while (accept(','));
  }
  instruction.text = std::string_view(module_.text).substr(begin, lexer_.offset() - begin + 1);
  if (!lexer_.peek().is(';')) {
    return error(opcode.line, "';' expected after '{}', not '{}'", opcode.text.substr(0, 80),
                 lexer_.peek().text.substr(0, 80));
  }
  LSSAR_RETURN_IF_ERROR(rewrite_call_param(kernel, instruction, operands));
  lexer_.next();  // ;
  add_instruction(kernel, instruction, operands);
  return {};
}

void Parser::add_instruction(ParsedKernel& kernel, Instruction& instruction,
                             const std::vector<Operand>& operands) {
  instruction.first_operand = static_cast<uint32_t>(kernel.operands.size());
  instruction.num_operands = static_cast<uint32_t>(operands.size());
  for (const Operand& operand : operands) {
    if (operand.kind == OperandKind::kLabel) {
      pending_.push_back({operand.text, scopes_.current(), instruction.line,
                          static_cast<uint32_t>(kernel.operands.size()), -1});
    }
    kernel.operands.push_back(operand);
  }
  kernel.instructions.push_back(instruction);
}

Status Parser::parse_operand(ParsedKernel& kernel, Operand& operand) {
  if (lexer_.peek().is('{')) return parse_vector(kernel, operand);
  if (lexer_.peek().is('[')) return parse_address(kernel, operand);
  LSSAR_RETURN_IF_ERROR(parse_simple_operand(kernel, operand));
  if (lexer_.peek().is('|')) return parse_pair(kernel, operand);
  return {};
}

void Parser::append(ParsedKernel& kernel, const std::vector<Operand>& elements, Operand& operand) {
  operand.index = static_cast<uint32_t>(kernel.operands.size());
  operand.count = static_cast<uint32_t>(elements.size());
  kernel.operands.insert(kernel.operands.end(), elements.begin(), elements.end());
}

Status Parser::parse_pair(ParsedKernel& kernel, Operand& operand) {
  const uint32_t line = lexer_.next().line;  // |
  std::vector<Operand> elements{operand, {}};
  LSSAR_RETURN_IF_ERROR(parse_simple_operand(kernel, elements[1]));
  for (const Operand& e : elements) {
    if (e.kind != OperandKind::kRegister && e.kind != OperandKind::kSink) {
      return error(line, "'{}|{}': registers are expected", elements[0].text, elements[1].text);
    }
  }
  operand.kind = OperandKind::kPair;
  append(kernel, elements, operand);
  return {};
}

Status Parser::parse_vector(ParsedKernel& kernel, Operand& operand) {
  const Token brace = lexer_.next();
  std::vector<Operand> elements;
  do {
    if (elements.size() == kMaxVector) return error(brace.line, "a vector of too many elements");
    LSSAR_RETURN_IF_ERROR(parse_simple_operand(kernel, elements.emplace_back()));
    if (elements.back().kind == OperandKind::kLabel) {
      return error(brace.line, "unknown name '{}'", elements.back().text);
    }
  } while (accept(','));
  LSSAR_RETURN_IF_ERROR(expect('}', "after a vector"));
  operand.kind = OperandKind::kVector;
  operand.text = brace.text;
  append(kernel, elements, operand);
  return {};
}

// +4, -4 and +-4 (as NVVM writes negative offsets), any number of them.
Status Parser::parse_offset(int64_t& offset) {
  uint64_t sum = static_cast<uint64_t>(offset);
  while (lexer_.peek().is('+') || lexer_.peek().is('-')) {
    bool negative = lexer_.next().is('-');
    if (accept('-')) negative = !negative;
    uint64_t value = 0;
    LSSAR_RETURN_IF_ERROR(parse_number(value));
    sum += negative ? 0 - value : value;
  }
  offset = static_cast<int64_t>(sum);
  return {};
}

Status Parser::parse_address(ParsedKernel& kernel, Operand& operand) {
  const Token bracket = lexer_.next();
  std::vector<Operand> elements;
  Operand base;
  LSSAR_RETURN_IF_ERROR(parse_simple_operand(kernel, base));
  if (base.kind == OperandKind::kLabel) {
    return error(bracket.line, "unknown name '{}'", base.text);
  }
  int64_t offset = base.value;
  if (base.kind == OperandKind::kRegister) {
    offset = 0;
    LSSAR_RETURN_IF_ERROR(parse_offset(offset));
  }
  if (base.kind != OperandKind::kInteger) elements.push_back(base);
  while (accept(',')) {  // tensor coordinates
    Operand extra;
    if (lexer_.peek().is('{')) {
      LSSAR_RETURN_IF_ERROR(parse_vector(kernel, extra));
    } else {
      LSSAR_RETURN_IF_ERROR(parse_simple_operand(kernel, extra));
    }
    if (elements.size() == kMaxOperands) return error(bracket.line, "too many operands");
    elements.push_back(extra);
  }
  LSSAR_RETURN_IF_ERROR(expect(']', "after an address"));
  operand.kind = OperandKind::kAddress;
  operand.text = bracket.text;
  operand.value = offset;
  append(kernel, elements, operand);
  return {};
}

void Parser::classify_name(ParsedKernel& kernel, const Token& token, Operand& operand) {
  const Symbol symbol = scopes_.find(token.text, kernel.registers);
  operand.index = symbol.index;
  switch (symbol.kind) {
    case SymbolKind::kRegister:
      operand.kind = OperandKind::kRegister;
      break;
    case SymbolKind::kVariable:
      operand.kind = OperandKind::kVariable;
      break;
    case SymbolKind::kParam:
      operand.kind = OperandKind::kParam;
      break;
    case SymbolKind::kNone:
      operand.kind = token.text[0] == '%' ? OperandKind::kSpecial : OperandKind::kLabel;
      break;
  }
}

// A register, number, variable (with offset), label or _, with ! or - before it.
Status Parser::parse_simple_operand(ParsedKernel& kernel, Operand& operand) {
  operand.negated = accept('!');
  const bool minus = accept('-');
  const Token token = lexer_.next();
  operand.text = token.text;
  if (token.is("_")) {
    operand.kind = OperandKind::kSink;
  } else if (token.is("WARP_SZ")) {
    operand.kind = OperandKind::kInteger;
    operand.value = 32;
  } else if (token.kind == TokenKind::kWord) {
    classify_name(kernel, token, operand);
    if (operand.kind == OperandKind::kVariable || operand.kind == OperandKind::kParam) {
      LSSAR_RETURN_IF_ERROR(parse_offset(operand.value));
    }
  } else if (token.kind == TokenKind::kNumber) {
    uint64_t value = 0;
    bool is_single = false;
    if (parse_integer(token.text, value)) {
      operand.kind = OperandKind::kInteger;
      if (minus) value = 0 - value;
    } else if (parse_float(token.text, value, is_single)) {
      operand.kind = is_single ? OperandKind::kFloat32 : OperandKind::kFloat64;
      if (minus) value ^= uint64_t{1} << (is_single ? 31 : 63);
    } else {
      return error(token.line, "'{}' is not a number", token.text.substr(0, 80));
    }
    operand.value = static_cast<int64_t>(value);
    return {};
  } else {
    return unexpected(token, "an operand is expected");
  }
  if (minus) return error(token.line, "'-{}' is not an operand", token.text);
  return {};
}

Status Parser::resolve_labels(ParsedKernel& kernel) {
  for (const PendingTarget& target : pending_) {
    const Operand found = scopes_.find_target(target.name, target.scope);
    if (found.kind == OperandKind::kSink) {
      if (functions_.contains(target.name)) {
        kernel.unknown.push_back({target.line, target.name, kNoFunctions});
      }
      if (!kernel.unknown.empty()) continue;
      return error(target.line, "unknown name '{}'", target.name);
    }
    if (target.table < 0) {
      kernel.operands[target.operand] = found;
    } else if (found.kind == OperandKind::kLabel) {
      kernel.branch_tables[target.table][target.operand] = found.index;
    } else if (kernel.unknown.empty()) {
      return error(target.line, "'{}' is not a label", target.name);
    }
  }
  pending_.clear();
  last_label_ = {};
  return {};
}

}  // namespace lssar::vdev
