#include "virtual/count/block_recorder.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "virtual/count/instruction_class.h"
#include "virtual/state/cta.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kBlockShift = 24;
constexpr uint32_t kWarpsOfProduct = 4;  // of a wgmma, each a quarter of its rows

uint32_t place_of(const Mbarrier& barrier) {
  return barrier.cta->rank << kBlockShift | barrier.address;
}

// The number before `end`, or the one after the last comma or blank.
uint32_t last_number(std::string_view text) {
  const size_t end = text.find_last_of("0123456789");
  if (end == text.npos) return 0;
  const size_t before = text.find_last_not_of("0123456789", end);
  uint32_t value = 0;
  std::from_chars(text.data() + (before == text.npos ? 0 : before + 1), text.data() + end + 1,
                  value);
  return value;
}

// Bytes per lane of "cp.async.cg.shared.global [to], [from], 16, size": the third operand.
uint32_t copy_bytes(std::string_view text) {
  const size_t from = text.find("], [");
  const size_t end = from == text.npos ? text.npos : text.find(']', from + 4);
  if (end == text.npos) return 0;
  const std::string_view rest = text.substr(end + 1);
  return last_number(rest.substr(0, rest.find(',', 1)));
}

TraceInstruction describe(const Instruction& in) {
  const InstructionInfo info = classify(in.opcode);
  TraceInstruction out;
  out.line = in.line;
  out.instruction_class = info.instruction_class;
  const auto is = [&](std::string_view begin) { return in.opcode.starts_with(begin); };
  const auto set = [&](TraceUse use, uint64_t amount) {
    out.use = use;
    out.amount = static_cast<uint32_t>(amount);
  };
  if (is("wgmma.mma_async")) {
    set(TraceUse::kProduct, kWarpsOfProduct * info.tensor_flop);
  } else if (info.tensor_flop != 0) {
    set(TraceUse::kWarpProduct, info.tensor_flop);
  } else if (is("wgmma.commit_group")) {
    set(TraceUse::kProductGroup, 0);
  } else if (is("wgmma.wait_group")) {
    set(TraceUse::kProductWait, last_number(in.text));
  } else if (is("cp.async.bulk.commit_group")) {
    set(TraceUse::kStoreGroup, 0);
  } else if (is("cp.async.bulk.wait_group")) {
    set(TraceUse::kStoreWait, last_number(in.text));
  } else if (is("cp.async.ca") || is("cp.async.cg")) {
    set(TraceUse::kCopy, copy_bytes(in.text));
  } else if (is("cp.async.commit_group")) {
    set(TraceUse::kCopyGroup, 0);
  } else if (is("cp.async.wait_group")) {
    set(TraceUse::kCopyWait, last_number(in.text));
  } else if (is("cp.async.wait_all")) {
    set(TraceUse::kCopyWait, 0);
  }
  return out;
}

}  // namespace

BlockRecorder::BlockRecorder(const KernelProgram& program, uint64_t cluster, size_t max_events,
                             KernelTrace* trace)
    : program_(program), cluster_(cluster), max_events_(max_events), trace_(trace) {
  trace_->instructions.reserve(program.ops.size());
  for (const Op& op : program.ops)
    trace_->instructions.push_back(describe(program.instruction(op)));
}

void BlockRecorder::add(TraceEvent event) {
  if (trace_->events.size() < max_events_) {
    trace_->events.push_back(event);
  } else {
    trace_->is_cut = true;
  }
}

TraceEvent BlockRecorder::at(const Warp& warp, const Op& op, TraceKind kind, uint32_t lanes) const {
  TraceEvent event;
  event.kind = kind;
  event.warp = static_cast<uint16_t>(warp.agent);
  event.instruction = program_.index_of(op);
  event.lanes = lanes;
  return event;
}

// Events lie between the instructions that they belong to.
void BlockRecorder::ran(const Warp& warp, uint32_t first, uint32_t last, uint32_t mask) {
  const auto run = [&](uint32_t end) {
    end = std::min(end, last);
    if (end <= first) return;
    TraceEvent event;
    event.warp = static_cast<uint16_t>(warp.agent);
    event.instruction = first;
    event.lanes = mask;
    event.amount = end - first;
    add(event);
    first = end;
  };
  for (const TraceEvent& event : pending_) {
    run(event.instruction + 1);
    add(event);
  }
  pending_.clear();
  run(last);
}

void BlockRecorder::bulk(const Warp& warp, const Op& op, TraceKind kind, const Mbarrier* barrier,
                         uint32_t address, uint32_t bytes) {
  TraceEvent event = at(warp, op, kind, warp.mask);
  if (barrier != nullptr) {
    event.barrier = place_of(*barrier);
    event.phase = barrier->phase;
  }
  event.address = address;
  event.amount = bytes;
  pending_.push_back(event);
}

void BlockRecorder::arrived(const Warp& warp, const Op& op, const Mbarrier& barrier) {
  TraceEvent event = at(warp, op, TraceKind::kArrive, warp.mask);
  event.barrier = place_of(barrier);
  event.phase = barrier.phase;
  pending_.push_back(event);
}

void BlockRecorder::waited(const Warp& warp, const Op& op, const Mbarrier& barrier, uint32_t lanes,
                           bool passed) {
  TraceEvent event = at(warp, op, passed ? TraceKind::kPassed : TraceKind::kPolled, lanes);
  event.barrier = place_of(barrier);
  event.phase = passed ? barrier.phase - 1 : barrier.phase;  // kNoPhase before the first
  pending_.push_back(event);
}

uint32_t& BlockRecorder::generation(uint32_t block, uint32_t id) {
  if (generations_.size() <= block) generations_.resize(block + 1);
  std::vector<uint32_t>& of_block = generations_[block];
  if (of_block.empty()) of_block.resize(kNumBarriers + 1);
  return of_block[id == kClusterBarrier ? kNumBarriers : id];
}

// A block's barrier ends a run of instructions, and that run has been added. A cluster's barrier
// does not.
void BlockRecorder::add_barrier(const TraceEvent& event) {
  if (event.barrier == kClusterBarrier) {
    pending_.push_back(event);
  } else {
    add(event);
  }
}

void BlockRecorder::barrier_arrived(const Warp& warp, const Op& op, uint32_t id, uint32_t lanes) {
  const uint32_t block = id == kClusterBarrier ? 0 : warp.cta->rank;
  TraceEvent event = at(warp, op, TraceKind::kBarrierArrive, lanes);
  event.barrier = id == kClusterBarrier ? id : block << kBlockShift | id;
  event.phase = generation(block, id);
  add_barrier(event);
}

void BlockRecorder::barrier_passed(const Warp& warp, const Op& op, uint32_t id, uint32_t lanes) {
  const uint32_t block = id == kClusterBarrier ? 0 : warp.cta->rank;
  TraceEvent event = at(warp, op, TraceKind::kBarrierPass, lanes);
  event.barrier = id == kClusterBarrier ? id : block << kBlockShift | id;
  event.phase = generation(block, id) - 1;
  add_barrier(event);
}

void BlockRecorder::barrier_completed(uint32_t block, uint32_t id) {
  ++generation(id == kClusterBarrier ? 0 : block, id);
}

}  // namespace lssar::vdev
