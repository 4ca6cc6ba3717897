// The parts of a capture as files: `lssar replay --extract`.
//
// Threads: a pure function of the capture and the file system.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/capture.h"

namespace lssar::command {

// Writes to `folder`, which is made if it is missing: manifest.json, problem.json, schedule.json
// (of the call's kernel, in the form that --problem and --schedule of `lssar prepare` take),
// NAME.cu and NAME.ptx or .cubin of every kernel, inputs/*.npy and outputs/*.npy in float32.
// Returns the names of the files.
Result<std::vector<std::string>> write_capture_files(const std::string& folder,
                                                     const Capture& capture);

}  // namespace lssar::command
