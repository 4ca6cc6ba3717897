// Opens the device on which a subcommand runs a problem's kernels.
#pragma once

#include <memory>

#include "base/status.h"
#include "codegen/problem.h"
#include "runtime/engine.h"

namespace lssar::command {

// With another device than kAuto as Engine::open. kAuto takes a GPU if there is one, else the cpu
// device if it has kernels for all passes of the problem's call, else the virtual device, and a
// line on standard error says why. A target of a GPU asks for its kernels, and so do a given
// schedule
// (`has_schedule`), LSSAR_OVERRIDE_DIR and LSSAR_DEBUG_WAITS: then it is a GPU or the virtual
// device, and nothing is said. A target of a CPU asks for the cpu device.
Result<std::unique_ptr<Engine>> open_engine_for(const Problem& problem, EngineOptions options,
                                                bool has_schedule);

}  // namespace lssar::command
