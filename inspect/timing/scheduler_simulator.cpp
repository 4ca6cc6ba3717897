#include "inspect/timing/scheduler_simulator.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "inspect/timing/sm_units.h"

namespace lssar {
namespace {

// Even, because the two warps of a turn may alternate between two kinds of iterations.
constexpr int kWarmUp = 6, kMeasured = 8;
constexpr int64_t kMostClocks = 4'000'000;

struct Scoreboard {
  double closes = 0;
  ClockUse waits_for = ClockUse::kStall;
};

struct Warp {
  size_t at = 0;  // the next instruction
  int iteration = 0;
  double ready = 0;  // by its last stall count or barrier
  ClockUse ready_after = ClockUse::kStall;
  int64_t issued = -1;   // the clock of its last instruction
  bool goes_on = false;  // that was no branch back, which ends its precedence (assumed)
  bool yields = false;
  std::array<Scoreboard, SassControl::kNumScoreboards> scoreboards;
  std::deque<double> groups;  // ends of groups of products, in order
  std::vector<double> passes;  // when each arrival of another warp counts
  size_t turns_taken = 0;      // each took turn_passes of them
  int turns_passed_on = 0;     // since its last turn: to the next warp, then to the one after it
  int meetings = 0;            // that it has arrived at
  bool is_in_meeting = false;  // and waits there

  std::array<double, kNumClockUses> uses = {};
  double measured_from = 0, measured_to = 0;
};

class LoopSimulator {
 public:
  LoopSimulator(const LoopProgram& program, const TimingConstants& constants)
      : program_(program),
        constants_(constants),
        units_(constants),
        warps_(size_t(program.warps())) {
    // The turn of a block's first warp has begun. The next one waits for the first one alone.
    for (size_t w = 0; w < warps_.size(); ++w) {
      for (int i = int(w) % program.block_warps; i < program.turn_passes; ++i)
        warps_[w].passes.push_back(0);
    }
  }

  Result<LoopTiming> run() {
    if (program_.instructions.empty()) return internal_error("a loop without instructions");
    for (now_ = 0; !is_done(); ++now_) {
      if (now_ > kMostClocks)
        return internal_error("the loop's warps wait for each other for ever");
      step();
    }
    return result();
  }

 private:
  bool is_done() const {
    return std::all_of(warps_.begin(), warps_.end(),
                       [](const Warp& warp) { return warp.iteration >= kWarmUp + kMeasured; });
  }

  void step() {
    std::vector<std::optional<ClockUse>> blocked;
    for (const Warp& warp : warps_) blocked.push_back(blocker(warp));
    const int chosen = choose(blocked);
    for (size_t w = 0; w < warps_.size(); ++w) {
      const bool issues = int(w) == chosen;
      const ClockUse use = issues ? ClockUse::kIssue : blocked[w].value_or(ClockUse::kOtherWarp);
      if (is_measured(warps_[w])) ++warps_[w].uses[size_t(use)];
    }
    if (chosen >= 0) issue(chosen);
  }

  // The warp that issued in the clock before goes on if it can and does not yield (arXiv
  // 2503.20481). Else the one that has waited longest issues (assumed). -1: none can.
  int choose(const std::vector<std::optional<ClockUse>>& blocked) const {
    int chosen = -1, going_on = -1;
    for (int w = 0; w < int(warps_.size()); ++w) {
      const Warp& warp = warps_[size_t(w)];
      if (blocked[size_t(w)]) continue;
      if (warp.goes_on && warp.issued + 1 == now_) {
        going_on = w;
        if (!warp.yields) return w;
      } else if (chosen < 0 || warp.issued < warps_[size_t(chosen)].issued) {
        chosen = w;
      }
    }
    return chosen >= 0 ? chosen : going_on;
  }

  static bool is_measured(const Warp& warp) {
    return warp.iteration >= kWarmUp && warp.iteration < kWarmUp + kMeasured;
  }

  // What keeps the warp from issuing now; nothing: it can issue.
  std::optional<ClockUse> blocker(const Warp& warp) const {
    if (warp.is_in_meeting && !is_meeting_over(warp)) return ClockUse::kTurn;
    if (warp.ready > double(now_)) return warp.ready_after;
    const TimedInstruction& in = program_.instructions[warp.at];
    const Scoreboard* latest = nullptr;
    for (int i = 0; i < SassControl::kNumScoreboards; ++i) {
      const Scoreboard& scoreboard = warp.scoreboards[size_t(i)];
      if ((in.control.waits >> i & 1) == 0 || scoreboard.closes <= double(now_)) continue;
      if (latest == nullptr || scoreboard.closes > latest->closes) latest = &scoreboard;
    }
    if (latest != nullptr) return latest->waits_for;
    if (in.action == Action::kProductWait && !is_group_done(warp, in.pending))
      return ClockUse::kTensor;
    if (in.action == Action::kSync && program_.meetings[warp.at] == Meeting::kTurn &&
        !has_turn(warp))
      return ClockUse::kTurn;
    return busy_unit(in, warp);
  }

