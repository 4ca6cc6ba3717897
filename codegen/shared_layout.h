// The named parts of a kernel's dynamic shared memory, for people and for the host's sizes: the
// *_shared_bytes of codegen/shapes.h sum these parts, and the emitted source asserts that the
// device's layout has the same size.
//
// Used by `lssar report`. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "codegen/problem.h"
#include "codegen/schedule.h"

namespace lssar {

struct SharedPart {
  std::string name;  // "queries", "key or value tile", "barriers"
  std::string note;  // its purpose in a few words
  int offset = 0;    // bytes
  int bytes = 0;
  int stage = -1;  // the stage of its ring; -1: not in a ring
};

// Sorted by offset, without gaps. Empty for a kernel without dynamic shared memory. `entry` is that
// of a LaunchStep, "lssar_forward".
std::vector<SharedPart> shared_layout(const Problem& problem, const Schedule& schedule,
                                      const std::string& entry);

}  // namespace lssar
