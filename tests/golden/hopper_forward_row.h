// Schedules of Hopper's forwards as rows of a covering array: any two values of two factors that a
// schedule may have together are in one kernel together. A kernel for each value alone would be
// twice as many, and would miss what two of them do to one another.
//
// No state: any thread.
#pragma once

#include <string>
#include <vector>

#include "codegen/problem.h"
#include "tests/golden/covering_array.h"

namespace lssar {

// Problem, pass and schedule of a row.
struct HopperForward {
  Problem problem;
  std::string schedule_json;
};

// How many values each factor has.
std::vector<int> hopper_forward_counts();
// Whether the schedule is legal. A factor without a value has its simplest one.
bool allows_hopper_forward(const FactorRow& row);
HopperForward hopper_forward(const FactorRow& row);
std::vector<FactorRow> hopper_forward_rows();

}  // namespace lssar
