// How a running block stops: an exception from where it went wrong to BlockRunner::run, which turns
// it into a Status.
#pragma once

#include <string>

#include "base/status.h"
#include "virtual/state/cta.h"

namespace lssar::vdev {

struct LaunchFault {
  Status status;
};

// "kernel k, block (0, 0, 0), warp 1, PTX line 12 'bar.sync 0;'"
std::string describe_place(const Cta& cta, uint32_t warp, const Op& op);

}  // namespace lssar::vdev
