// The verdict on a candidate whose load, launch or wait failed.
//
// Threads: pure functions.
#pragma once

#include <optional>

#include "autotune/table/tuning_record.h"
#include "base/status.h"

namespace lssar {

// The strict virtual device's reports give kRace (also undefined values and missing fences), a
// deadlock or an endless loop kTimeout, a global write out of bounds kOutOfBounds, everything else
// kDeviceError. Nothing: it is not the candidate's fault (no memory, a file, a bug of ours).
// REQUIRES: !status.ok().
std::optional<Verdict> verdict_of_run(const Status& status);

// The same for emitting, compiling and preparing. kCompileError: also a schedule that is not legal.
// kDeviceError: the image does not load.
std::optional<Verdict> verdict_of_prepare(const Status& status);

}  // namespace lssar
