// Rules of the search space beyond legality: schedules that compile but cannot be good.
#include <fmt/format.h>

#include "autotune/space/registers.h"
#include "autotune/space/search_space.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

// The least number of registers that a thread needs besides its accumulators: for addresses and row
// statistics.
constexpr int kOtherRegisters = 16;

Breach check_registers(const Refuse& refuse, const TilingRules& rules, int accumulators,
                       int registers) {
  if (accumulators + kOtherRegisters <= registers) return {};
  return refuse(rules.registers, registers, [&] {
    return fmt::format(
        "its accumulators alone take {}, and {} for the rest are the least: it would spill",
        accumulators, kOtherRegisters);
  });
}

// min_blocks of a portable kernel only limits registers.
Breach check_blocks(const Refuse& refuse, const TilingRules& rules, const Tiling& tiling,
                    int shared_bytes, const Target& target) {
  if (tiling.min_blocks <= 1 ||
      (shared_bytes + kReservedSharedBytes) * tiling.min_blocks <= target.shared_bytes_per_sm)
    return {};
  return refuse(rules.min_blocks, tiling.min_blocks, [&] {
    return fmt::format(
        "that many blocks of {} bytes of shared memory do not fit on an SM: registers would be "
        "saved for nothing",
        shared_bytes);
  });
}

Breach check_tiling(const Refuse& refuse, const TilingRules& rules, const Schedule& schedule,
                    const Tiling& tiling, int accumulators, int shared_bytes,
                    const Target& target) {
  if (schedule.variant == Variant::kPortable)
    LSSAR_RETURN_IF_BROKEN(check_blocks(refuse, rules, tiling, shared_bytes, target));
  return check_registers(refuse, rules, accumulators, thread_registers(schedule, tiling, target));
}

}  // namespace

Breach check_worth(const Schedule& schedule, const Problem& problem, const Target& target,
                   Reasons reasons) {
  if (target.is_cpu()) return {};  // its rules leave out all that cannot be good
  const Refuse refuse(reasons);
  const auto portable_bytes = [&](int (*bytes)(const Problem&, const Schedule&)) {
    return schedule.variant == Variant::kPortable ? bytes(problem, schedule) : 0;
  };
  if (problem.pass != Pass::kBackward)
    return check_tiling(refuse, kForwardRules, schedule, schedule.forward,
                        forward_accumulators(problem, schedule),
                        portable_bytes(forward_shared_bytes), target);
  LSSAR_RETURN_IF_BROKEN(check_tiling(refuse, kDkdvRules, schedule, schedule.dkdv,
                                      dkdv_accumulators(problem, schedule),
                                      portable_bytes(dkdv_shared_bytes), target));
  if (!has_dq_tiles(schedule)) return {};
  const int accumulators =
      sums_dq(schedule) ? epsilon_accumulators(schedule) : dq_accumulators(problem, schedule);
  return check_tiling(refuse, kDqRules, schedule, schedule.dq, accumulators,
                      portable_bytes(dq_shared_bytes), target);
}

Breach find_rejection(const Schedule& schedule, const Problem& problem, const Target& target,
                      Reasons reasons) {
  LSSAR_RETURN_IF_BROKEN(find_breach(schedule, problem, target, reasons));
  return check_worth(schedule, problem, target, reasons);
}

}  // namespace lssar
