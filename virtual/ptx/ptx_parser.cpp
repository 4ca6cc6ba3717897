// Module level: header, variables, kernel signatures.
#include "virtual/ptx/ptx_parser.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/round_up.h"
#include "virtual/ptx/ptx_parser_impl.h"

namespace lssar::vdev {
namespace {

constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxModuleBytes = uint64_t{1} << 31;  // of initialised variables together
constexpr uint64_t kMaxParamsBytes = 4096;               // the limit of sm_70 and later
constexpr uint64_t kMaxAlign = 1u << 16;

struct TypeSize {
  std::string_view name;
  uint32_t bytes;
};
constexpr TypeSize kTypes[] = {
    {".b8", 1},    {".u8", 1},     {".s8", 1},  {".b16", 2}, {".u16", 2}, {".s16", 2},
    {".f16", 2},   {".bf16", 2},   {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4},
    {".f16x2", 4}, {".bf16x2", 4}, {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8},
};

bool parse_space(std::string_view directive, StateSpace& space) {
  if (directive == ".global")
    space = StateSpace::kGlobal;
  else if (directive == ".const")
    space = StateSpace::kConst;
  else if (directive == ".shared")
    space = StateSpace::kShared;
  else if (directive == ".local")
    space = StateSpace::kLocal;
  else
    return false;
  return true;
}

}  // namespace

uint32_t type_bytes(std::string_view type) {
  for (const TypeSize& t : kTypes) {
    if (t.name == type) return t.bytes;
  }
  return 0;
}

Status Parser::expect(char c, const char* where) {
  if (accept(c)) return {};
  return error(lexer_.peek().line, "'{}' expected {}, not '{}'", c, where, lexer_.peek().text);
}

Status Parser::unexpected(const Token& token, const char* wanted) {
  if (token.kind == TokenKind::kEnd) return error(token.line, "the text ends where {}", wanted);
  return error(token.line, "'{}' where {}", token.text.substr(0, 80), wanted);
}

Status Parser::parse_number(uint64_t& value) {
  const Token token = lexer_.next();
  if (token.kind == TokenKind::kNumber && parse_integer(token.text, value)) return {};
  return unexpected(token, "an integer is expected");
}

Status Parser::parse_module() {
  while (lexer_.peek().kind != TokenKind::kEnd) LSSAR_RETURN_IF_ERROR(parse_top_level());
  if (module_.target.empty()) return device_error("the PTX has no .target line");
  return resolve_relocations();
}

Status Parser::parse_top_level() {
  bool is_extern = false;
  const auto is_linkage = [](std::string_view s) {
    return s == ".visible" || s == ".extern" || s == ".weak" || s == ".common";
  };
  while (is_linkage(lexer_.peek().text)) is_extern |= lexer_.next().is(".extern");

  const Token token = lexer_.peek();
  StateSpace space;
  if (parse_space(token.text, space)) return parse_variable(is_extern);
  lexer_.next();
  if (token.is(".version") || token.is(".file") || token.is(".loc")) {
    lexer_.skip_line(token.line);
    return {};
  }
  if (token.is(".target")) {
    module_.target = lexer_.peek().text;
    lexer_.skip_line(token.line);
    return {};
  }
  if (token.is(".address_size")) {
    uint64_t bits = 0;
    LSSAR_RETURN_IF_ERROR(parse_number(bits));
    return bits == 64 ? Status()
                      : error(token.line, ".address_size {}: only 64 is supported", bits);
  }
  if (token.is(".section")) return parse_section();
  if (token.is(".entry")) return parse_entry();
  if (token.is(".func")) return parse_function();
  if (token.is(".pragma")) {
    while (lexer_.peek().kind != TokenKind::kEnd && !lexer_.peek().is(';')) lexer_.next();
    return expect(';', "after .pragma");
  }
  return unexpected(token, "a kernel, a variable or a directive is expected");
}

// Skips debug information, which is not used.
Status Parser::parse_section() {
  const uint32_t line = lexer_.peek().line;
  while (lexer_.peek().kind != TokenKind::kEnd && !lexer_.peek().is('{')) lexer_.next();
  while (lexer_.peek().kind != TokenKind::kEnd && !lexer_.peek().is('}')) lexer_.next();
  return accept('}') ? Status() : error(line, ".section does not end");
}

// Elements of name[2][3]; `unsized` for name[].
Status Parser::parse_dimensions(uint64_t& elements, bool& unsized) {
  elements = 1;
  unsized = false;
  while (accept('[')) {
    if (accept(']')) {
      unsized = true;
      continue;
    }
    const uint32_t line = lexer_.peek().line;
    uint64_t size = 0;
    LSSAR_RETURN_IF_ERROR(parse_number(size));
    if (size > kMaxVariableBytes || elements * size > kMaxVariableBytes) {
      return error(line, "array size {}: more than {} bytes", size, kMaxVariableBytes);
    }
    elements *= size;
    LSSAR_RETURN_IF_ERROR(expect(']', "after an array size"));
  }
  return {};
}

Status Parser::parse_variable(bool is_extern) {
  Variable variable;
  variable.is_extern = is_extern;
  variable.line = lexer_.peek().line;
  parse_space(lexer_.next().text, variable.space);
  uint64_t elem_bytes = 0;
  uint64_t vector = 1;
  bool align_given = false;
  while (lexer_.peek().kind == TokenKind::kDirective) {
    const Token token = lexer_.next();
    if (token.is(".align")) {
      LSSAR_RETURN_IF_ERROR(parse_number(variable.align));
      align_given = true;
    } else if (token.is(".v2") || token.is(".v4")) {
      vector = token.text[2] == '2' ? 2 : 4;
    } else if (const uint32_t bytes = type_bytes(token.text); bytes != 0) {
      elem_bytes = bytes;
    } else {
      return error(token.line, "'{}' in a variable's declaration is not supported", token.text);
    }
  }
  if (elem_bytes == 0) return error(variable.line, "a variable without a type");
  elem_bytes *= vector;
  if (!align_given) variable.align = elem_bytes;
  if (!std::has_single_bit(variable.align) || variable.align > kMaxAlign) {
    return error(variable.line, ".align {}: must be a power of two up to {}", variable.align,
                 kMaxAlign);
  }
  do {
    LSSAR_RETURN_IF_ERROR(parse_variable_name(variable, elem_bytes));
  } while (accept(','));
  return expect(';', "after a variable");
}

Status Parser::parse_variable_name(Variable variable, uint64_t elem_bytes) {
  const Token name = lexer_.next();
  if (name.kind != TokenKind::kWord) return unexpected(name, "a variable's name is expected");
  variable.name = name.text;
  uint64_t elements = 0;
  bool unsized = false;
  LSSAR_RETURN_IF_ERROR(parse_dimensions(elements, unsized));
  if (unsized) elements = 0;
  variable.bytes = elements * elem_bytes;
  if (variable.bytes > kMaxVariableBytes) {
    return error(name.line, "{}: {} bytes, more than {}", name.text, variable.bytes,
                 kMaxVariableBytes);
  }
  if (lexer_.peek().is('=')) LSSAR_RETURN_IF_ERROR(parse_initializer(variable, elem_bytes));
  if (unsized) variable.bytes = variable.init.size();
  if (variable.bytes == 0 && variable.space != StateSpace::kShared) {
    return error(name.line, "{}: a variable of 0 bytes; only shared ones may lack a size",
                 name.text);
  }
  if (variable.is_extern && variable.space != StateSpace::kShared) {
    return error(name.line, "{}: extern variables are supported in shared memory only", name.text);
  }
  if (!scopes_.declare(variable.name,
                       {SymbolKind::kVariable, static_cast<uint32_t>(module_.variables.size())})) {
    return error(name.line, "{} is declared twice", name.text);
  }
  module_.variables.push_back(std::move(variable));
  return {};
}

Status Parser::parse_initializer(Variable& variable, uint64_t elem_bytes) {
  const uint32_t line = lexer_.next().line;  // =
  if (variable.space != StateSpace::kGlobal && variable.space != StateSpace::kConst) {
    return error(line, "{}: only .global and .const variables may have a value", variable.name);
  }
  if (!accept('{')) {
    LSSAR_RETURN_IF_ERROR(parse_initial_value(variable, elem_bytes));
  } else if (!accept('}')) {
    do {
      LSSAR_RETURN_IF_ERROR(parse_initial_value(variable, elem_bytes));
      if (variable.init.size() > kMaxVariableBytes) return error(line, "a value too long");
    } while (accept(','));
    LSSAR_RETURN_IF_ERROR(expect('}', "after a list of values"));
  }
  if (variable.bytes != 0 && variable.init.size() > variable.bytes) {
    return error(line, "{}: {} bytes of values for {} bytes", variable.name, variable.init.size(),
                 variable.bytes);
  }
  return {};
}

// An integer, a float, symbol, symbol+4 or generic(symbol).
Status Parser::parse_initial_value(Variable& variable, uint64_t elem_bytes) {
  const bool negative = accept('-');
  const Token token = lexer_.next();
  uint64_t value = 0;
  bool is_single = false;
  if (token.kind == TokenKind::kWord && !negative) {
    Token symbol = token;
    if (token.is("generic")) {
      LSSAR_RETURN_IF_ERROR(expect('(', "after generic"));
      symbol = lexer_.next();
      LSSAR_RETURN_IF_ERROR(expect(')', "after generic(name"));
    }
    if (elem_bytes != 8 || symbol.kind != TokenKind::kWord) {
      return error(token.line, "{}: an address needs an 8-byte element", symbol.text);
    }
    if (accept('+')) LSSAR_RETURN_IF_ERROR(parse_number(value));
    variable.relocations.push_back({variable.init.size(), symbol.text, symbol.line});
  } else if (token.kind != TokenKind::kNumber) {
    return unexpected(token, "a value is expected");
  } else if (!parse_integer(token.text, value)) {
    if (!parse_float(token.text, value, is_single)) {
      return error(token.line, "'{}' is not a number", token.text);
    }
    if (is_single && elem_bytes != 4) {
      return error(token.line, "'{}' for an element of {} bytes", token.text, elem_bytes);
    }
    if (!is_single && elem_bytes == 4) {
      value = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(value)));
    }
    if (negative) value ^= uint64_t{1} << (elem_bytes * 8 - 1);
  } else if (negative) {
    value = 0 - value;
  }
  if (elem_bytes > 8)
    return error(token.line, "{}: vectors with values are not supported", variable.name);
  uint8_t bytes[8];
  std::memcpy(bytes, &value, sizeof bytes);
  variable.init.insert(variable.init.end(), bytes, bytes + elem_bytes);
  return {};
}

