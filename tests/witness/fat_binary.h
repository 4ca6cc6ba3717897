// What nvcc puts into a program: a container of PTX and machine code.
#pragma once

#include <string>

#include "base/status.h"

namespace lssar::test {

// The PTX of the container that `wrapper` points to (__cudaRegisterFatBinary's argument).
// kUnsupported where it holds none, or only a compressed one.
Result<std::string> ptx_of_fat_binary(const void* wrapper);

}  // namespace lssar::test
