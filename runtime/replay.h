// Log lines that can be done again: what a prepare or an execute was, as a command line.
//
// Used by plans and by the command. Threads: pure functions.
#pragma once

#include <string>

#include "codegen/sizes.h"
#include "runtime/engine.h"

namespace lssar {

// "lssar_forward_bf16_d64 on NVIDIA H200; schedule: default (no record ...); compiled in 312 ms;
// key 0123: lssar prepare --pass forward ...". `reason` is ScheduleChoice's. The command prepares
// the kernel of that key, given the compiler and the version of lssar that this one had.
std::string prepare_line(const PreparedKernel& kernel, Engine& engine, const std::string& reason);

// The two parts of that line.
std::string prepare_summary(const PreparedKernel& kernel, Engine& engine,
                            const std::string& reason);
std::string prepare_command(const PreparedKernel& kernel, Engine& engine);

// "lssar_forward_bf16_d64, key 0123: lssar verify --pass forward ...": the kernel, with the sizes
// of the call and numbers of the command's own.
std::string execute_line(const PreparedKernel& kernel, Engine& engine, const Sizes& sizes);

// "from memory", "from the cache in 0.4 ms", "compiled in 312 ms".
std::string image_origin_text(const PreparedKernel& kernel);

// What the command's options need beside the problem's to come to this schedule, whatever the
// user's tuning table says: " --schedule '{...}'"; " --untuned" where it is the default.
std::string schedule_option(const Schedule& schedule, const Problem& problem, const Target& target);

}  // namespace lssar
