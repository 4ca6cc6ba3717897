#include "virtual/program/op_facts.h"

#include "virtual/program/opcode_table.h"

namespace lssar::vdev {
namespace {

bool any_modifier(std::string_view opcode, std::initializer_list<std::string_view> modifiers) {
  for (const std::string_view m : modifiers) {
    if (has_modifier(opcode, m)) return true;
  }
  return false;
}

MemoryUse access_of(const Instruction& in, Bind bind) {
  // Their handlers say which memory.
  if (in.opcode.starts_with("tensormap.")) return MemoryUse::kWrite;
  switch (bind) {
    case Bind::kLoad:
    case Bind::kMatrixLoad:
      return MemoryUse::kRead;
    case Bind::kStore:
    case Bind::kMatrixStore:
      return MemoryUse::kWrite;
    case Bind::kAtomic:
    case Bind::kReduce:
      return MemoryUse::kAtomic;
    case Bind::kCopyAsync:
      return MemoryUse::kCopyAsync;
    default:
      return MemoryUse::kNone;
  }
}

TaintKind taint_of(const Instruction& in, Bind bind) {
  switch (bind) {
    case Bind::kAlu:
      return in.opcode.starts_with("selp.")      ? TaintKind::kSelect
             : in.opcode.starts_with("and.pred") ? TaintKind::kAnd
             : in.opcode.starts_with("or.pred")  ? TaintKind::kOr
                                                 : TaintKind::kByLane;
    case Bind::kMma:
      return TaintKind::kMma;
    case Bind::kMatrixLoad:
    case Bind::kMatrixStore:
      return TaintKind::kMatrix;
    case Bind::kLoad:
    case Bind::kStore:
    case Bind::kAtomic:
    case Bind::kReduce:
    case Bind::kCopyAsync:
      return TaintKind::kMemory;
    case Bind::kShuffle:
      return TaintKind::kShuffle;
    case Bind::kWgmma:
      return TaintKind::kWgmma;
    case Bind::kCollective:
    case Bind::kCollectivePair:
      return TaintKind::kWarp;
    case Bind::kSetp:
    case Bind::kPack:
    case Bind::kUnpack:
    case Bind::kConvert:
    case Bind::kLoadParam:
    case Bind::kClock:
      return TaintKind::kByLane;
    default:
      return TaintKind::kDefined;
  }
}

}  // namespace

OpFacts facts_of_instruction(const Instruction& in, const Row& row) {
  OpFacts facts;
  facts.access = access_of(in, row.bind);
  facts.taint = taint_of(in, row.bind);
  const bool atomic = facts.access == MemoryUse::kAtomic;
  const bool memory = facts.access == MemoryUse::kRead || facts.access == MemoryUse::kWrite;
  facts.acquires = (atomic || memory) && any_modifier(in.opcode, {".acquire", ".acq_rel"});
  facts.releases = (atomic || memory) && any_modifier(in.opcode, {".release", ".acq_rel"});
  facts.strong = atomic || (memory && (facts.acquires || facts.releases ||
                                       any_modifier(in.opcode, {".volatile", ".relaxed"})));
  facts.whole_warp = row.bind == Bind::kMatrixLoad || row.bind == Bind::kMatrixStore;
  facts.transposed = has_modifier(in.opcode, ".trans");
  facts.own_shared = any_modifier(in.opcode, {".shared", ".shared::cta"}) &&
                     !has_modifier(in.opcode, ".shared::cluster");
  return facts;
}

}  // namespace lssar::vdev
