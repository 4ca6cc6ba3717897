#include "tests/fuzz/ptx_mutator.h"

#include <algorithm>

#include <fmt/format.h>

#include "virtual/program/opcode_table.h"

namespace lssar::test {
namespace {

using vdev::Bind;
using vdev::Row;

const char* const kIntegers[] = {"0",  "1",   "2",    "4",          "8",  "16",         "31",
                                 "32", "128", "1024", "0x7fffffff", "-1", "0xffffffff", "65535"};

bool is_name_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%' || c == '.';
}

// Cut behind every semicolon, brace and line end.
std::vector<std::string> statements(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ';' && text[i] != '\n') continue;
    parts.push_back(text.substr(begin, i + 1 - begin));
    begin = i + 1;
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  return parts;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

std::vector<std::pair<size_t, size_t>> words(const std::string& text) {
  std::vector<std::pair<size_t, size_t>> found;  // begin, length
  for (size_t i = 0; i < text.size();) {
    if (!is_name_part(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && is_name_part(text[i])) ++i;
    found.emplace_back(begin, i - begin);
  }
  return found;
}

// What printf and assert need beside the instruction.
const char* const kCallDeclarations =
    ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
    ".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d,\n"
    ".param .b64 e) .noreturn;\n"
    ".global .align 1 .b8 text[24] = {37, 42, 46, 42, 102, 37, 45, 53, 104, 104, 120, 37, 115, "
    "37,\n"
    "108, 108, 100, 37, 112, 37, 99, 37, 37, 0};\n"
    ".global .align 1 .b8 word[4] = {119, 37, 100, 0};\n";
const char* const kCallPrintf =
    "{ .param .b64 p0; mov.u64 %l8, text; st.param.b64 [p0+0], %l8; .param .b64 p1;\n"
    "cvta.local.u64 %l9, %l3; st.param.b64 [p1+0], %l9; st.local.b32 [lc], 6;\n"
    "st.local.b32 [lc+4], 2; st.local.b64 [lc+8], 0x400921FB54442D18; st.local.b32 [lc+16], %r1;\n"
    "mov.u64 %l8, word; st.local.b64 [lc+24], %l8; st.local.b64 [lc+32], -3;\n"
    ".param .b32 r0; call.uni (r0), vprintf, (p0, p1); ld.param.b32 %r7, [r0+0]; }";
const char* const kCallAssert =
    "{ .param .b64 p0; mov.u64 %l8, text; st.param.b64 [p0+0], %l8; .param .b64 p1;\n"
    "mov.u64 %l9, word; st.param.b64 [p1+0], %l9; .param .b32 p2; st.param.b32 [p2+0], 7;\n"
    ".param .b64 p3; st.param.b64 [p3+0], %l9; .param .b64 p4; st.param.b64 [p4+0], 1;\n"
    "call.uni __assertfail, (p0, p1, p2, p3, p4); }";

char width_letter(std::string_view opcode) {
  for (const char* type : {".b64", ".u64", ".s64", ".f64"}) {
    if (opcode.ends_with(type)) return 'l';
  }
  for (const char* type : {".b16", ".u16", ".s16", ".b8", ".u8", ".s8", ".f16", ".bf16"}) {
    if (opcode.ends_with(type)) return 'h';
  }
  return 'w';
}

}  // namespace

std::vector<std::string> split_kernels(const std::string& text) {
  std::string shared;
  std::vector<std::string> kernels;
  for (size_t at = 0; at < text.size();) {
    const size_t entry = text.find(".entry", at);
    if (entry == std::string::npos) {
      shared += text.substr(at);
      break;
    }
    const size_t begin = text.rfind('\n', entry) + 1;
    shared += text.substr(at, begin - at);
    at = std::min(text.find('{', entry), text.size());
    for (int depth = 0; at < text.size();) {
      depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
      ++at;
      if (depth == 0) break;
    }
    kernels.push_back(text.substr(begin, at - begin));
  }
  for (std::string& kernel : kernels) kernel = shared + "\n" + kernel + "\n";
  return kernels;
}

PtxMutator::PtxMutator(uint32_t seed) : random_(seed) {
  const vdev::HandlerSet& set = vdev::opcode_table(SimdLevel::kPlain).handlers();
  for (uint32_t s = 0; s < set.num_spans; ++s) {
    for (uint32_t i = 0; i < set.spans[s]->count; ++i) rows_.push_back(&set.spans[s]->rows[i]);
  }
}

std::string PtxMutator::kernel(std::string_view body, uint32_t first_line) {
  const bool calls = body.find("call.uni") != std::string_view::npos;
  return fmt::format(
      R"(// {}
.version 8.5
.target sm_90a
.address_size 64
{}.global .align 16 .b8 gv[256];
.const .align 16 .b8 cv[64];
.extern .shared .align 1024 .b8 dyn[];
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .align 64 .b8 map[128])
{{
.reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<80>; .reg .b64 %l<16>;
.shared .align 1024 .b8 sm[4096]; .local .align 16 .b8 lc[64];
ld.param.u64 %l0, [a]; ld.param.u64 %l1, [b]; ld.param.u32 %r0, [n];
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.b64 %l2, map; mov.u64 %l3, lc;
cvta.param.u64 %l2, %l2; cvt.u64.u32 %l7, %r2; cvta.shared.u64 %l7, %l7; mov.u64 %l5, 0;
mov.u32 %r3, 5; mov.u64 %l4, 0x4000004000010000; setp.lt.u32 %p1, %r1, %r0;
mov.u16 %h0, 3; add.u32 %r4, %r2, 2048; mov.u32 %r5, 0; mov.u32 %r6, -1;
{}
ret;
}}
)",
      first_line, calls ? kCallDeclarations : "", body);
}

