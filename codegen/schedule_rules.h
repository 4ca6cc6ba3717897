// The rules and the defaults of each variant, which schedule.cpp puts together.
//
// Threads: pure functions.
#pragma once

#include <fmt/format.h>

#include "base/status.h"
#include "codegen/breach.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {

// For callers that ask only whether a rule holds.
inline constexpr Refuse kQuietly(Reasons::kLeftOut);

// Refuses `bytes` of shared memory if a block of the target may not have that many. `tiling` names
// the tiling that needs them.
Breach check_shared(const Refuse& refuse, const char* tiling, int bytes, const Target& target);

// Refuses another value than `allowed` of a field that decides the bits of results. Such fields are
// fixed with problem.invariant: a tuning record that is chosen for some sizes only would otherwise
// change bits.
template <class Value>
Breach check_fixed(const Refuse& refuse, const char* field, const Value& value,
                   const Value& allowed) {
  if (value == allowed) return {};
  return refuse(field, value, [&] {
    return fmt::format(
        "allowed is {} with problem.invariant, because the bits of results depend on it", allowed);
  });
}

void choose_portable(Schedule& schedule, const Problem& problem, const Target& target);

// Whether portable defaults see to it that each scheduler of an SM has two warps: two blocks, or
// one of 128 rows. This is so from sm_100 on, and in 16 bits where an SM has 100 KiB of shared
// memory (sm_86, sm_89). In fp32 tiles fill that memory anyway, and smaller ones are slower by the
// cost model.
bool fills_schedulers(const Problem& problem, const Target& target);
// Whether the default schedule divides keys among blocks (Schedule::split_keys). choose_split_keys
// sets that default, whose variant is portable.
bool prefers_split_keys(const Problem& problem);
void choose_split_keys(Schedule& schedule, const Problem& problem, const Target& target);
Breach check_split_keys(const Refuse& refuse, const Schedule& schedule, const Problem& problem);
Breach check_portable(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                      const Target& target);

// OK if Variant::kHopper can serve the problem, else the reason.
Status hopper_reason(const Problem& problem, const Target& target);
// Whether the default is Variant::kHopper, given the schedule's dq_mode.
bool prefers_hopper(const Schedule& schedule, const Problem& problem, const Target& target);
// REQUIRES: hopper_reason(problem, target).ok().
void choose_hopper(Schedule& schedule, const Problem& problem, const Target& target);
// Removes stages from one of the pass's tilings until it fits in shared memory or two stages are
// left. REQUIRES: Variant::kHopper.
void fit_stages(Schedule& schedule, Tiling Schedule::*tiling, const Problem& problem,
                const Target& target);
// Chooses StorePath::kRegisters if the forward cannot store by TMA.
void fit_store_path(Schedule& schedule, const Problem& problem);
// The same if the backward's parts of dq do not fit in shared memory.
void fit_sum_path(Schedule& schedule, const Problem& problem, const Target& target);
// Gives a staggered forward its own keys per tile and stages, instead of the default's. Does
// nothing if passes are not staggered.
void fit_stagger(Schedule& schedule, const Problem& problem, bool fits_cols, bool fits_stages);
// Drops HopperOptions::tickets if the forward cannot take them.
void fit_tickets(Schedule& schedule, const Problem& problem);
Breach check_hopper(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                    const Target& target);

// The default degree of the softplus polynomial, which all variants share.
int default_softplus_degree(const Problem& problem);

// The only variant of a CPU target.
void choose_cpu(Schedule& schedule, const Problem& problem, const Target& target);
Breach check_cpu(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                 const Target& target);

}  // namespace lssar
