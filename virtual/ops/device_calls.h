// The functions that every device has, as handlers call them. Plain declarations, because the
// handlers are compiled for several instruction sets.
#pragma once

#include <cstdint>

#include "virtual/state/warp.h"

namespace lssar::vdev {

// printf of one lane, to the log at info level. `format` and the arguments are generic addresses;
// the arguments lie as in a struct. Returns how many arguments there were, -1 without a format.
int32_t print_from_device(Warp& warp, const Op& op, uint32_t lane, uint64_t format,
                          uint64_t arguments);

// A failed assertion: stops the launch. The strings are generic addresses.
[[noreturn]] void raise_assertion(Warp& warp, const Op& op, uint32_t lane, uint64_t message,
                                  uint64_t file, uint32_t line, uint64_t function);

}  // namespace lssar::vdev
