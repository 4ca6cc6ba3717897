// The kernels of a pass in launch order, and the templates that they need.
//
// Used by emit.cpp. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "codegen/launch_step.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"

namespace lssar {

struct Step {
  LaunchStep launch;
  std::string call;           // the template's entry
  std::string shared_bytes;   // as the device computes it; empty without dynamic shared memory
  bool takes_ticket = false;  // of varlen: blocks are numbered in the order in which they start
  bool reads_all = false;     // of varlen: the entry also gets the parameters of all sequences
  int min_blocks = 1;         // row kernels are bound by memory and need no register limit
};

std::vector<Step> plan_steps(const Problem& problem, const Schedule& schedule);

// Files that, together with their includes, hold the templates of every step.
std::vector<std::string> template_roots(const Problem& problem, const Schedule& schedule);

}  // namespace lssar
