// Opens the engine of subcommands that show kernels and run none.
#pragma once

#include <memory>

#include "base/status.h"
#include "runtime/engine.h"

namespace lssar::command {

// As Engine::open, but a CPU's target takes the cpu device, and it may be one that this machine
// cannot run.
Result<std::unique_ptr<Engine>> open_engine_to_compile(EngineOptions options);

}  // namespace lssar::command
