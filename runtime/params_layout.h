// What every kernel takes by value, as a text: two that are equal can be launched by one library.
//
// Used by captures. Threads: a pure function.
#pragma once

#include <string>

namespace lssar {

// Sizes of lssar_device::AttentionParams and TmaParams, and where each field of the first lies.
std::string params_layout();

}  // namespace lssar