std::string PtxMutator::opcode(const char* pattern) {
  std::string result;
  for (const char* p = pattern; *p != '\0'; ++p) {
    if (*p != '[' && *p != '(') {
      result += *p;
      continue;
    }
    const char close = *p == '[' ? ']' : ')';
    const bool optional = *p == '[';
    const std::string_view rest(p + 1);
    const std::string_view group = rest.substr(0, rest.find(close));
    std::vector<std::string_view> choices;
    for (size_t begin = 0; begin <= group.size();) {
      const size_t end = std::min(group.find('|', begin), group.size());
      choices.push_back(group.substr(begin, end - begin));
      begin = end + 1;
    }
    if (!optional || below(2) == 0) result += choices[below(choices.size())];
    p += group.size() + 1;
  }
  return result;
}

std::string PtxMutator::reg(char letter) {
  switch (letter) {
    case 'p':
      return fmt::format("%p{}", below(8));
    case 'h':
      return fmt::format("%h{}", below(16));
    case 'l':
      return fmt::format("%l{}", below(16));
    case 'i':
      return kIntegers[below(std::size(kIntegers))];
    default:
      return fmt::format("%r{}", below(4) == 0 ? below(80) : below(8));
  }
}

std::string PtxMutator::vector(std::string_view letters) {
  std::string text = "{";
  for (size_t i = 0; i < letters.size(); ++i) text += (i == 0 ? "" : ", ") + reg(letters[i]);
  return text + "}";
}

std::string PtxMutator::address() {
  static const char* const kBases[] = {"%l0", "%l1", "%l2",  "%l3", "%r2", "%r4",
                                       "sm",  "gv",  "dyn",  "lc",  "cv",  "map",
                                       "%l0", "%r2", "sm+8", "%r4", "%l1", "sm+2048"};
  std::string base = kBases[below(std::size(kBases))];
  if (below(3) == 0) base += fmt::format("+{}", 4 * below(64));
  if (below(24) == 0) base = reg("lw"[below(2)]);
  return "[" + base + "]";
}

