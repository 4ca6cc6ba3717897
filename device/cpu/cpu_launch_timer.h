// The launch timer of the cpu device. Its launches return at their end, so a sample is the wall
// time between two calls. Private to this folder. Threads: one at a time.
#pragma once

#include <memory>

#include "device/device.h"

namespace lssar {

std::unique_ptr<LaunchTimer> make_cpu_launch_timer(size_t num_samples);

}  // namespace lssar
