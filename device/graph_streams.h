// What only devices have whose streams can be captured into graphs: Device's users that must not
// wait for such a stream ask by dynamic_cast.
//
// Threads: as Device.
#pragma once

#include "base/status.h"
#include "device/device.h"

namespace lssar {

class GraphStreams {
 public:
  virtual ~GraphStreams() = default;
  // Whether launches on the stream are recorded instead of run: then nothing may wait for it, nor
  // copy. Where the driver cannot tell, it is an error.
  virtual Result<bool> is_capturing(Stream stream) = 0;
};

}  // namespace lssar