std::string PtxMutator::operand() {
  switch (below(8)) {
    case 0:
      return reg('l');
    case 1:
      return reg('p');
    case 2:
      return reg('h');
    case 3:
      return reg('i');
    case 4:
      return address();
    case 5:
      return vector(std::string(size_t{1} << below(6), 'w'));
    case 6:
      return fmt::format("[map, {{%r{}, %r{}}}]", 3 + below(4), 3 + below(4));
    default:
      return reg('w');
  }
}

// A register, or as many as a vector access moves.
std::string PtxMutator::data_operand(std::string_view op) {
  const char letter = width_letter(op);
  for (const size_t count : {2, 4, 8}) {
    if (op.find(fmt::format(".v{}", count)) != std::string_view::npos) {
      return vector(std::string(count, letter));
    }
  }
  return reg(letter);
}

// m64nNk16: N / 2 registers of f32 or s32, N / 4 of f16x2. Integers have no scales.
std::vector<std::string> PtxMutator::wgmma_operands(std::string_view op) {
  uint32_t n = 0;
  for (const char c : op.substr(op.find("m64n") + 4)) {
    if (c < '0' || c > '9') break;
    n = n * 10 + static_cast<uint32_t>(c - '0');
  }
  const bool integers = op.find(".s32") != std::string_view::npos;
  const bool wide = integers || op.find(".f32") != std::string_view::npos;
  std::string d = "{";
  for (uint32_t i = 0; i < n / (wide ? 2 : 4); ++i) {
    d += fmt::format("{}%r{}", i == 0 ? "" : ", ", 8 + i);
  }
  const bool from_registers = below(2) == 0;
  std::vector<std::string> list = {d + "}", from_registers ? vector("wwww") : "%l4", "%l4", "%p1"};
  if (integers) return list;
  list.push_back(below(2) == 0 ? "1" : "-1");
  list.push_back("1");
  const bool transposes = op.ends_with(".f16.f16") || op.ends_with(".bf16.bf16");
  if (transposes && !from_registers) list.push_back(reg('i'));
  if (transposes) list.push_back(below(2) == 0 ? "0" : "1");
  return list;
}

std::string PtxMutator::barrier_address() {
  return below(8) == 0 ? address() : below(2) == 0 ? "[%r4]" : "[%r2+3072]";
}

// Bulk and tensor copies: destination, source, size, barrier, mask, policy, as the opcode says.
std::vector<std::string> PtxMutator::bulk_operands(std::string_view op) {
  const auto has = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
  const size_t size_choice = below(3);
  const std::string size = size_choice == 0 ? "16" : size_choice == 1 ? "64" : "%r0";
  std::string global = "[%l0]";
  if (has(".tensor.")) {
    const char digit = op[op.find(".tensor.") + 8];
    const std::string coordinates(digit >= '1' && digit <= '5' ? size_t(digit - '0') : 2, 'w');
    global = "[%l2, " + vector(coordinates) + "]";
  }
  std::vector<std::string> list;
  const bool loads = has("shared::cluster.global") || has("shared::cta.global");
  if (has("prefetch")) {
    list = {global};
  } else if (loads) {
    list = {"[%r2]", global};
  } else if (has("shared::cluster.shared::cta")) {
    list = {"[%r2]", "[%r2+1024]"};
  } else {
    list = {global, "[%r2]"};
  }
  if (!has(".tensor.")) list.push_back(size);
  if (has("complete_tx")) list.push_back(barrier_address());
  if (has("multicast")) list.push_back("%h0");
  if (has("cache_hint")) list.push_back("%l5");
  return list;
}

