#include "virtual/count/kernel_counts.h"

#include <algorithm>

namespace lssar::vdev {

LaunchCounts::LaunchCounts(const KernelProgram& program)
    : program_(program),
      infos_(program.ops.size()),
      modes_(program.ops.size()),
      runs_(program.ops.size() + 1),
      accesses_(program.ops.size()) {
  for (const BasicBlock& block : program.blocks) {
    // NOTE: the op of an artificial end has no instruction of its own.
    for (uint32_t i = block.first_op; i < block.first_op + block.num_instructions; ++i) {
      infos_[i] = classify(program.instruction(program.ops[i]).opcode);
      modes_[i] = static_cast<uint8_t>(infos_[i].access);
    }
  }
}

void LaunchCounts::merge(const RunnerCounts& counts) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < runs_.size(); ++i) {
    runs_[i].warps += counts.runs_[i].warps;
    runs_[i].lanes += counts.runs_[i].lanes;
  }
  for (size_t i = 0; i < accesses_.size(); ++i) {
    OpAccess& to = accesses_[i];
    const OpAccess& from = counts.by_op_[i];
    to.global_requests += from.global_requests;
    to.global_bytes += from.global_bytes;
    to.global_sectors += from.global_sectors;
    to.global_excess += from.global_excess;
    to.shared_requests += from.shared_requests;
    to.shared_bytes += from.shared_bytes;
    to.shared_wavefronts += from.shared_wavefronts;
    to.shared_ideal += from.shared_ideal;
  }
  for (size_t i = 0; i < tma_bytes_.size(); ++i) tma_bytes_[i] += counts.accesses_.tma_bytes[i];
}

void LaunchCounts::add_accesses(const InstructionInfo& info, const OpAccess& access,
                                LaunchCounters& out) const {
  AccessKind in_global = AccessKind::kRead;
  if (info.access == AccessMode::kWrite) in_global = AccessKind::kWrite;
  if (info.access == AccessMode::kAtomic) in_global = AccessKind::kAtomic;
  const AccessKind in_shared = info.access == AccessMode::kCopy ? AccessKind::kWrite : in_global;
  GlobalTraffic& global = out.global[static_cast<size_t>(in_global)];
  global.requests += access.global_requests;
  global.bytes += access.global_bytes;
  global.sectors += access.global_sectors;
  SharedTraffic& shared = out.shared[static_cast<size_t>(in_shared)];
  shared.requests += access.shared_requests;
  shared.bytes += access.shared_bytes;
  shared.wavefronts += access.shared_wavefronts;
  shared.ideal += access.shared_ideal;
}

WorstInstruction LaunchCounts::describe(size_t op, uint64_t lost, uint64_t requests) const {
  const Instruction& in = program_.instruction(program_.ops[op]);
  return {lost, requests, static_cast<uint32_t>(in.line), program_.name, std::string(in.text)};
}

LaunchCounters LaunchCounts::summary() const {
  LaunchCounters out;
  out.detailed = true;
  InstructionCount executed;
  for (size_t i = 0; i < infos_.size(); ++i) {
    executed.warps += runs_[i].warps;
    executed.lanes += runs_[i].lanes;
    const InstructionInfo& info = infos_[i];
    InstructionCount& of_class = out.instructions[static_cast<size_t>(info.instruction_class)];
    of_class.warps += executed.warps;
    of_class.lanes += executed.lanes;
    out.tensor_flop[static_cast<size_t>(info.tensor_type)] += executed.warps * info.tensor_flop;
    if (info.is_barrier) out.barriers += executed.warps;
    const OpAccess& access = accesses_[i];
    add_accesses(info, access, out);
    const uint64_t lost = access.shared_wavefronts - access.shared_ideal;
    if (lost > out.worst_shared.lost) {
      out.worst_shared = describe(i, lost, access.shared_requests);
    }
    if (access.global_excess > out.worst_global.lost) {
      out.worst_global = describe(i, access.global_excess, access.global_requests);
    }
  }
  out.tma_load_bytes = tma_bytes_[static_cast<size_t>(TmaDirection::kLoad)];
  out.tma_store_bytes = tma_bytes_[static_cast<size_t>(TmaDirection::kStore)];
  out.tma_reduce_bytes = tma_bytes_[static_cast<size_t>(TmaDirection::kReduce)];
  return out;
}

std::vector<LineCounters> LaunchCounts::lines() const {
  std::vector<LineCounters> lines;
  InstructionCount executed;
  for (size_t i = 0; i < infos_.size(); ++i) {
    executed.warps += runs_[i].warps;
    executed.lanes += runs_[i].lanes;
    if (executed.warps == 0) continue;
    const OpAccess& access = accesses_[i];
    const Instruction& in = program_.instruction(program_.ops[i]);
    lines.push_back({static_cast<uint32_t>(in.line),
                     infos_[i].instruction_class,
                     executed,
                     {access.global_requests, access.global_bytes, access.global_sectors},
                     access.global_excess,
                     {access.shared_requests, access.shared_bytes, access.shared_wavefronts,
                      access.shared_ideal}});
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const LineCounters& a, const LineCounters& b) { return a.line < b.line; });
  return lines;
}

void RunnerCounts::begin(LaunchCounts* launch) {
  launch_ = launch;
  if (launch == nullptr) return;
  const size_t num_ops = launch->instructions().size();
  runs_.assign(num_ops + 1, {});
  by_op_.assign(num_ops, {});
  accesses_ = {};
  accesses_.ops = launch->program().ops.data();
  accesses_.modes = launch->access_modes().data();
  accesses_.by_op = by_op_.data();
}

void RunnerCounts::end() {
  if (launch_ != nullptr) launch_->merge(*this);
  launch_ = nullptr;
}

}  // namespace lssar::vdev
