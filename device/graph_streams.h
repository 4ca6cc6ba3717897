// What only devices have whose streams can be captured into graphs. Users of a Device that must not
// wait for such a stream ask for it by dynamic_cast.
//
// Threads: as Device.
#pragma once

#include "base/status.h"
#include "device/device.h"

namespace lssar {

class GraphStreams {
 public:
  virtual ~GraphStreams() = default;
  // Whether launches on the stream are recorded instead of run. If so, nothing may wait for the
  // stream or copy on it. An error if the driver cannot tell.
  virtual Result<bool> is_capturing(Stream stream) = 0;
};

}  // namespace lssar