// mbarrier, bar.red, shuffles, elections.
std::vector<std::string> PtxMutator::sync_operands(std::string_view op) {
  const auto has = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
  if (op.starts_with("shfl")) return {reg('w'), reg('w'), reg("wi"[below(2)]), "31", "-1"};
  if (op.starts_with("elect")) return {"%r7|%p2", "-1"};
  if (has(".red")) {
    return {has("popc") ? "%r7" : "%p2", below(2) == 0 ? "0" : reg('i'), "%p1"};
  }
  if (has("wait")) return {"%p2", barrier_address(), has("parity") ? "%r5" : "%l6"};
  if (has(".init")) return {barrier_address(), below(2) == 0 ? "1" : reg('i')};
  if (has(".inval")) return {barrier_address()};
  if (has(".arrive.expect_tx")) return {below(2) == 0 ? "_" : "%l6", barrier_address(), "64"};
  if (has("_tx")) return {barrier_address(), "64"};
  std::vector<std::string> list = {below(2) == 0 ? "_" : "%l6", barrier_address()};
  if (has("noComplete") || below(3) == 0) list.push_back("1");
  return list;
}

// The letters of generic_operands.h.
std::vector<std::string> PtxMutator::generic_operands(std::string_view letters) {
  std::vector<std::string> list;
  for (size_t i = 0; i < letters.size(); ++i) {
    const bool optional = i + 1 < letters.size() && letters[i + 1] == '?';
    if (letters[i] == '?' || (optional && below(2) == 0)) continue;
    if (letters[i] == '{') {
      const size_t end = letters.find('}', i);
      list.push_back(vector(letters.substr(i + 1, end - i - 1)));
      i = end;
    } else if (letters[i] == '*') {
      list.push_back(address());
    } else if (letters[i] == '#') {
      list.push_back(below(8) == 0 ? operand() : "128");
    } else if (letters[i] == '@') {
      list.push_back(i + 1 == letters.size() ? barrier_address() : address());
    } else if (letters[i] >= 'A' && letters[i] <= 'Z') {
      list.push_back(reg(static_cast<char>(letters[i] - 'A' + 'a')));
    } else {
      list.push_back(below(2) == 0 ? reg('i') : reg(letters[i]));
    }
  }
  return list;
}

std::vector<std::string> PtxMutator::operands(const Row& row, std::string_view op) {
  const std::string_view letters = row.operands;
  std::vector<std::string> list;
  const auto begins = [&](std::string_view start) { return op.starts_with(start); };
  if (begins("wgmma.mma_async")) return wgmma_operands(op);
  if (begins("cp.async.bulk") || begins("cp.reduce.async.bulk")) {
    if (!begins("cp.async.bulk.commit") && !begins("cp.async.bulk.wait")) return bulk_operands(op);
  }
  if (begins("mbarrier.") || begins("shfl.") || begins("elect.") || begins("bar.red") ||
      begins("bar.cta.red") || begins("barrier.red") || begins("barrier.cta.red")) {
    return sync_operands(op);
  }
  if (begins("mapa")) {
    const char letter = width_letter(op);
    return {reg(letter), letter == 'l' ? "%l7" : "%r2", "0"};
  }
  switch (row.bind) {
    case Bind::kLoad:
    case Bind::kLoadParam:
      return {data_operand(op), address()};
    case Bind::kStore:
      return {address(), data_operand(op)};
    case Bind::kAtomic:
      if (op.find(".v") != op.npos) return {data_operand(op), address(), data_operand(op)};
      list = {reg(letters[0]), address()};
      for (const char c : letters.substr(1)) list.push_back(reg(c));
      return list;
    case Bind::kReduce:
      return {address(), data_operand(op)};
    case Bind::kMatrixLoad:
    case Bind::kMatrixStore: {
      const size_t count = op.find(".x4") != std::string_view::npos   ? 4
                           : op.find(".x2") != std::string_view::npos ? 2
                                                                      : 1;
      const std::string data = vector(std::string(count, 'w'));
      if (row.bind == Bind::kMatrixLoad) return {data, address()};
      return {address(), data};
    }
    case Bind::kMma:
      for (const char c : letters.substr(0, 4)) {
        list.push_back(vector(std::string(size_t(c - '0') % 9, letters.size() > 4 ? 'l' : 'w')));
      }
      return list;
    case Bind::kPack:
      return {reg(letters[0]), vector(letters.substr(1))};
    case Bind::kUnpack:
      return {vector(letters.substr(0, letters.size() - 1)), reg(letters.back())};
    case Bind::kCopyAsync:
      return {address(), address(), "16"};
    case Bind::kBranch:
      return {"BEGIN"};
    case Bind::kGeneric:
    case Bind::kNone:
      return generic_operands(letters);
    case Bind::kClock:
      return {reg(letters[0]), letters[0] == 'l' ? "%clock64" : "%clock"};
    default:
      break;
  }
  if (letters.empty()) {
    for (uint32_t i = below(7); i > 0; --i) list.push_back(operand());
    return list;
  }
  for (size_t i = 0; i < letters.size(); ++i) {
    list.push_back(i > 0 && below(6) == 0 ? reg('i') : reg(letters[i]));
  }
  return list;
}

