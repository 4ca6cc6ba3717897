// The functions that every device has, as the handlers of calls reach them. Plain declarations: the
// handlers are compiled for several instruction sets.
#pragma once

#include <cstdint>

#include "virtual/state/warp.h"

namespace lssar::vdev {

// printf of one lane: to the log, at info level. Generic addresses of the format and of the
// arguments, which lie as in a struct. Gives how many arguments there were, -1 without a format.
int32_t print_from_device(Warp& warp, const Op& op, uint32_t lane, uint64_t format,
                          uint64_t arguments);

// A failed assertion stops the launch. Generic addresses of strings.
[[noreturn]] void raise_assertion(Warp& warp, const Op& op, uint32_t lane, uint64_t message,
                                  uint64_t file, uint32_t line, uint64_t function);

}  // namespace lssar::vdev
