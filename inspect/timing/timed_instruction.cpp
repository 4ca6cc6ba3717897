#include "inspect/timing/timed_instruction.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace lssar {
namespace {

constexpr int kLanes = 32;
constexpr int kPartitions = 4;  // sub-partitions of an SM, which share its shared memory

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool begins(std::string_view text, std::string_view part) { return text.rfind(part, 0) == 0; }

// "R24, gdesc[UR4], R24" of "@P0 HGMMA.64x64x16.F32 R24, gdesc[UR4], R24".
std::vector<std::string> operands_of(const SassInstruction& in) {
  std::vector<std::string> operands;
  const size_t at = in.text.find(in.opcode);
  std::string_view rest = std::string_view(in.text).substr(at + in.opcode.size());
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    std::string_view operand = rest.substr(0, end);
    operand.remove_prefix(std::min(operand.find_first_not_of(' '), operand.size()));
    operands.emplace_back(operand);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return operands;
}

int number_of(std::string_view text) {
  int value = 0;
  const bool is_hex = begins(text, "0x");
  if (is_hex) text.remove_prefix(2);
  std::from_chars(text.data(), text.data() + text.size(), value, is_hex ? 16 : 10);
  return value;
}

// One access of a warp: at least a clock of the SM's shared memory for each 128 bytes. All four
// sub-partitions do the same, so each has a quarter of the clocks.
int shared_clocks(const SassInstruction& in, const TimingConstants& constants) {
  int bytes = kLanes * 4;
  if (has(in.opcode, ".64")) bytes = kLanes * 8;
  if (has(in.opcode, ".128")) bytes = kLanes * 16;
  if (has(in.opcode, "M88.2")) bytes = 2 * 8 * 16;
  if (has(in.opcode, "M88.4")) bytes = 4 * 8 * 16;
  return kPartitions * std::max(1, bytes / constants.shared_bytes);
}

bool is_heavy(std::string_view opcode) {
  return begins(opcode, "IMAD") || begins(opcode, "HFMA2") || begins(opcode, "HMUL2") ||
         begins(opcode, "HADD2");
}

void set_pipe(const SassInstruction& in, const TimingConstants& constants, TimedInstruction* out) {
  const std::string_view opcode = in.opcode;
  const auto use = [out](SmPipe pipe, int clocks, int latency) {
    out->pipe = pipe;
    out->clocks = clocks;
    out->latency = latency;
  };
  if (begins(opcode, "U") && in.sass_class != SassClass::kGlobal &&
      in.sass_class != SassClass::kSync && in.sass_class != SassClass::kControl) {
    return use(SmPipe::kUniform, constants.uniform, constants.other_latency);
  }
  switch (in.sass_class) {
    case SassClass::kFma:
    case SassClass::kFloat: {
      const bool is_alu = begins(opcode, "FMNMX") || begins(opcode, "FSE") ||
                          begins(opcode, "FCHK") || begins(opcode, "HMNMX") ||
                          begins(opcode, "HSET");
      const SmPipe fma = is_heavy(opcode) ? SmPipe::kFmaHeavy : SmPipe::kFma;
      return use(is_alu ? SmPipe::kAlu : fma, is_alu ? constants.alu : constants.fma,
                 constants.other_latency);
    }
    case SassClass::kInteger:
    case SassClass::kMove:
      return use(is_heavy(opcode) ? SmPipe::kFmaHeavy : SmPipe::kAlu, constants.alu,
                 constants.other_latency);
    case SassClass::kConvert:
      if (begins(opcode, "F2FP") || begins(opcode, "I2FP"))
        return use(SmPipe::kAlu, constants.alu, constants.other_latency);
      return use(SmPipe::kSpecial, constants.special, constants.special_latency);
    case SassClass::kSpecial:
      return use(SmPipe::kSpecial, constants.special, constants.special_latency);
    case SassClass::kTensor:
      return use(SmPipe::kTensor, constants.hmma, constants.shared_latency);
    case SassClass::kShared:
      return use(SmPipe::kShared, shared_clocks(in, constants), constants.shared_latency);
    case SassClass::kExchange:
      if (begins(opcode, "SHFL") || begins(opcode, "REDUX"))
        return use(SmPipe::kShared, kPartitions, constants.exchange_latency);
      return use(SmPipe::kAlu, constants.alu, constants.other_latency);
    case SassClass::kGlobal:
    case SassClass::kLocal:
      return use(SmPipe::kMemory, kPartitions, constants.memory_latency);
    case SassClass::kSync:
      if (begins(opcode, "FENCE") || begins(opcode, "MEMBAR"))
        return use(SmPipe::kNone, 0, constants.fence);
      return use(SmPipe::kNone, 0, constants.mbarrier_test);
    case SassClass::kControl:
    case SassClass::kOther:
      return use(SmPipe::kNone, 0, constants.other_latency);
  }
}

// m64nNkK: a step of 32 bytes along k takes n / 2 clocks in every format.
Status set_product(const SassInstruction& in, TimedInstruction* out) {
  constexpr int kRows = 64, kStepBytes = 32;
  int rows = 0, columns = 0, depth = 0;
  const int read = std::sscanf(in.opcode.c_str(), "%*[A-Z].%dx%dx%d", &rows, &columns, &depth);
  const std::vector<std::string> operands = operands_of(in);
  const bool is_a_shared = operands.size() > 1 && begins(operands[1], "gdesc");
  const size_t sum = is_a_shared ? 2 : 3;  // the sum that it adds to
  if (read != 3 || rows != kRows || columns < 8 || operands.size() <= sum ||
      !begins(operands[0], "R")) {
    return invalid_argument(
        fmt::format("'{}': not understood: a product m64nNkK is expected", in.text));
  }
  out->action = Action::kProduct;
  out->columns = columns;
  out->clocks = columns / 2;
  out->accumulator = uint32_t(number_of(std::string_view(operands[0]).substr(1)));
  out->streamed_bytes = columns * kStepBytes;
  out->operand_bytes = out->streamed_bytes + (is_a_shared ? kRows * kStepBytes : 0);
  out->is_fresh = operands[sum] == "RZ";
  out->ends_group = has(in.text, "gsb0");
  return {};
}

void set_barrier(const SassInstruction& in, TimedInstruction* out) {
  const std::vector<std::string> operands = operands_of(in);
  out->action = has(in.opcode, ".ARV") ? Action::kArrive : Action::kSync;
  out->latency = 0;
  const bool is_number = !operands.empty() && begins(operands[0], "0x");
  out->barrier = is_number ? number_of(operands[0]) : TimedInstruction::kOwnBarrier;
  out->barrier_threads = operands.size() > 1 ? number_of(operands[1]) : 0;
}

}  // namespace

Result<TimedInstruction> timed_instruction(const SassInstruction& in,
                                           const TimingConstants& constants) {
  if (!in.control) {
    return invalid_argument(fmt::format("'{}' at {:x}: the listing lacks its words (nvdisasm -hex)",
                                        in.text, in.address));
  }
  TimedInstruction out;
  out.address = in.address;
  out.sass_class = in.sass_class;
  out.control = *in.control;
  set_pipe(in, constants, &out);
  if (has(in.opcode, "GMMA.")) LSSAR_RETURN_IF_ERROR(set_product(in, &out));
  if (begins(in.opcode, "BAR.")) set_barrier(in, &out);
  if (begins(in.opcode, "SYNCS.PHASECHK")) out.action = Action::kDataWait;
  if (begins(in.opcode, "WARPGROUP.DEPBAR")) {
    const std::vector<std::string> operands = operands_of(in);
    out.action = Action::kProductWait;
    out.pending = operands.empty() ? 0 : number_of(operands.back());
  }
  return out;
}

}  // namespace lssar
