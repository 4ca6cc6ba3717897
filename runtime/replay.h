// Log lines with a command that repeats a prepare or an execute.
//
// Used by plans and by the command. Threads: pure functions.
#pragma once

#include <string>

#include "codegen/sizes.h"
#include "runtime/engine.h"

namespace lssar {

// "lssar_forward_bf16_d64 on NVIDIA H200; schedule: default (no record ...); compiled in 312 ms;
// key 0123: lssar prepare --pass forward ...". `reason` is ScheduleChoice's. With the same compiler
// and the same version of lssar the command prepares the kernel of that key.
std::string prepare_line(const PreparedKernel& kernel, Engine& engine, const std::string& reason);

// The two parts of that line.
std::string prepare_summary(const PreparedKernel& kernel, Engine& engine,
                            const std::string& reason);
std::string prepare_command(const PreparedKernel& kernel, Engine& engine);

// "lssar_forward_bf16_d64, key 0123: lssar verify --pass forward ...": the kernel and the call's
// sizes. The command makes its own input values.
std::string execute_line(const PreparedKernel& kernel, Engine& engine, const Sizes& sizes);

// "from memory", "from the cache in 0.4 ms", "compiled in 312 ms".
std::string image_origin_text(const PreparedKernel& kernel);

// The option that makes the command choose this schedule whatever the user's tuning table says: "
// --schedule '{...}'", or " --untuned" for the default.
std::string schedule_option(const Schedule& schedule, const Problem& problem, const Target& target);

}  // namespace lssar