Status Parser::resolve_relocations() {
  uint64_t total = 0;
  std::vector<RegClass> no_registers;
  for (const Variable& variable : module_.variables) {
    if (variable.space == StateSpace::kGlobal || variable.space == StateSpace::kConst) {
      total += variable.bytes;
    }
    if (total > kMaxModuleBytes)
      return error(variable.line, "variables exceed {} bytes", kMaxModuleBytes);
    for (const Variable::Relocation& r : variable.relocations) {
      const Symbol symbol = scopes_.find(r.symbol, no_registers);
      if (symbol.kind != SymbolKind::kVariable) {
        return error(r.line, "'{}' is no variable of this module", r.symbol);
      }
    }
  }
  return {};
}

Status Parser::parse_entry() {
  const Token name = lexer_.next();
  if (name.kind != TokenKind::kWord) return unexpected(name, "a kernel's name is expected");
  if (!scopes_.declare(name.text, {})) {
    return error(name.line, "{} is declared twice", name.text);
  }
  auto kernel = std::make_unique<ParsedKernel>();
  kernel->name = name.text;
  kernel->line = name.line;
  scopes_.begin_kernel();
  in_kernel_ = true;
  LSSAR_RETURN_IF_ERROR(parse_params(*kernel));
  LSSAR_RETURN_IF_ERROR(parse_kernel_directives(*kernel));
  call_params_.clear();
  LSSAR_RETURN_IF_ERROR(parse_body(*kernel));
  in_kernel_ = false;
  module_.kernels.push_back(std::move(kernel));
  scopes_.end_kernel();
  return {};
}

