// The part of NVRTC's interface that is used, opened at run time. It has declarations of its own,
// so that the build needs no CUDA header. Used by nvrtc_compiler.cpp and its tests.
//
// Threads: immutable once opened. NVRTC itself may be called from many threads at once as long as
// each has its own program.
#pragma once

#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "base/status.h"

namespace lssar {

struct NvrtcProgramOpaque;
using NvrtcProgram = NvrtcProgramOpaque*;
using NvrtcResult = int;  // values are NVRTC's ABI

constexpr NvrtcResult kNvrtcSuccess = 0;
constexpr NvrtcResult kNvrtcOutOfMemory = 1;
constexpr NvrtcResult kNvrtcInvalidOption = 5;
constexpr NvrtcResult kNvrtcCompilation = 6;

struct NvrtcLibrary {
  DynamicLibrary library;

  // nvrtcGetSupportedArchs needs NVRTC 11.2. Older ones do not know sm_89 either.
  const char* (*get_error_string)(NvrtcResult) = nullptr;
  NvrtcResult (*version)(int* major, int* minor) = nullptr;
  NvrtcResult (*get_num_supported_archs)(int* count) = nullptr;
  NvrtcResult (*get_supported_archs)(int* archs) = nullptr;
  NvrtcResult (*create_program)(NvrtcProgram* program, const char* source, const char* name,
                                int num_headers, const char* const* headers,
                                const char* const* include_names) = nullptr;
  NvrtcResult (*destroy_program)(NvrtcProgram* program) = nullptr;
  NvrtcResult (*compile_program)(NvrtcProgram program, int num_options,
                                 const char* const* options) = nullptr;
  NvrtcResult (*get_ptx_size)(NvrtcProgram program, size_t* bytes) = nullptr;
  NvrtcResult (*get_ptx)(NvrtcProgram program, char* ptx) = nullptr;
  NvrtcResult (*get_cubin_size)(NvrtcProgram program, size_t* bytes) = nullptr;
  NvrtcResult (*get_cubin)(NvrtcProgram program, char* cubin) = nullptr;
  NvrtcResult (*get_log_size)(NvrtcProgram program, size_t* bytes) = nullptr;
  NvrtcResult (*get_log)(NvrtcProgram program, char* log) = nullptr;
};

// Where NVRTC is looked for, in order. If LSSAR_NVRTC_PATH is set, only there ("none": nowhere).
// Otherwise the names that the loader searches for, CUDA_HOME, CUDA_PATH, the usual installation
// folders, and the NVIDIA wheels of Python environments.
std::vector<std::string> nvrtc_candidates();

// kMissing lists what was tried, with the loader's reasons, and says what to install.
Result<NvrtcLibrary> open_nvrtc_library();

}  // namespace lssar
