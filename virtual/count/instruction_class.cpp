#include "virtual/count/instruction_class.h"

#include <array>
#include <vector>

#include "virtual/program/opcode_table.h"

namespace lssar::vdev {
namespace {

using enum InstructionClass;

struct Rule {
  std::string_view prefix;  // of the opcode, up to a dot or its end; the first match counts
  InstructionClass instruction_class;
  AccessMode access = AccessMode::kNone;
};
// Opcodes that are not listed are arithmetic; the type decides.
constexpr Rule kRules[] = {
    {"mma", kTensor},
    {"wgmma.mma_async", kTensor},
    {"wgmma", kSync},
    {"cvt", kConversion},
    {"mov", kMove},
    {"cvta", kMove},
    {"isspacep", kMove},
    {"mapa", kInteger},
    {"getctarank", kInteger},
    {"selp", kInteger},
    {"slct", kInteger},
    {"prmt", kInteger},  // its last part is a mode
    {"ld", kMemory, AccessMode::kRead},
    {"ldmatrix", kMemory, AccessMode::kRead},
    {"st.async", kMemory},
    {"st.bulk", kMemory},
    {"st", kMemory, AccessMode::kWrite},
    {"stmatrix", kMemory, AccessMode::kWrite},
    {"red.async", kMemory},
    {"red", kMemory, AccessMode::kAtomic},
    {"atom", kMemory, AccessMode::kAtomic},
    {"cp.async.ca", kMemory, AccessMode::kCopy},
    {"cp.async.cg", kMemory, AccessMode::kCopy},
    {"cp.async.commit_group", kSync},
    {"cp.async.wait_group", kSync},
    {"cp.async.wait_all", kSync},
    {"cp.async.mbarrier", kSync, AccessMode::kAtomic},
    {"cp.async.bulk.commit_group", kSync},
    {"cp.async.bulk.wait_group", kSync},
    {"cp", kMemory},
    {"prefetch", kMemory},
    {"prefetchu", kMemory},
    {"discard", kMemory},
    {"applypriority", kMemory},
    {"tensormap", kMemory},
    {"multimem", kMemory, AccessMode::kAtomic},
    {"shfl", kWarp},
    {"vote", kWarp},
    {"match", kWarp},
    {"elect", kWarp},
    {"redux", kWarp},
    {"activemask", kWarp},
    {"movmatrix", kWarp},
    {"bar", kSync},
    {"barrier", kSync},
    {"mbarrier", kSync, AccessMode::kAtomic},
    {"fence", kSync},
    {"membar", kSync},
    {"griddepcontrol", kSync},
    {"bra", kControl},
    {"brx", kControl},
    {"call", kControl},
    {"ret", kControl},
    {"exit", kControl},
    {"trap", kControl},
    {"brkpt", kControl},
    {"brkpt", kControl},
    {"nanosleep", kControl},
    {"setmaxnreg", kControl},
    {"pmevent", kControl},
};

bool starts_with(std::string_view opcode, std::string_view prefix) {
  return opcode.substr(0, prefix.size()) == prefix &&
         (opcode.size() == prefix.size() || opcode[prefix.size()] == '.');
}

std::vector<std::string_view> parts_of(std::string_view opcode) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t dot = opcode.find('.');
    parts.push_back(opcode.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    opcode.remove_prefix(dot + 1);
  }
}

// The type that is operated on. It comes last.
bool is_floating(std::string_view type) {
  return type.substr(0, 1) == "f" || type.substr(0, 2) == "bf";
}

InstructionClass class_of_arithmetic(std::string_view opcode) {
  if (has_modifier(opcode, ".approx") || starts_with(opcode, "div.full")) return kSpecial;
  const std::vector<std::string_view> parts = parts_of(opcode);
  if (!is_floating(parts.back())) return kInteger;
  return parts[0] == "fma" || parts[0] == "mad" ? kFma : kFloat;
}

// The product of the three numbers of "m16n8k8", or 0.
uint64_t shape_volume(std::string_view part) {
  uint64_t volume = 1;
  for (const char letter : {'m', 'n', 'k'}) {
    if (part.empty() || part[0] != letter) return 0;
    part.remove_prefix(1);
    uint64_t number = 0;
    while (!part.empty() && part[0] >= '0' && part[0] <= '9') {
      number = number * 10 + static_cast<uint64_t>(part[0] - '0');
      part.remove_prefix(1);
    }
    volume *= number;
  }
  return part.empty() ? volume : 0;
}

struct TypeName {
  std::string_view name;
  TensorType type;
};
constexpr TypeName kTypeNames[] = {
    {"f32", TensorType::kTf32},    {"f16", TensorType::kF16},    {"bf16", TensorType::kBf16},
    {"tf32", TensorType::kTf32},   {"e4m3", TensorType::kFp8},   {"e5m2", TensorType::kFp8},
    {"f64", TensorType::kF64},     {"s8", TensorType::kInteger}, {"u8", TensorType::kInteger},
    {"s32", TensorType::kInteger}, {"s4", TensorType::kInteger}, {"u4", TensorType::kInteger},
    {"b1", TensorType::kInteger},
};

// The types are those of d, a, b and, for mma, c; the shape comes before them.
void describe_product(std::string_view opcode, InstructionInfo& info) {
  constexpr uint64_t kWarpsOfGroup = 4;
  const uint64_t warps = starts_with(opcode, "wgmma") ? kWarpsOfGroup : 1;
  int types = 0;
  for (const std::string_view part : parts_of(opcode)) {
    if (const uint64_t volume = shape_volume(part); volume != 0) {
      info.tensor_flop = 2 * volume / warps;
    }
    for (const TypeName& known : kTypeNames) {
      if (part == known.name && ++types == 2) info.tensor_type = known.type;
    }
  }
}

}  // namespace

InstructionInfo classify(std::string_view opcode) {
  InstructionInfo info;
  const Rule* found = nullptr;
  for (const Rule& rule : kRules) {
    if (!starts_with(opcode, rule.prefix)) continue;
    found = &rule;
    break;
  }
  if (found == nullptr) {
    info.instruction_class = class_of_arithmetic(opcode);
    return info;
  }
  info.instruction_class = found->instruction_class;
  info.access = found->access;
  info.is_barrier = (starts_with(opcode, "bar") && !starts_with(opcode, "bar.warp")) ||
                    starts_with(opcode, "barrier");
  if (info.instruction_class == kTensor) describe_product(opcode, info);
  return info;
}

}  // namespace lssar::vdev