Status Parser::parse_params(ParsedKernel& kernel) {
  if (!accept('(') || accept(')')) return {};
  do {
    LSSAR_RETURN_IF_ERROR(parse_param(kernel));
  } while (accept(','));
  return expect(')', "after the parameters");
}

Status Parser::parse_param(ParsedKernel& kernel) {
  const Token first = lexer_.next();
  if (!first.is(".param")) return unexpected(first, "a .param is expected");
  Variable param;
  param.space = StateSpace::kParam;
  param.line = first.line;
  uint64_t elem_bytes = 0;
  uint64_t align = 0;
  bool pointer = false;
  while (lexer_.peek().kind == TokenKind::kDirective) {
    const Token token = lexer_.next();
    if (token.is(".align")) {
      uint64_t value = 0;
      LSSAR_RETURN_IF_ERROR(parse_number(value));
      if (!pointer) align = value;  // after .ptr it is that of the memory pointed to
    } else if (token.is(".ptr")) {
      pointer = true;
    } else if (const uint32_t bytes = type_bytes(token.text); bytes != 0) {
      elem_bytes = bytes;
    } else if (!pointer) {
      return error(token.line, "'{}' in a parameter's declaration is not supported", token.text);
    }
  }
  const Token name = lexer_.next();
  if (name.kind != TokenKind::kWord) return unexpected(name, "a parameter's name is expected");
  uint64_t elements = 0;
  bool unsized = false;
  LSSAR_RETURN_IF_ERROR(parse_dimensions(elements, unsized));
  if (align == 0) align = elem_bytes;
  if (elem_bytes == 0 || unsized || elements > kMaxParamsBytes || !std::has_single_bit(align) ||
      align > kMaxAlign) {
    return error(name.line, "parameter {}: no type, no size, or a bad alignment", name.text);
  }
  param.name = name.text;
  param.align = align;
  param.bytes = elements * elem_bytes;
  param.address = round_up(kernel.params_bytes, align);
  if (param.address + param.bytes > kMaxParamsBytes) {
    return error(name.line, "parameters exceed {} bytes", kMaxParamsBytes);
  }
  kernel.params_bytes = static_cast<uint32_t>(param.address + param.bytes);
  if (!scopes_.declare(param.name,
                       {SymbolKind::kParam, static_cast<uint32_t>(kernel.params.size())})) {
    return error(name.line, "{} is declared twice", name.text);
  }
  kernel.params.push_back(std::move(param));
  return {};
}