std::string PtxMutator::instruction(const Row& row) {
  const std::string op = opcode(row.opcode);
  if (op == "call.vprintf") return std::string(kCallPrintf) + "\n";
  if (op == "call.__assertfail") return std::string(kCallAssert) + "\n";
  if (row.bind == Bind::kTable) {
    return fmt::format("{{ TABLE: .branchtargets BEGIN, BEGIN; {} {}, TABLE; }}\n", op, reg('w'));
  }
  std::string text;
  if (below(5) == 0) text = fmt::format("@{}%p{} ", below(2) == 0 ? "!" : "", below(3));
  return fmt::format("{}{} {};\n", text, op, fmt::join(operands(row, op), ", "));
}

// A word of the text becomes another of its words, or a number.
std::string PtxMutator::exchange_word(std::string text) {
  const auto found = words(text);
  if (found.empty()) return text;
  const auto [at, length] = found[below(found.size())];
  const auto [from, from_length] = found[below(found.size())];
  const std::string by = below(4) == 0 ? std::string(kIntegers[below(std::size(kIntegers))])
                                       : text.substr(from, from_length);
  return text.replace(at, length, by);
}

std::string PtxMutator::mutate(const std::string& text) {
  std::vector<std::string> parts = statements(text);
  if (parts.empty()) {
    return kernel("BEGIN:\n" + instruction(*rows_[below(rows_.size())]), below(1000));
  }
  const size_t at = below(parts.size());
  switch (below(8)) {
    case 0:
    case 1:
    case 2:
      parts.insert(parts.begin() + static_cast<ptrdiff_t>(at),
                   instruction(*rows_[below(rows_.size())]));
      break;
    case 3:
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(at));
      break;
    case 4:
      std::swap(parts[at], parts[below(parts.size())]);
      break;
    case 5:
      parts.insert(parts.begin() + static_cast<ptrdiff_t>(below(parts.size())), parts[at]);
      break;
    case 6:
      if (parts[0].starts_with("//")) parts[0] = fmt::format("// {}\n", below(1000));
      break;
    default:
      return exchange_word(text);
  }
  return join(parts);
}

std::string PtxMutator::splice(const std::string& text, const std::string& other) {
  std::vector<std::string> parts = statements(text);
  const std::vector<std::string> more = statements(other);
  if (more.empty()) return text;
  const size_t from = below(more.size());
  const size_t count = std::min<size_t>(1 + below(8), more.size() - from);
  const size_t at = below(parts.size() + 1);
  parts.insert(parts.begin() + static_cast<ptrdiff_t>(at),
               more.begin() + static_cast<ptrdiff_t>(from),
               more.begin() + static_cast<ptrdiff_t>(from + count));
  return join(parts);
}

}  // namespace lssar::test
