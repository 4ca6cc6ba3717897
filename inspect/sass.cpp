#include "inspect/sass.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include <fmt/format.h>

#include "inspect/sass_loops.h"

namespace lssar {
namespace {

struct ClassRow {
  SassClass sass_class;
  const char* name;
  const char* opcodes;  // without suffixes; a leading U (uniform datapath) is ignored
};

constexpr ClassRow kClasses[] = {
    {SassClass::kTensor, "tensor",
     "HMMA HGMMA QMMA QGMMA IMMA IGMMA BMMA BGMMA DMMA OMMA UTCHMMA UTCQMMA UTCIMMA"},
    {SassClass::kSpecial, "special", "MUFU"},
    {SassClass::kFma, "fma", "FFMA FFMA2 FFMA32I HFMA2 DFMA"},
    {SassClass::kFloat, "float",
     "FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FMNMX FMNMX3 FSEL FSET FSETP FCHK FSWZADD HADD2 "
     "HADD2_32I HMUL2 HMUL2_32I HMNMX2 HSET2 HSETP2 DADD DMUL DSETP"},
    {SassClass::kConvert, "convert", "F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND"},
    {SassClass::kInteger, "integer",
     "PRMT SEL SGXT IADD IADD3 IADD32I IMAD IMUL IMNMX IABS ISETP ICMP ISCADD LEA LOP LOP3 LOP32I "
     "PLOP3 SHF SHL SHR BMSK BREV FLO POPC XMAD VIADD VIADDMNMX VIMNMX VIMNMX3 VABSDIFF IDP IDP4A "
     "PSETP VHMNMX"},
    {SassClass::kMove, "move", "MOV MOV32I CS2R S2R S2UR R2UR UR2UP P2R R2P LDC"},
    {SassClass::kShared, "shared", "LDS STS LDSM STSM LDSLK ATOMS REDS MOVM"},
    {SassClass::kGlobal, "global",
     "LDG STG LD ST ATOM ATOMG RED REDG LDGSTS BLKCP BLKRED BLKPF TMALDG TMASTG TMAREDG TMAPF "
     "TMACCTL CCTL CCTLL CCTLT"},
    {SassClass::kLocal, "local", "LDL STL"},
    {SassClass::kExchange, "exchange", "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT"},
    {SassClass::kSync, "sync",
     "BAR DEPBAR LDGDEPBAR SYNCS WARPSYNC WARPGROUP WARPGROUPSET ERRBAR MEMBAR FENCE NANOSLEEP "
     "YIELD ARRIVES CGABAR_ARV CGABAR_WAIT CGABAR_GET CGABAR_SET CGAERRBAR ACQBULK SETMAXREG "
     "TMACMDFLUSH PREEXIT"},
    {SassClass::kControl, "control",
     "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BSSY BSYNC BREAK BMOV BPT KILL RTT NOP WARPS LEPC "
     "RPCMOV"},
};
static_assert(std::size(kClasses) + 1 == kNumSassClasses);

std::unordered_map<std::string_view, SassClass> class_table() {
  std::unordered_map<std::string_view, SassClass> table;
  for (const ClassRow& row : kClasses) {
    std::string_view rest = row.opcodes;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(' '), rest.size());
      table.emplace(rest.substr(0, end), row.sass_class);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return table;
}

std::string_view base_of(std::string_view opcode) { return opcode.substr(0, opcode.find('.')); }

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// One kernel while its lines are read.
struct Pending {
  SassKernel kernel;
  std::unordered_map<std::string, uint32_t> labels;  // index of the instruction that follows
  struct Branch {
    uint32_t from;
    std::vector<std::string> targets;
    bool falls_through;
  };
  std::vector<Branch> branches;
};

class Parser {
 public:
  Result<std::vector<SassKernel>> parse(std::string_view listing) {
    while (!listing.empty()) {
      const size_t end = std::min(listing.find('\n'), listing.size());
      read_line(listing.substr(0, end));
      listing.remove_prefix(std::min(end + 1, listing.size()));
    }
    std::vector<SassKernel> kernels;
    for (Pending& pending : pending_) {
      if (pending.kernel.instructions.empty()) continue;
      resolve(&pending);
      kernels.push_back(std::move(pending.kernel));
    }
    if (kernels.empty()) return invalid_argument("the listing holds no instruction");
    return kernels;
  }

 private:
  void read_line(std::string_view line) {
    constexpr std::string_view kSection = ".section\t.text.";
    if (const size_t at = line.find(kSection); at != line.npos) {
      std::string_view name = line.substr(at + kSection.size());
      name = name.substr(0, name.find_first_of(", \t"));
      pending_.emplace_back();
      pending_.back().kernel.name = std::string(name);
      line_ = 0;
      return;
    }
    if (pending_.empty()) return;
    const std::string_view text = trimmed(line);
    if (text.rfind("//## File", 0) == 0) return read_source_line(text);
    if (text.rfind("/*", 0) == 0) return read_instruction(text);
    if (!text.empty() && text.back() == ':' && text.find(' ') == text.npos) {
      pending_.back().labels[std::string(text.substr(0, text.size() - 1))] =
          uint32_t(pending_.back().kernel.instructions.size());
    }
  }

