// Rules of the search space beyond legality: what would compile and could not be good.
#include <fmt/format.h>

#include "autotune/registers.h"
#include "autotune/search_space.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

// Registers a thread needs beside its accumulators, at the very least: addresses, row statistics.
constexpr int kOtherRegisters = 16;

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
  return check_registers(name, accumulators, thread_registers(schedule, tiling, target));
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
  if (!has_dq_tiles(schedule)) return {};
  const int accumulators =
      sums_dq(schedule) ? epsilon_accumulators(schedule) : dq_accumulators(problem, schedule);
  return check_tiling("dq", schedule, schedule.dq, accumulators, dq_shared_bytes(problem, schedule),
                      target);
}

}  // namespace lssar
