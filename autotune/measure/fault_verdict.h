// What a failed load, launch or wait says of the candidate that was run.
//
// Threads: pure functions.
#pragma once

#include <optional>

#include "autotune/table/tuning_record.h"
#include "base/status.h"

namespace lssar {

// The strict virtual device's reports are kRace (undefined values and missing fences too), a
// deadlock or an endless loop kTimeout, a global write out of bounds kOutOfBounds, else
// kDeviceError. Nothing: not the candidate's fault (no memory, a file, a bug of ours).
// REQUIRES: !status.ok().
std::optional<Verdict> verdict_of_run(const Status& status);

// The same of emitting, compiling and preparing: kCompileError, also for a schedule that is not
// legal; kDeviceError where the image does not load.
std::optional<Verdict> verdict_of_prepare(const Status& status);

}  // namespace lssar
