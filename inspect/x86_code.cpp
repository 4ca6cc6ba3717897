#include "inspect/x86_code.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "inspect/run_program.h"
#include "inspect/sass_loops.h"

namespace lssar {
namespace {

// Parts of a product's loop that are multiply-adds: with 6 rows and 2 vectors a half.
constexpr uint32_t kHotShare = 3;

bool starts_with_one_of(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

SassClass vector_class(std::string_view opcode, std::string_view operands) {
  if (starts_with_one_of(opcode, {"vfmadd", "vfnmadd", "vfmsub", "vfnmsub", "vdpbf16ps"}))
    return SassClass::kFma;
  if (opcode.starts_with("vcvt")) return SassClass::kConvert;
  if (starts_with_one_of(opcode, {"vperm", "vshuf", "vunpck", "vinsert", "vextract", "vpshuf",
                                  "vpunpck", "vpack", "vmovhl", "vmovlh", "vpblend"}))
    return SassClass::kExchange;
  if (starts_with_one_of(opcode, {"vmov", "vbroadcast", "vpbroadcast", "vzero", "vgather"})) {
    const bool is_in_memory = operands.find('[') != operands.npos;
    return is_in_memory ? SassClass::kGlobal : SassClass::kMove;
  }
  return opcode.starts_with("vp") ? SassClass::kInteger : SassClass::kFloat;
}

SassClass x86_class(std::string_view opcode, std::string_view operands) {
  if (starts_with_one_of(opcode, {"j", "call", "ret", "nop", "ud2"})) return SassClass::kControl;
  if (opcode.starts_with('v')) {
    if (operands.find("[rsp") != operands.npos) return SassClass::kLocal;
    return vector_class(opcode, operands);
  }
  if (starts_with_one_of(opcode, {"mov", "push", "pop", "lea", "cmov"})) return SassClass::kMove;
  return SassClass::kInteger;
}

std::optional<uint32_t> hexadecimal(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::string_view without_spaces(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

class X86Parser {
 public:
  Result<std::vector<SassKernel>> parse(std::string_view listing) {
    while (!listing.empty()) {
      const size_t end = std::min(listing.find('\n'), listing.size());
      read_line(without_spaces(listing.substr(0, end)));
      listing.remove_prefix(std::min(end + 1, listing.size()));
    }
    end_function();
    if (kernels_.empty()) return invalid_argument("the listing holds no instruction");
    return std::move(kernels_);
  }

 private:
  void read_line(std::string_view line) {
    if (line.ends_with(">:")) {
      end_function();
      const size_t name = line.find('<');
      kernel_.name = std::string(line.substr(name + 1, line.size() - name - 3));
      return;
    }
    const size_t colon = line.find(':');
    if (colon == line.npos || line.find_first_not_of("0123456789abcdef") != colon) return;
    const std::string_view text = without_spaces(line.substr(colon + 1));
    const std::optional<uint32_t> address = hexadecimal(line);
    if (address && !text.empty()) add(*address, text);
  }

  // Fillers after a jump, before an aligned address. Nothing runs them.
  bool is_padding(std::string_view text) const {
    if (!is_after_jump_) return false;
    return starts_with_one_of(text, {"nop", "data16", "cs nop", "xchg   ax,ax", "int3"});
  }

  void add(uint32_t address, std::string_view text) {
    if (is_padding(text)) return;
    const size_t space = std::min(text.find_first_of(" \t"), text.size());
    SassInstruction one;
    one.address = address;
    one.opcode = std::string(text.substr(0, space));
    one.text = std::string(text);
    const std::string_view operands = without_spaces(text.substr(space));
    one.sass_class = x86_class(one.opcode, operands);
    is_after_jump_ = one.opcode == "jmp" || one.opcode.starts_with("ret");
    if (one.opcode.starts_with('j') || one.opcode.starts_with("ret"))
      jumps_.push_back({static_cast<uint32_t>(kernel_.instructions.size()),
                        one.opcode.starts_with('j') ? hexadecimal(operands) : std::nullopt,
                        one.opcode.starts_with('j') && one.opcode != "jmp"});
    kernel_.instructions.push_back(std::move(one));
  }

  void end_function() {
    if (!kernel_.instructions.empty()) {
      kernel_.loops = find_loops(kernel_.instructions, branches());
      for (SassLoop& loop : kernel_.loops) mark(loop);
      kernels_.push_back(std::move(kernel_));
    }
    kernel_ = {};
    jumps_.clear();
    is_after_jump_ = false;
  }

  // Jumps out of the function, such as calls at its end, have no target in it.
  std::vector<SassBranch> branches() const {
    std::unordered_map<uint32_t, uint32_t> places;  // by address
    for (uint32_t i = 0; i < kernel_.instructions.size(); ++i)
      places[kernel_.instructions[i].address] = i;
    std::vector<SassBranch> branches;
    for (const Jump& jump : jumps_) {
      SassBranch branch;
      branch.from = jump.from;
      branch.falls_through = jump.falls_through;
      const auto place = jump.to ? places.find(*jump.to) : places.end();
      if (place != places.end()) branch.targets.push_back(place->second);
      branches.push_back(std::move(branch));
    }
    return branches;
  }

  static void mark(SassLoop& loop) {
    uint32_t total = 0;
    for (const uint32_t count : loop.every_iteration) total += count;
    loop.is_hot = kHotShare * loop.every_iteration[size_t(SassClass::kFma)] >= total && total > 0;
  }

  struct Jump {
    uint32_t from;
    std::optional<uint32_t> to;
    bool falls_through;
  };
  SassKernel kernel_;
  std::vector<Jump> jumps_;
  bool is_after_jump_ = false;
  std::vector<SassKernel> kernels_;
};

}  // namespace

Result<std::string> disassemble_object(const std::string& object) {
  LSSAR_ASSIGN_OR_RETURN(const TemporaryFile file, TemporaryFile::create("kernel.o", object));
  for (const char* program : {"objdump", "llvm-objdump"}) {
    Result<ProgramResult> result =
        run_program({program, "-d", "-C", "-M", "intel", "--no-show-raw-insn", file.path()});
    if (result.status().code() == StatusCode::kMissing) continue;
    LSSAR_RETURN_IF_ERROR(result.status());
    if (result->exit_code == 0) return std::move(result->out);
    return io_error(fmt::format("{} ended with {}: {}", program, result->exit_code, result->err));
  }
  return missing("neither objdump nor llvm-objdump was found in PATH: install binutils");
}

Result<std::vector<SassKernel>> parse_x86(std::string_view listing) {
  return X86Parser().parse(listing);
}

}  // namespace lssar