  std::optional<ClockUse> busy_unit(const TimedInstruction& in, const Warp& warp) const {
    if (in.action == Action::kProduct) {
      // Its tiles have come, whether or not this way tests the mbarrier that says so.
      if (warp.iteration * program_.data_clocks > double(now_)) return ClockUse::kData;
      const bool is_full =
          units_.waiting_products(warp_index(warp), double(now_)) >= constants_.tensor_queue;
      return is_full ? std::optional(ClockUse::kTensor) : std::nullopt;
    }
    if (units_.accepts(in, double(now_))) return std::nullopt;
    return use_of(in.pipe);
  }

  // What waiting for a pipe, or for a result of it, counts as.
  static ClockUse use_of(SmPipe pipe) {
    switch (pipe) {
      case SmPipe::kFma:
      case SmPipe::kFmaHeavy:
        return ClockUse::kFma;
      case SmPipe::kAlu:
        return ClockUse::kAlu;
      case SmPipe::kUniform:
        return ClockUse::kUniform;
      case SmPipe::kSpecial:
        return ClockUse::kSpecial;
      case SmPipe::kShared:
        return ClockUse::kShared;
      case SmPipe::kTensor:
        return ClockUse::kTensor;
      case SmPipe::kMemory:
        return ClockUse::kMemory;
      case SmPipe::kNone:
        return ClockUse::kStall;
    }
    return ClockUse::kStall;
  }

  int warp_index(const Warp& warp) const { return int(&warp - warps_.data()); }

  int first_of_block(int warp) const { return warp - warp % program_.block_warps; }
  int next_of_block(int warp, int places) const {
    return first_of_block(warp) + (warp % program_.block_warps + places) % program_.block_warps;
  }

  bool is_group_done(const Warp& warp, int pending) const {
    const size_t count = warp.groups.size();
    if (count <= size_t(pending)) return true;
    const double end = warp.groups[count - 1 - size_t(pending)];
    return end + constants_.tensor_return <= double(now_);
  }

  bool has_turn(const Warp& warp) const {
    const size_t needed = (warp.turns_taken + 1) * size_t(program_.turn_passes);
    return needed <= warp.passes.size() && warp.passes[needed - 1] <= double(now_);
  }

  bool is_meeting_over(const Warp& warp) const {
    const auto first = warps_.begin() + first_of_block(warp_index(warp));
    return std::all_of(first, first + program_.block_warps, [&](const Warp& other) {
      return other.meetings > warp.meetings ||
             (other.meetings == warp.meetings &&
              (!other.is_in_meeting || other.ready <= double(now_)));
    });
  }

  void issue(int index) {
    Warp& warp = warps_[size_t(index)];
    const TimedInstruction& in = program_.instructions[warp.at];
    warp.is_in_meeting = false;
    warp.yields = in.control.yields;
    warp.ready = double(now_) + std::max(1, in.control.stall);
    warp.ready_after = ClockUse::kStall;
    warp.issued = now_;
    warp.goes_on = true;
    perform(in, index, &warp);
    ++warp.at;
    if (warp.at == program_.instructions.size()) end_iteration(&warp);
  }

  void perform(const TimedInstruction& in, int index, Warp* warp) {
    if (in.action == Action::kProduct) return start_product(in, index, warp);
    double done = units_.start(in, double(now_)) + in.latency;
    if (in.action == Action::kDataWait)
      done = std::max(done, warp->iteration * program_.data_clocks);
    if (in.action == Action::kProductWait) forget_groups(warp);
    if (in.action == Action::kSync || in.action == Action::kArrive) meet(in, index, warp);
    const ClockUse result = waits_for(in);
    open(warp, in.control.write_scoreboard, done, result);
    open(warp, in.control.read_scoreboard,
         result == ClockUse::kSync ? done : double(now_) + constants_.operand_read, result);
  }

  static ClockUse waits_for(const TimedInstruction& in) {
    if (in.action == Action::kDataWait) return ClockUse::kData;
    if (in.pipe == SmPipe::kNone && in.sass_class == SassClass::kSync) return ClockUse::kSync;
    // Stall counts wait for results of these pipes.
    const bool is_fixed = in.pipe == SmPipe::kFma || in.pipe == SmPipe::kFmaHeavy ||
                          in.pipe == SmPipe::kAlu || in.pipe == SmPipe::kUniform;
    return is_fixed ? ClockUse::kStall : use_of(in.pipe);
  }

