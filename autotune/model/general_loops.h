// What a score costs in the loops of kernels whose score function is given as expressions.
//
// Internal to the cost model. Threads: pure functions. All functions REQUIRE is_general(c.problem).
#pragma once

#include "autotune/model/expression_cost.h"
#include "autotune/model/loop_work.h"

namespace lssar {

// A loop's instruction slots, and its special functions per score.
struct GeneralLoop {
  LoopSlots slots;
  double special;
};

GeneralLoop general_sum_loop(const WorkContext& c);    // pass 1: has_pass_one
GeneralLoop general_weigh_loop(const WorkContext& c);  // the pass that multiplies values
GeneralLoop general_dkdv_loop(const WorkContext& c, bool with_dk);
GeneralLoop general_dq_loop(const WorkContext& c);
GeneralLoop general_epsilon_loop(const WorkContext& c);

}  // namespace lssar
