// A launch step's function on a device, and what its grid depends on there.
#pragma once

#include "device/device.h"

namespace lssar {

struct StepFunction {
  StepFunction(const DeviceFunction* of, int clusters = 0)  // NOLINT: implicit on purpose
      : function(of), resident_clusters(clusters) {}

  const DeviceFunction* function;
  int resident_clusters;  // clusters that run at once; 0 if unknown or if the step has none
};

}  // namespace lssar
