#include "inspect/timeline_program.h"

#include <bit>

namespace lssar {
namespace {

constexpr uint32_t kMostAtOnce = 32;  // most instructions of one step, so that warps can alternate

// One warp's events, in their order.
class Writer {
 public:
  Writer(const KernelTrace& trace, std::vector<WarpStep>* steps) : trace_(trace), steps_(*steps) {}

  void add(const TraceEvent& event, std::map<SignalKey, int>* signals) {
    switch (event.kind) {
      case TraceKind::kRun:
        if (!polls_) run(event);
        return;
      case TraceKind::kPolled:
        polls_ = true;
        return;
      case TraceKind::kPassed:
        polls_ = false;
        if (event.phase != kNoPhase) put(WarpStep::Kind::kWait, event, key_of(event, 0));
        return;
      case TraceKind::kArrive:
        ++(*signals)[key_of(event, 0)];
        put(WarpStep::Kind::kSignal, event, key_of(event, 0));
        return;
      case TraceKind::kLoad:
        ++(*signals)[key_of(event, 0)];
        put(WarpStep::Kind::kLoad, event, key_of(event, 0));
        return;
      case TraceKind::kStore:
        put(WarpStep::Kind::kStore, event, {});
        return;
      case TraceKind::kBarrierArrive:
        ++(*signals)[key_of(event, kNamedBarrier)];
        put(WarpStep::Kind::kSignal, event, key_of(event, kNamedBarrier));
        return;
      case TraceKind::kBarrierPass:
        put(WarpStep::Kind::kWait, event, key_of(event, kNamedBarrier));
        return;
    }
  }

 private:
  static SignalKey key_of(const TraceEvent& event, uint64_t space) {
    return {space | event.barrier, event.phase};
  }

  void put(WarpStep::Kind kind, const TraceEvent& event, SignalKey key) {
    WarpStep step;
    step.kind = kind;
    step.instruction = event.instruction;
    step.amount = event.amount;
    step.address = event.address;
    step.key = key;
    steps_.push_back(step);
  }

  void put(WarpStep::Kind kind, uint32_t instruction, uint64_t amount) {
    WarpStep step;
    step.kind = kind;
    step.instruction = instruction;
    step.amount = amount;
    steps_.push_back(step);
  }

  // Adds to the last step if that is work too.
  WarpStep& work(uint32_t instruction) {
    if (steps_.empty() || steps_.back().kind != WarpStep::Kind::kWork ||
        steps_.back().instructions >= kMostAtOnce)
      put(WarpStep::Kind::kWork, instruction, 0);
    return steps_.back();
  }

  void run(const TraceEvent& event) {
    const auto lanes = static_cast<uint32_t>(std::popcount(event.lanes));
    for (uint32_t i = event.instruction; i < event.instruction + event.amount; ++i) {
      const TraceInstruction& in = trace_.instructions[i];
      WarpStep& step = work(i);
      ++step.instructions;
      if (in.instruction_class == InstructionClass::kSpecial) ++step.special;
      use(i, in, lanes, &step);
    }
  }

  void use(uint32_t i, const TraceInstruction& in, uint32_t lanes, WarpStep* step) {
    switch (in.use) {
      case TraceUse::kOther:
        return;
      case TraceUse::kWarpProduct:
        step->amount += in.amount;
        return;
      case TraceUse::kProduct:
        ++products_;
        put(WarpStep::Kind::kProduct, i, in.amount);
        return;
      case TraceUse::kProductGroup:
        product_groups_.push_back(products_);
        return;
      case TraceUse::kProductWait:
        if (product_groups_.size() > in.amount) {
          put(WarpStep::Kind::kProductWait, i,
              product_groups_[product_groups_.size() - 1 - in.amount]);
        }
        return;
      case TraceUse::kCopy:
        put(WarpStep::Kind::kCopy, i, uint64_t{lanes} * in.amount);
        return;
      case TraceUse::kCopyGroup:
      case TraceUse::kStoreGroup:
        put(WarpStep::Kind::kGroupEnd, i, 0);
        return;
      case TraceUse::kCopyWait:
      case TraceUse::kStoreWait:
        put(WarpStep::Kind::kGroupWait, i, in.amount);
        return;
    }
  }

  const KernelTrace& trace_;
  std::vector<WarpStep>& steps_;
  bool polls_ = false;
  uint64_t products_ = 0;
  std::vector<uint64_t> product_groups_;  // products issued at each commit
};

}  // namespace

TraceProgram make_program(const KernelTrace& trace) {
  TraceProgram program;
  program.warps.resize(size_t{trace.warps_per_block} * trace.num_blocks);
  std::vector<Writer> writers;
  for (std::vector<WarpStep>& steps : program.warps) writers.emplace_back(trace, &steps);
  for (const TraceEvent& event : trace.events) {
    if (event.warp < writers.size()) writers[event.warp].add(event, &program.signals);
  }
  return program;
}

}  // namespace lssar
