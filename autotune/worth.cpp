// Rules of the search space beyond legality: what would compile and could not be good.
#include <algorithm>

#include <fmt/format.h>

#include "autotune/search_space.h"
#include "codegen/kernel.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

// Registers a thread needs beside its accumulators, at the very least: addresses, row statistics.
constexpr int kOtherRegisters = 16;

// A fragment of 16 rows and these columns takes half as many registers of each of 32 threads.
constexpr int fragment(int cols) { return cols / 2; }

bool has_x(const Problem& problem) {
  return problem.pass == Pass::kForwardTrain && needs_x(problem);
}

// Registers of a thread that multiplies.
int available(const Schedule& schedule, const Tiling& tiling, const Target& target) {
  if (schedule.variant == Variant::kHopper) {
    const RegisterSplit split = hopper_registers(schedule.hopper, tiling);
    return split.consumer != 0 ? split.consumer : hopper_launch_registers(tiling);
  }
  const int threads = tiling_threads(tiling) * std::max(tiling.min_blocks, 1);
  return std::min(target.registers_per_sm / threads / 8 * 8, target.registers_per_thread);
}

// Accumulators that are live together where most are.
int forward_accumulators(const Problem& problem, const Schedule& schedule) {
  const HopperOptions& hopper = schedule.hopper;
  const bool is_hopper = schedule.variant == Variant::kHopper;
  const int tiles = is_hopper && hopper.overlap ? 2 : 1;  // the next scores are in flight
  const int queries = is_hopper && hopper.queries_in_registers ? problem.head_dim / 4 : 0;
  const int output = fragment(schedule.block_dv) * (has_x(problem) ? 2 : 1);
  const int weighing = tiles * fragment(schedule.forward.block_cols) + output;
  const int summing = is_hopper ? tiles * fragment(hopper.score_cols) : 0;
  return queries + std::max(weighing, summing);
}

int dkdv_accumulators(const Problem& problem, const Schedule& schedule) {
  const int dk = fragment(problem.head_dim), dv = fragment(problem.head_dim_v);
  const int scores = fragment(schedule.dkdv.block_cols);
  return schedule.split_dkdv ? std::max(dk + 2 * scores, dv + scores) : dk + dv + 2 * scores;
}

int dq_accumulators(const Problem& problem, const Schedule& schedule) {
  return fragment(problem.head_dim) + 2 * fragment(schedule.dq.block_cols);
}

Status check_registers(const char* name, int accumulators, int registers) {
  if (accumulators + kOtherRegisters <= registers) return {};
  return invalid_argument(
      fmt::format("schedule.{}.registers = {}: its accumulators alone take {}, and {} for the rest "
                  "are the least: it would spill",
                  name, registers, accumulators, kOtherRegisters));
}

// min_blocks of a portable kernel is only a limit of registers.
Status check_blocks(const char* name, const Tiling& tiling, int shared_bytes,
                    const Target& target) {
  constexpr int kReservedBytes = 1024;  // of each block, by the driver
  if (tiling.min_blocks <= 1 ||
      (shared_bytes + kReservedBytes) * tiling.min_blocks <= target.shared_bytes_per_sm)
    return {};
  return invalid_argument(fmt::format(
      "schedule.{}.min_blocks = {}: that many blocks of {} bytes of shared memory do not fit on an "
      "SM: registers would be saved for nothing",
      name, tiling.min_blocks, shared_bytes));
}

Status check_tiling(const char* name, const Schedule& schedule, const Tiling& tiling,
                    int accumulators, int portable_bytes, const Target& target) {
  if (schedule.variant == Variant::kPortable)
    LSSAR_RETURN_IF_ERROR(check_blocks(name, tiling, portable_bytes, target));
  return check_registers(name, accumulators, available(schedule, tiling, target));
}

}  // namespace

Status check_worth(const Schedule& schedule, const Problem& problem, const Target& target) {
  if (problem.pass != Pass::kBackward)
    return check_tiling("forward", schedule, schedule.forward,
                        forward_accumulators(problem, schedule),
                        forward_shared_bytes(problem, schedule), target);
  LSSAR_RETURN_IF_ERROR(check_tiling("dkdv", schedule, schedule.dkdv,
                                     dkdv_accumulators(problem, schedule),
                                     dkdv_shared_bytes(problem, schedule), target));
  if (schedule.dq_mode != DqMode::kSplit) return {};
  return check_tiling("dq", schedule, schedule.dq, dq_accumulators(problem, schedule),
                      dq_shared_bytes(problem, schedule), target);
}

}  // namespace lssar