// .maxntid 128, 1, 1 and the like, between the parameters and the body.
Status Parser::parse_kernel_directives(ParsedKernel& kernel) {
  while (lexer_.peek().kind == TokenKind::kDirective) {
    const Token token = lexer_.next();
    if (token.is(".pragma")) {
      lexer_.next();
      LSSAR_RETURN_IF_ERROR(expect(';', "after .pragma"));
      continue;
    }
    uint64_t values[3] = {1, 1, 1};
    int count = 0;
    while (lexer_.peek().kind == TokenKind::kNumber && count < 3) {
      LSSAR_RETURN_IF_ERROR(parse_number(values[count++]));
      if (!accept(',')) break;
    }
    const uint64_t limit = std::numeric_limits<uint16_t>::max();
    if (values[0] > limit || values[1] > limit || values[2] > limit) {
      return error(token.line, "{} {}, {}, {}: too large", token.text, values[0], values[1],
                   values[2]);
    }
    if (token.is(".maxntid")) {
      const uint64_t threads = values[0] * values[1] * values[2];
      kernel.max_threads = static_cast<uint32_t>(std::min<uint64_t>(threads, 1u << 31));
    } else if (token.is(".reqntid")) {
      kernel.has_required_block = true;
      for (int i = 0; i < 3; ++i) kernel.required_block[i] = static_cast<uint32_t>(values[i]);
    } else if (token.is(".minnctapersm")) {
      kernel.min_blocks = static_cast<uint32_t>(values[0]);
    } else if (token.is(".maxnreg")) {
      kernel.max_registers = static_cast<uint32_t>(values[0]);
    } else if (token.is(".explicitcluster")) {
      kernel.explicit_cluster = true;
    } else if (token.is(".reqnctapercluster")) {
      kernel.has_required_cluster = true;
      for (int i = 0; i < 3; ++i) kernel.required_cluster[i] = static_cast<uint32_t>(values[i]);
    } else if (!token.is(".maxclusterrank") && !token.is(".maxnctapersm") &&
               !token.is(".noreturn")) {
      return error(token.line, "kernel {}: directive '{}' is not supported", kernel.name,
                   token.text);
    }
  }
  return {};
}

Result<std::unique_ptr<ParsedModule>> parse_ptx(std::string text) {
  if (text.size() > kMaxTextBytes) {
    return device_error(fmt::format("PTX of {} bytes: at most {}", text.size(), kMaxTextBytes));
  }
  while (!text.empty() && text.back() == '\0') text.pop_back();
  auto module = std::make_unique<ParsedModule>();
  module->text = std::move(text);
  LSSAR_RETURN_IF_ERROR(Parser(*module).parse_module());
  return module;
}

}  // namespace lssar::vdev
