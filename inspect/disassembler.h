// Finds NVIDIA's disassembler at run time and lists the machine code of a cubin.
//
// Threads: any number at once.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace lssar {

// Its path: LSSAR_NVDISASM if it is set ("none": there is none), else nvdisasm in PATH, in a CUDA
// toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda*), or in NVIDIA's wheels in VIRTUAL_ENV and the
// usual Python folders. kMissing says where it was looked for and how to get one.
Result<std::string> find_disassembler();

enum class ListingWords : uint8_t { kLeftOut, kShown };

// A listing with labels, and with the source's lines if the cubin has them (-lineinfo). With
// kShown the words of each instruction follow it. Errors: those of find_disassembler. kIoError: it
// failed; the message has its output.
Result<std::string> disassemble(const std::string& cubin,
                                ListingWords words = ListingWords::kLeftOut);

}  // namespace lssar
