// The parts of a capture as files: `lssar replay --extract`.
//
// Threads: a pure function of the capture and the file system.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/capture.h"

namespace lssar::command {

// Writes to `folder`, which is made where it is missing: manifest.json, problem.json, schedule.json
// (of the call's kernel, as --problem and --schedule of `lssar prepare` take them), NAME.cu and
// NAME.ptx or .cubin of every kernel, inputs/*.npy and outputs/*.npy, in float32. Returns what was
// written.
Result<std::vector<std::string>> write_capture_files(const std::string& folder,
                                                     const Capture& capture);

}  // namespace lssar::command
