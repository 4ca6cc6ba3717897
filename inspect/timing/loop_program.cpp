#include "inspect/timing/loop_program.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace lssar {
namespace {

// Decides how warps meet at the barriers of the loop.
class Meetings {
 public:
  explicit Meetings(LoopProgram* program) : program_(*program) {
    program_.meetings.assign(program_.instructions.size(), Meeting::kNone);
  }

  void decide() {
    std::set<std::pair<int, int>> barriers;  // number, threads
    for (const TimedInstruction& in : program_.instructions) {
      if (is_barrier(in)) barriers.insert({in.barrier, in.barrier_threads});
    }
    for (const auto& [barrier, threads] : barriers) decide(barrier, threads);
  }

 private:
  static bool is_barrier(const TimedInstruction& in) {
    return in.action == Action::kSync || in.action == Action::kArrive;
  }

  void decide(int barrier, int threads) {
    const int groups = threads / kWarpGroup;
    if (groups == 1) return;  // its warps are on different schedulers and run alike
    const int syncs = count(barrier, threads, Action::kSync);
    const int arrivals = count(barrier, threads, Action::kArrive);
    Meeting meeting = Meeting::kNone;
    const bool has_others = program_.block_warps > 1;
    const bool is_own = barrier == TimedInstruction::kOwnBarrier;
    const bool is_ring = groups == 2, is_of_all = groups == program_.block_warps;
    if (has_others && is_own && (is_ring || is_of_all) && arrivals == syncs * (groups - 1)) {
      meeting = Meeting::kTurn;
      program_.turn_passes = groups - 1;
    }
    if (has_others && !is_own && is_of_all && arrivals == 0) meeting = Meeting::kEvery;
    if (meeting == Meeting::kNone) {
      program_.notes.push_back(
          fmt::format("{} BAR.SYNC and {} BAR.ARV of {} threads cannot be followed: they only cost "
                      "their latency",
                      syncs, arrivals, threads));
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const TimedInstruction& in = program_.instructions[i];
      if (is_barrier(in) && in.barrier == barrier && in.barrier_threads == threads)
        program_.meetings[i] = meeting;
    }
  }

  int count(int barrier, int threads, Action action) const {
    return int(std::count_if(program_.instructions.begin(), program_.instructions.end(),
                             [&](const TimedInstruction& in) {
                               return in.action == action && in.barrier == barrier &&
                                      in.barrier_threads == threads;
                             }));
  }

  LoopProgram& program_;
};

// Bytes of tiles that an iteration reads for the first time.
double streamed_bytes(const LoopProgram& program, bool streams_all) {
  double bytes = 0;
  std::set<uint32_t> fresh_sums;  // their accumulators
  for (const TimedInstruction& in : program.instructions) {
    if (in.action != Action::kProduct) continue;
    if (in.is_fresh) fresh_sums.insert(in.accumulator);
    if (streams_all || fresh_sums.contains(in.accumulator)) bytes += in.streamed_bytes;
  }
  return bytes;
}

}  // namespace

Result<LoopProgram> loop_program(const SassKernel& kernel, const LoopWay& way,
                                 const LoopSettings& settings, const TimingConstants& constants) {
  LoopProgram program;
  program.blocks = settings.blocks;
  program.block_warps = settings.block_warps;
  for (const uint32_t i : way.instructions) {
    LSSAR_ASSIGN_OR_RETURN(const TimedInstruction in,
                           timed_instruction(kernel.instructions[i], constants));
    program.instructions.push_back(in);
  }
  Meetings(&program).decide();
  if (settings.l2_bytes_per_clock > 0) {
    program.data_clocks =
        streamed_bytes(program, settings.streams_all_products) / settings.l2_bytes_per_clock;
  }
  return program;
}

FreshProducts fresh_products(const LoopProgram& program) {
  FreshProducts fresh;
  for (const TimedInstruction& in : program.instructions) {
    if (in.action != Action::kProduct || !in.is_fresh) continue;
    if (fresh.columns == 0) fresh.columns = in.columns;
    fresh.count += in.columns == fresh.columns;
  }
  return fresh;
}

InstructionRun longest_run(const LoopProgram& program, SmPipe pipe) {
  constexpr size_t kMostBetween = 1;
  InstructionRun longest, run;
  size_t last = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const TimedInstruction& in = program.instructions[i];
    if (in.pipe != pipe) continue;
    if (run.length == 0 || i - last > kMostBetween + 1) run = {in.address, 0};
    ++run.length;
    last = i;
    if (run.length > longest.length) longest = run;
  }
  return longest;
}

}  // namespace lssar
