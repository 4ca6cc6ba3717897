// Opens the device on which a subcommand runs a problem's kernels.
#pragma once

#include <memory>

#include "base/status.h"
#include "codegen/problem.h"
#include "runtime/engine.h"

namespace lssar::command {

// kAuto takes a GPU if there is one, else the cpu device if it has kernels for all passes of the
// problem's call, else the virtual device; a line on standard error then says why. A GPU's target,
// a given schedule (`has_schedule`), LSSAR_OVERRIDE_DIR and LSSAR_DEBUG_WAITS ask for a GPU's
// kernels. So with them kAuto takes a GPU or the virtual device, without a line. With a CPU's
// target it takes the cpu device. Other choices are opened as Engine::open does.
Result<std::unique_ptr<Engine>> open_engine_for(const Problem& problem, EngineOptions options,
                                                bool has_schedule);

}  // namespace lssar::command
