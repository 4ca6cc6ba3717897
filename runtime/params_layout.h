// The layout of kernel parameters as text. A library can launch kernels whose text equals its own.
//
// Used by captures. Threads: a pure function.
#pragma once

#include <string>

namespace lssar {

// Sizes of lssar_device::AttentionParams and TmaParams, and the offset of each field of the first.
std::string params_layout();

}  // namespace lssar
