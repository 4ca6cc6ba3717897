// What lies where in a kernel's dynamic shared memory, by name: for people, and for the sizes that
// the host computes (the *_shared_bytes of codegen/shapes.h are the sums of these parts, and the
// emitted source asserts that the device's layout is as large).
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
  std::string note;  // what it is for: a few words
  int offset = 0;    // bytes
  int bytes = 0;
  int stage = -1;  // of the ring it belongs to; -1: there is one of it
};

// By offset, without gaps. Empty for a kernel without dynamic shared memory. `entry` is that of a
// LaunchStep, "lssar_forward".
std::vector<SharedPart> shared_layout(const Problem& problem, const Schedule& schedule,
                                      const std::string& entry);

}  // namespace lssar
