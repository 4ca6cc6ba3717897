// How a running block stops: a fault is an exception, and BlockRunner::run turns it into a Status.
#pragma once

#include <string>

#include "base/status.h"
#include "virtual/state/cta.h"

namespace lssar::vdev {

struct Instruction;

struct LaunchFault {
  Status status;
};

// "PTX line 12 'bar.sync 0;'", at most 200 characters of the text.
std::string describe_line(const Instruction& instruction);
// "kernel k, block (0, 0, 0), warp 1, PTX line 12 'bar.sync 0;'"
std::string describe_place(const Cta& cta, uint32_t warp, const Op& op);

}  // namespace lssar::vdev
