// Rules of Variant::kHopper, part by part, for its defaults: what does not fit is left out of them.
// check_hopper (codegen/schedule_rules.h) is all of them.
//
// Threads: pure functions.
#pragma once

#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/schedule_rules.h"
#include "codegen/target.h"

namespace lssar {

inline constexpr int kHopperMaxCols = 256;  // of a wgmma
inline constexpr int kHopperMaxStages = 12;
inline constexpr int kHopperMinStages = 2;

// REQUIRES: hopper_reason(problem, target).ok(), and the pass is not backward.
Breach check_hopper_forward(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                            const Target& target);
// The same for the backward.
Breach check_hopper_backward(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                             const Target& target);
// Whether StorePath::kTma, if it is chosen, is possible.
Breach check_hopper_store(const Refuse& refuse, const Schedule& schedule, const Problem& problem);
// Whether HopperOptions::tickets, if they are chosen, are possible.
Breach check_hopper_tickets(const Refuse& refuse, const HopperOptions& hopper);

}  // namespace lssar