  static void open(Warp* warp, int scoreboard, double closes, ClockUse waits_for) {
    if (scoreboard >= SassControl::kNumScoreboards) return;
    Scoreboard& open = warp->scoreboards[size_t(scoreboard)];
    if (closes > open.closes) open = {closes, waits_for};
  }

  void start_product(const TimedInstruction& in, int index, Warp* warp) {
    const double end = units_.start_product(in, index, double(now_));
    if (in.ends_group) warp->groups.push_back(end);
  }

  // Groups that are done matter no more; a wait only counts from the newest.
  static void forget_groups(Warp* warp) {
    constexpr size_t kKept = 8;
    while (warp->groups.size() > kKept) warp->groups.pop_front();
  }

  void meet(const TimedInstruction& in, int index, Warp* warp) {
    const Meeting meeting = program_.meetings[warp->at];
    const double then = double(now_) + constants_.barrier;
    if (meeting == Meeting::kTurn) {
      if (in.action == Action::kSync) {
        ++warp->turns_taken;
        warp->turns_passed_on = 0;
        return;
      }
      const int places = 1 + warp->turns_passed_on++ % program_.turn_passes;
      warps_[size_t(next_of_block(index, places))].passes.push_back(then);
      return;
    }
    if (in.action == Action::kArrive) return;
    warp->ready = std::max(warp->ready, then);
    warp->ready_after = ClockUse::kSync;
    if (meeting == Meeting::kEvery) {
      ++warp->meetings;
      warp->is_in_meeting = true;
    }
  }

  void end_iteration(Warp* warp) {
    warp->at = 0;
    warp->goes_on = false;
    ++warp->iteration;
    const double next = double(now_) + 1;
    if (warp->iteration == kWarmUp) warp->measured_from = next;
    if (warp->iteration == kWarmUp + kMeasured) warp->measured_to = next;
  }

  LoopTiming result() const {
    LoopTiming timing;
    const double share = 1.0 / kMeasured / double(warps_.size());
    for (const Warp& warp : warps_) {
      timing.clocks += (warp.measured_to - warp.measured_from) * share;
      for (size_t i = 0; i < timing.uses.size(); ++i) timing.uses[i] += warp.uses[i] * share;
    }
    set_bounds(&timing);
    return timing;
  }

  void set_bounds(LoopTiming* timing) const {
    double heavy = 0, operands = 0;
    for (const TimedInstruction& in : program_.instructions) {
      timing->issue_bound += 1;
      if (in.action == Action::kProduct)
        operands += double(in.operand_bytes) / constants_.shared_bytes;
      switch (in.pipe) {
        case SmPipe::kFmaHeavy:
          heavy += in.clocks;
          [[fallthrough]];
        case SmPipe::kFma:
          timing->fma_bound += in.clocks / 2.0;
          break;
        case SmPipe::kAlu:
          timing->alu_bound += in.clocks;
          break;
        case SmPipe::kSpecial:
          timing->special_bound += in.clocks;
          break;
        case SmPipe::kTensor:
          timing->tensor_bound += in.clocks;
          break;
        case SmPipe::kShared:
          timing->shared_bound += in.clocks;
          break;
        default:
          break;
      }
    }
    timing->fma_bound = std::max(timing->fma_bound, heavy);
    timing->shared_bound += operands;
    for (double* bound : {&timing->issue_bound, &timing->fma_bound, &timing->alu_bound,
                          &timing->special_bound, &timing->tensor_bound, &timing->shared_bound})
      *bound *= double(warps_.size());
    timing->data_bound = program_.data_clocks;
  }

  const LoopProgram& program_;
  const TimingConstants& constants_;
  SmUnits units_;
  std::vector<Warp> warps_;
  int64_t now_ = 0;
};

}  // namespace

const char* clock_use_name(ClockUse use) {
  constexpr const char* kNames[] = {"issue",   "other warp", "stall",  "fma",    "alu",
                                    "uniform", "special",    "shared", "memory", "tensor",
                                    "turn",    "data",       "sync"};
  static_assert(std::size(kNames) == kNumClockUses);
  return kNames[size_t(use)];
}

double LoopTiming::bound() const {
  return std::max(
      {issue_bound, fma_bound, alu_bound, special_bound, tensor_bound, shared_bound, data_bound});
}

Result<LoopTiming> simulate(const LoopProgram& program, const TimingConstants& constants) {
  return LoopSimulator(program, constants).run();
}

}  // namespace lssar
