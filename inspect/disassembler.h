// NVIDIA's disassembler, found at run time: machine code of a cubin as text.
//
// Threads: any number at once.
#pragma once

#include <string>

#include "base/status.h"

namespace lssar {

// Its path: LSSAR_NVDISASM where it is set ("none": there is none), else nvdisasm in PATH, of a
// CUDA toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda*), or of NVIDIA's wheels in VIRTUAL_ENV and
// the usual Python folders. kMissing says where was looked, and how to get one.
Result<std::string> find_disassembler();

// A listing with labels, and with the source's lines where the cubin has them (-lineinfo). Errors:
// those of find_disassembler; kIoError where it fails, with what it said.
Result<std::string> disassemble(const std::string& cubin);

}  // namespace lssar