  // `//## File "f.cu", line 12 inlined at ...`: takes the innermost place.
  void read_source_line(std::string_view text) {
    constexpr std::string_view kLine = ", line ";
    const size_t at = text.find(kLine);
    if (at == text.npos) return;
    const char* const first = text.data() + at + kLine.size();
    std::from_chars(first, text.data() + text.size(), line_);
  }

  // `/*0a10*/ @!P0 BRA `(.L_x_3) ;`
  void read_instruction(std::string_view text) {
    const size_t close = text.find("*/");
    const size_t end = text.rfind(';');
    if (end == text.npos) return read_upper_word(text);
    if (close == text.npos || end < close) return;
    SassInstruction in;
    const auto parsed = std::from_chars(text.data() + 2, text.data() + close, in.address, 16);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + close) return;
    std::string_view body = trimmed(text.substr(close + 2, end - close - 2));
    in.text = std::string(body);
    in.line = line_;
    if (!body.empty() && body[0] == '@') {
      const size_t space = std::min(body.find(' '), body.size());
      in.guard = std::string(body.substr(0, space));
      body = trimmed(body.substr(space));
    }
    const size_t space = std::min(body.find(' '), body.size());
    in.opcode = std::string(body.substr(0, space));
    in.sass_class = sass_class(in.opcode);
    // A comment after the instruction may list the targets of an indirect branch.
    note_branch(in, trimmed(body.substr(space)), text.substr(end));
    pending_.back().kernel.instructions.push_back(std::move(in));
  }

  // `/* 0x000fe40000000f00 */`, on the line after the instruction that it belongs to (-hex).
  void read_upper_word(std::string_view text) {
    constexpr std::string_view kWord = "/* 0x";
    auto& instructions = pending_.back().kernel.instructions;
    if (text.rfind(kWord, 0) != 0 || instructions.empty()) return;
    uint64_t word = 0;
    const char* const first = text.data() + kWord.size();
    const auto parsed = std::from_chars(first, text.data() + text.size(), word, 16);
    if (parsed.ec == std::errc()) instructions.back().control = decode_control(word);
  }

  void note_branch(const SassInstruction& in, std::string_view operands, std::string_view comment) {
    const std::string_view base = base_of(in.opcode);
    const bool is_always = is_one_of(in.guard, {"", "@PT", "@UPT"});
    const auto from = uint32_t(pending_.back().kernel.instructions.size());
    if (is_one_of(base, {"EXIT", "RET", "KILL"})) {
      if (is_always) pending_.back().branches.push_back({from, {}, false});
      return;
    }
    const bool is_indirect = is_one_of(base, {"BRX", "BRXU", "JMX", "JMXU"});
    if (!is_indirect && !is_one_of(base, {"BRA", "JMP"})) return;
    Pending::Branch branch{from, {}, !is_always};
    const std::string_view before = trimmed(operands.substr(0, operands.find('`')));
    const bool has_condition = !is_indirect && !is_one_of(before, {"", "PT,", "UPT,", "PT", "UPT"});
    branch.falls_through |= has_condition || in.opcode.find(".DIV") != in.opcode.npos;
    for (std::string_view rest : {operands, comment}) {
      for (size_t at; (at = rest.find(".L_")) != rest.npos;) {
        rest.remove_prefix(at);
        const size_t length = std::min(rest.find_first_of(" ,)\"*;"), rest.size());
        branch.targets.emplace_back(rest.substr(0, length));
        rest.remove_prefix(length);
      }
    }
    pending_.back().branches.push_back(std::move(branch));
  }

  void resolve(Pending* pending) {
    const auto count = uint32_t(pending->kernel.instructions.size());
    std::vector<SassBranch> branches;
    for (const Pending::Branch& branch : pending->branches) {
      SassBranch resolved{branch.from, {}, branch.falls_through};
      for (const std::string& label : branch.targets) {
        const auto at = pending->labels.find(label);
        if (at != pending->labels.end() && at->second < count)
          resolved.targets.push_back(at->second);
      }
      branches.push_back(std::move(resolved));
    }
    pending->kernel.loops = find_loops(pending->kernel.instructions, branches);
    pending->kernel.branches = std::move(branches);
  }

  std::vector<Pending> pending_;
  int line_ = 0;
};

}  // namespace

const char* sass_class_name(SassClass c) {
  for (const ClassRow& row : kClasses)
    if (row.sass_class == c) return row.name;
  return "other";
}

SassClass sass_class(std::string_view opcode) {
  static const std::unordered_map<std::string_view, SassClass> table = class_table();
  std::string_view base = base_of(opcode);
  auto found = table.find(base);
  if (found == table.end() && !base.empty() && base[0] == 'U') {
    base.remove_prefix(1);
    found = table.find(base);
  }
  return found == table.end() ? SassClass::kOther : found->second;
}

SassControl decode_control(uint64_t upper_word) {
  const uint64_t bits = upper_word >> 41;
  SassControl control;
  control.stall = int(bits & 15);
  control.yields = (bits >> 4 & 1) == 0;
  control.write_scoreboard = int(bits >> 5 & 7);
  control.read_scoreboard = int(bits >> 8 & 7);
  control.waits = uint32_t(bits >> 11 & 63);
  return control;
}

SassCounts SassKernel::counts() const {
  SassCounts counts = {};
  for (const SassInstruction& in : instructions) ++counts[size_t(in.sass_class)];
  return counts;
}

Result<std::vector<SassKernel>> parse_sass(std::string_view listing) {
  return Parser().parse(listing);
}

}  // namespace lssar
